"""A dry run and the chain: both have the same ends for every kind of user."""

from collections import Counter
from itertools import product
from typing import Any

from functions.device_registrar.endpoints import endpoint_arn
from functions.send_handler.dry_run import DryRunSend
from functions.send_handler.send_records import ANONYMOUS, SendIdentity, record_of
from functions.send_handler.send_request import SendRequest
from masscomm.domain.channels import CHANNELS
from masscomm.domain.lanes import Lane
from masscomm.domain.simulator import FIRST_ID, RESULTS, is_simulated
from masscomm.domain.statuses import PUBLISHED, Reason, Status
from masscomm.domain.suppressions import Suppression
from masscomm.domain.users import Device, Template, User, UserSettings
from masscomm.http.scopes import ALL_SCOPES
from masscomm.kafka import topics
from masscomm.rendering.templates import TemplateCache
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.contracts.directory import Row
from tests.support.harness.chain import NOW, SEND_ID
from tests.support.harness.settled_chain import SettledChain

CLUB = 7
_NIGHT = {"start": "22:00", "end": "07:00"}  # NOW is at 22:13 UTC.
_LONG_TITLE, _LONG_PUSH, _LONG_RECORD = "t" * 3_000, "x" * 5_000, "y" * 800_000


def person(user_id: int, **columns: Any) -> User:
    usual: dict[str, Any] = {"user_id": user_id, "club_id": CLUB, "email": f"user{user_id}@example.com"}
    return User(**usual | {"attributes": {"plan": "gold"}} | columns)


USERS = [
    person(1),
    person(2),
    person(3),
    person(4, club_id=8),
    person(5),  # without a device
    person(6, email=None),
    person(7),  # with a suppressed address
    person(8),  # with a disabled device
    person(9),  # in quiet hours
    person(10),  # in quiet hours, without a device
    person(11, attributes={}),
    person(12, attributes={"plan": _LONG_PUSH}),
    person(13, attributes={"plan": _LONG_RECORD}),
    person(14, email="not an address"),
    person(15, locale="de", time_zone="Asia/Tokyo", phone="+41 79 123 45 67"),
    person(16, time_zone="America/New_York"),
    person(17),  # with opted-in category
    person(18),  # with malformed settings
    person(19, locale="fr"),
]
SETTINGS = [
    UserSettings(user_id=2, channels={"push": False}),
    UserSettings(user_id=3, categories={"news": False, "newsletter": False, "security_alert": False}),
    UserSettings(user_id=9, quiet_hours=_NIGHT),
    UserSettings(user_id=10, quiet_hours=_NIGHT),
    UserSettings(user_id=15, quiet_hours=_NIGHT),
    UserSettings(user_id=16, quiet_hours=_NIGHT),
    UserSettings(user_id=17, categories={"news": True}),
    UserSettings(user_id=18, channels={"push": "yes"}, categories={"news": {"email": 1}}),
]
DEVICES = [
    Device(
        device_id=user.user_id,
        user_id=user.user_id,
        platform="gcm",
        endpoint_arn=endpoint_arn("gcm", f"{user.user_id}"),
    )
    for user in USERS
    if user.user_id not in (5, 10)
]
TEMPLATES = [
    Template(number, None, "news", channel, locale, "News", "{{ data.headline }}: {{ user.attributes.plan }}")
    for number, (channel, locale) in enumerate(product(CHANNELS, ("en", "de")))
]
ROWS: list[Row] = [
    *USERS,
    *SETTINGS,
    *TEMPLATES,
    *(device._replace(enabled=False) if device.user_id == 8 else device for device in DEVICES),
]
SUPPRESSED = Suppression(
    club_id=CLUB, address="user7@example.com", reason=Reason.COMPLAINED, at_ms=NOW, expires_ms=2 * NOW
)
# 20 is an unknown user, 1 is named twice.
TO_USERS = [*range(1, 21), *(FIRST_ID + last for last in RESULTS), FIRST_ID + 999, 1]


