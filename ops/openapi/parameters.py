"""The parameters of several routes. The descriptions of most are the docstrings of their parsers."""

from dataclasses import replace

from masscomm.domain.ids import address_id
from masscomm.domain.time_limits import STREAM_WAIT_S
from masscomm.http import parameters as parse
from masscomm.http.tenant import parse_club_id
from ops.openapi.examples import NOON, ONE, SEND_ID
from ops.openapi.operation import DATE_TIME, ID, Parameter, Schema, number, several

ADDRESS_ID = address_id("ada@example.org")
ENDPOINT_ID = "ep_1_4fq2m7x9c1r8w3k5t6zb"
SOURCE_ID = "src_1_4fq2m7xbc5rdw3k5t6zbyjhe2n"
SUBSCRIPTION_ID = "sub_1_4fq2m7x9c1r8w3k5t6zb_9d2k4m6p8r1t"
EVENT_ID = "evt_5b0f6c7d8e9f4a1b8c2d3e4f5a6b7c8d"
DELIVERY_ID = EVENT_ID
KEY_ID = "7d793037a0760186"
NOTIFICATION = f"{SEND_ID}.42.push"
WORDS: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
_SEGMENT: Schema = {"type": "string", "minLength": 1}

START = Parameter("start", parse.time.form, DATE_TIME, NOON)
END = Parameter("end", parse.time.form, DATE_TIME, ONE)
CLUB_ID = Parameter("club_id", parse_club_id.form, several(ID), [1])
TYPE = Parameter("type", parse.words.form, several(WORDS), ["news"])
CHANNEL = Parameter("channel", parse.words.form, several(WORDS), ["push"])
CURSOR = Parameter("cursor", "`next_cursor` of the previous page")
WAIT = Parameter("wait", f"seconds to wait, at most {STREAM_WAIT_S}", number(0, STREAM_WAIT_S), 0)
# The problem of routes that wait.
WAITING = {429: "The key has as many requests waiting as it may; Retry-After has the seconds until a retry"}
# The headers of responses from counts.
WATERMARK = {
    "Masscomm-Watermark": "The member watermark of the body",
    "Masscomm-Generated-At": "The member generated_at of the body",
}
# Name → the parameter in the path.
IN_PATH = {
    each.name: replace(each, location="path")
    for each in (
        Parameter("category", "The name of the category", _SEGMENT, "news"),
        Parameter("delivery_id", "The id of the delivery", _SEGMENT, DELIVERY_ID),
        Parameter("device_id", "The id of the device in the monolith", _SEGMENT, "420"),
        Parameter("endpoint_id", "The id of the endpoint", _SEGMENT, ENDPOINT_ID),
        Parameter("event_type", "The name of the event type", _SEGMENT, "match.finished"),
        Parameter("key_id", "The id of the key", _SEGMENT, KEY_ID),
        Parameter("name", "The name of the saved audience", _SEGMENT, "germans"),
        Parameter("notification", "The notification: `<send_id>.<user_id>.<channel>`", _SEGMENT, NOTIFICATION),
        Parameter("position", "The position of the dead letter, partition@offset", _SEGMENT, "0@17"),
        Parameter("schedule", "The name of the schedule", _SEGMENT, "weekly"),
        Parameter("send_id", "The id of the send", _SEGMENT, SEND_ID),
        Parameter("source_id", "The id of the source", _SEGMENT, SOURCE_ID),
        Parameter("subscription_id", "The id of the subscription", _SEGMENT, SUBSCRIPTION_ID),
        Parameter("suppression", "The id of the suppression", _SEGMENT, f"1-{ADDRESS_ID}"),
        Parameter("tenant", "The id of the tenant, or `default` for the rules of every tenant", _SEGMENT, "1"),
        Parameter("token", "The signed token of the link in an e-mail: user, tenant, category and expiry", _SEGMENT),
        Parameter("user_id", "The id of the user", ID, 42),
    )
}


def page(default: int, highest: int) -> tuple[Parameter, Parameter]:
    """Return the parameters of a list in pages, with the default and the highest number of rows of a page."""
    return Parameter("limit", "The maximum number of rows", number(1, highest, default), 10), CURSOR
