"""The texts of problem details and warnings, each under a code that programs and translations can rely on.

    Problem(409, Text.SEND_RELEASED.filled(send_at="2026-11-21T08:00:00Z"))

The code is the name of the entry in lower case: `send_released`. The OpenAPI document lists all of them, and the
console has a message for each one in each of its languages (`web/src/i18n`).
"""

from collections.abc import Mapping
from enum import StrEnum


class CodedText(str):
    """A text with its code and parameters. A part of it, such as a slice, is a plain text."""

    __slots__ = ("code", "parameters")

    code: str
    # The values in the text: {name: value}.
    parameters: Mapping[str, str | int]


class Text(StrEnum):
    """Each text, with the names of its parameters in braces."""

    # Of every route.
    DEPENDENCY_DOWN = "{reason}"
    SERVICE_FAILED = "the service failed"
    SERVICE_MISCONFIGURED = "the service is misconfigured"
    ROUTE_UNKNOWN = "this resource does not exist"
    NO_CLUB = "These credentials may see no club."
    CLUB_NOT_PERMITTED = "These credentials may not see this club."
    CLUBS_NOT_PERMITTED = "These credentials may not see every club asked for."
    SCOPE_MISSING = "These credentials do not have the scope {scope}."
    TEST_KEY = "A test key may only read, and send to simulator recipients."
    TEST_KEY_RECIPIENTS = "A test key may send to simulator recipients only."
    REQUESTS_LIMIT = (
        "This key may use {maximum} requests each minute, and {remaining} remain until {reset};"
        " this request needs {amount}."
    )
    RECIPIENTS_LIMIT = (
        "This key may use {maximum} recipients each UTC day, and {remaining} remain until {reset};"
        " this request needs {amount}."
    )
    POLLS_WAITING = "This key has {polls} requests waiting already, and may have no more."
    # Of the form of a request.
    BODY_NOT_JSON = "the body is not JSON: {reason}"
    BODY_NOT_UTF8 = "the body is not UTF-8 text"
    BODY_NOT_AN_OBJECT = "the body is not a JSON object"
    BODY_NOT_EMPTY = "The request has no fields."
    BODY_TYPE = "The body must be {type}."
    NOT_ACCEPTABLE = "This resource is available as {types}."
    FIELD_INVALID = "{field}: {reason}"
    FIELDS_INVALID = "These fields cannot be used: {fields}."
    PARAMETERS_INVALID = "These parameters cannot be used: {parameters}."
    NO_PARAMETERS = "This route has no parameters: {parameters}"
    ERRORS_IN_FIRST_RESPONSE = "The first response has the errors."
    # Of idempotency keys.
    IDEMPOTENCY_KEY_REUSED = (
        "This Idempotency-Key belongs to another request of the last 24 hours: choose a new key for a new request."
    )
    IDEMPOTENCY_KEY_IN_PROGRESS = (
        "A request with this Idempotency-Key is in progress. Repeat the request after {seconds} s to get its response."
    )
    # Of sends.
    SENDING_NOT_PERMITTED = "These credentials may not send for this club."
    SEND_ID_IN_USE = "send_id: belongs to another send, or this part of it to other recipients"
    SEND_TOO_LARGE = "the send is larger than Kafka accepts: {reason}"
    SEND_INCOMPLETE = "Kafka has not taken the whole of send {send_id}: {reason}"
    SEND_UNKNOWN = "No send with this id is known; a send that was requested by Kafka is counted in seconds."
    SEND_ENDED = "The send has ended."
    SEND_ENDED_NO_PAUSE = "The send has ended: there is nothing to pause."
    SEND_ENDED_NO_CANCEL = "The send has ended: there is nothing to cancel."
    SEND_CANCELLED = "The send is cancelled."
    SEND_NOT_PAUSED = "The send is not paused."
    SEND_NOT_SCHEDULED = "The send is not scheduled."
    SEND_RELEASED = "The send is released: its send_at was {send_at}."
    COUNT_NOT_PERMITTED = "These credentials may not count users of this club."
    # Of notifications, metrics and users.
    LOG_OFF = "The log of recipients is off here: nothing is kept of single notifications."
    NOTIFICATION_UNKNOWN = (
        "No outcome of a notification with this name has been counted: <send_id>.<user_id>.<channel>."
    )
    QUERY_TOO_LARGE = "{reason}. Ask for a shorter range, a coarser granularity or with more filters."
    USER_INVALID = "user_id is invalid."
    USER_UNKNOWN = "This user is unknown."
    # Of operations.
    DEAD_LETTER_UNKNOWN = "The dead letter is unknown."
    DEAD_LETTER_UNCHANGED = "The dead letter is not changed: {reason}."
    SUPPRESSION_UNKNOWN = "The suppression is unknown."
    DEVICE_UNKNOWN = "The device is unknown, or it is not disabled."
    DEVICE_ENDED = "The device is {reason}: only a change of the monolith's row enables it."
    ENDPOINT_UNKNOWN = "The endpoint is unknown."
    ENDPOINT_DISABLED = "The endpoint is disabled: enable it first."
    ENDPOINT_DELETED = "The endpoint that this request created is deleted: choose a new key for another one."
    ENDPOINTS_TOO_MANY = "The club has {maximum} endpoints: delete one."
    DELIVERY_UNKNOWN = "The delivery is unknown, or older than 30 days."
    KEY_UNKNOWN = "The key is unknown."
    KEY_ENDED = "The key has ended."
    KEY_OF_REQUEST_ENDED = "The key that this request made has ended."
    KEY_BEYOND_CALLER = "The key would have more authority than these credentials."
    # Of single fields.
    TEMPLATE_UNKNOWN = "does not exist on any channel of the send (GET /v1/templates)"
    # Warnings about a send.
    TEMPLATE_FAILS = "a template '{template}' on {channel} cannot be rendered: {reason}"
    TEMPLATE_MISSING = "there is no template '{template}' on {channel}"
    DATA_IGNORED = "is not used on {channels}: the template '{template}' comes before title and body"
    DATA_UNUSED = "is not used: no template '{template}' reads it"
    AUDIENCE_CUT = "has more users than were read in time: the counts are those of its first {users}"
    COUNTS_ESTIMATED = "the counts are estimated from {examined} of {total} recipients"
    USERS_UNKNOWN = "{unknown} of {examined} users are unknown now; users of the last seconds may follow"

    @property
    def code(self) -> str:
        return self.name.lower()

    def filled(self, *, longest: int | None = None, **parameters: str | int) -> CodedText:
        """Return the text with its parameters.

        Args:
            longest: The largest number of characters of the text and of each parameter.

        Raises KeyError if a parameter is missing.
        """
        kept = {name: value[:longest] if isinstance(value, str) else value for name, value in parameters.items()}
        text = CodedText(self.value.format_map(parameters)[:longest])
        text.code, text.parameters = self.code, kept
        return text