def chain_in_memory() -> SettledChain:
    """Return a chain with users of every kind in its directory."""
    chain = filled(SettledChain())
    for device_id in (1, 2, 3):
        chain.directory.remove(*chain.directory.devices([device_id])[device_id])
    chain.directory.put(*ROWS)
    chain.directory.suppress(SUPPRESSED)
    return chain


def filled(chain: SettledChain) -> SettledChain:
    """Return the chain after creating the endpoints of the devices."""
    for device in DEVICES:
        chain.push.put(device.endpoint_arn or "", enabled=True)
    return chain


SENDS: dict[str, dict[str, Any]] = {
    "now": {},
    "critical": {"priority": "critical"},
    "scheduled": {"send_at": "2023-11-15T21:55:00Z"},
    "scheduled into quiet hours": {"send_at": "2023-11-15T23:00:00Z"},
    "local": {"send_at_local": "2023-11-15T08:00"},
    "local into quiet hours": {"send_at_local": "2023-11-15T23:30"},
    "expires at night": {"expires_at": "2023-11-15T03:00:00Z"},
    "expires before the local time": {"send_at_local": "2023-11-15T09:00", "expires_at": "2023-11-15T03:00:00Z"},
    "by SMS, of which the file permits none": {"channels": ["sms"]},
    "without a template": {"type": "match_reminder"},
    "own texts": {"type": "match_reminder", "data": {"title": "Hi", "body": "You"}},
    "mandatory": {"type": "security_alert", "data": {"title": "Hi", "body": "You"}},
    "long title": {"type": "match_reminder", "data": {"title": _LONG_TITLE, "body": "You"}},
    "in a locale": {"locale": "de"},
    "one recipient": {"to_users": [9]},
    "silent": {"push": {"silent": True}},
    "silent into quiet hours": {"push": {"silent": True}, "send_at": "2023-11-15T23:00:00Z"},
    "own variables": {"recipient_data": {"1": {"headline": "z" * 5_000}, "2": {}}},
}


def check_dry_run(chain: SettledChain, name: str) -> set[str]:
    """Check that a dry run has the ends of the chain for every kind of user, and produces and publishes nothing.

    Returns the reasons of the users' ends, without those of simulator recipients.
    """
    fields: dict[str, Any] = {
        "type": "news",
        "club_id": CLUB,
        "to_users": TO_USERS,
        "channels": list(CHANNELS),
        "data": {"headline": "We won"},
    }
    send = SendRequest.model_validate(fields | SENDS[name])
    identity = SendIdentity(send_id=SEND_ID, requested_at_ms=NOW, chunk_size=5_000)
    dry_run = DryRunSend(
        directory=chain.read_from,
        templates=TemplateCache(chain.read_from, chain.clock),
        clock=chain.clock,
        frequency_caps=chain.frequency_caps,
        sends=InMemorySends(),
    )
    body = dry_run.answer(send, identity, lambda: 29.0, is_test=False, scopes=ALL_SCOPES)
    assert chain.producer.produced == []
    assert chain.push.calls == chain.email.calls == []
    users = list(dict.fromkeys(send.to_users))
    topic = topics.in_lane(topics.SEND_API, Lane(send.priority))
    ends = chain.settle([record_of(send, identity, ANONYMOUS, 0, 1, users)], topic)
    assert (body["estimated"], body["requested"]) == (False, len(ends))
    for channel in body["channels"]:
        found = Counter(end for (_, name), end in ends.items() if name == channel["channel"])
        published = sum(count for (status, _), count in found.items() if status in PUBLISHED)
        assert channel["deliverable"] + channel["held"] + channel["scheduled"] == published
        unpublished = {end: count for end, count in found.items() if end[0] not in PUBLISHED}
        assert {
            (each["status"], each["reason"]): each["count_total"]
            for each in channel["reasons"]
            if each["status"] not in PUBLISHED | {Status.HELD, Status.SCHEDULED}
        } == unpublished
    return {reason for (user_id, _), (_, reason) in ends.items() if reason and not is_simulated(user_id)}
