"""The texts for callers, each under a code that programs and translations can rely on.

    Problem(409, Text.SEND_RELEASED.filled(send_at="2026-11-21T08:00:00Z"))

The code is the name of the entry in lower case: `send_released`. The OpenAPI document lists all of them, and the
console has a message for each one in each of its languages (`web/src/i18n`).
"""

from collections.abc import Mapping
from enum import StrEnum, unique
from string import Formatter
from typing import NotRequired, TypedDict, overload


class CodedBody(TypedDict):
    """The code of a text, so that a program can translate it."""

    code: NotRequired[str]
    """Names the text. `x-texts` of `ProblemBody` has the codes; later versions may have further ones."""
    parameters: NotRequired[dict[str, str | int]]
    """The values in the text."""
    texts: NotRequired[dict[str, "CodedBody"]]
    """The codes of those values in `parameters` that are texts themselves, by the name of the value."""


class CodedText(str):
    """A text with its code and parameters. A part of it, such as a slice, is a plain text."""

    __slots__ = ("code", "parameters")

    code: str
    # The values in the text: {name: value}. A value may be a CodedText.
    parameters: Mapping[str, str | int]

    @classmethod
    def of(cls, words: str, code: str, parameters: Mapping[str, str | int]) -> "CodedText":
        text = cls(words)
        text.code, text.parameters = code, parameters
        return text

    def cut(self, longest: int) -> "CodedText":
        """Return the text with at most this number of characters, and in each of its parameters."""
        kept: dict[str, str | int] = {name: shortened(each, longest) for name, each in self.parameters.items()}
        return CodedText.of(self[:longest], self.code, kept)

    def body(self) -> CodedBody:
        """Return the members that identify the text in a response."""
        body: CodedBody = {"code": self.code, "parameters": dict(self.parameters)}
        texts = {name: each.body() for name, each in self.parameters.items() if isinstance(each, CodedText)}
        return {**body, "texts": texts} if texts else body


@overload
def shortened(value: str, longest: int) -> str: ...
@overload
def shortened(value: int, longest: int) -> int: ...
def shortened(value: str | int, longest: int) -> str | int:
    """Return a text with at most this number of characters; a CodedText keeps its code. A number is unchanged."""
    match value:
        case CodedText():
            return value.cut(longest)
        case str():
            return value[:longest]
    return value


def text_of(error: Exception) -> str:
    """Return the text of an error: a CodedText if the error was raised with one."""
    text = error.args[0] if len(error.args) == 1 else None
    return text if isinstance(text, CodedText) else str(error)


@unique
class Text(StrEnum):
    """Each text, with the names of its parameters in braces."""

    # Of every route.
    DEPENDENCY_DOWN = "{reason}"
    SERVICE_FAILED = "the service failed"
    SERVICE_MISCONFIGURED = "the service is misconfigured"
    ROUTE_UNKNOWN = "No route has this method and path. docs/api.md lists the routes."
    NO_CLUB = "These credentials may see no club."
    CLUB_NOT_PERMITTED = "These credentials may not see this club."
    CLUBS_NOT_PERMITTED = "These credentials may not see every club asked for."
    SCOPE_MISSING = "These credentials do not have the scope {scope}."
    USERS_NAMED = (
        "These credentials do not have the scope {scope}. A request that names users in {field} needs it, because its"
        " response may show single users."
    )
    USERS_FEW = (
        "These credentials do not have the scope {scope}. Numbers about fewer than {minimum} users need it, because"
        " they may show single users."
    )
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
    REQUESTS_RUNNING = "This key has {requests} such requests running already, and may have no more at the same time."
    POLLS_WAITING = "This key has {polls} requests waiting already, and may have no more."
    # Of the gateway.
    CREDENTIALS_INVALID = "The request has no API key or access token, or one that is not valid."
    FIREWALL_REFUSED = (
        "The firewall refused the request: it resembles an attack, or too many requests came from its address."
    )
    HEAD_TOO_LARGE = "The request line and the headers may have at most {maximum} bytes."
    REQUEST_TOO_LARGE = (
        "The request is too large: it may have at most {megabytes} MB, and a send {recipients} recipients. Divide a"
        " larger send into parts (part_index, part_count)."
    )
    REQUESTS_AT_ONCE = "The API executes at most {maximum} requests at the same time. Repeat the request later."
    REQUESTS_A_SECOND = "A key may use {rate} requests each second, and {burst} at once. Repeat the request later."
    REQUESTS_A_DAY = "A key may use {maximum} requests each day."
    WEBHOOK_TOO_LARGE = "A webhook may have at most {kilobytes} kB."
    WEBHOOK_TYPE = "The Content-Type of a webhook is one of {types}."
    WEBHOOK_NOT_QUEUED = "The webhook is not accepted now. Send it again later."
    ANSWER_TOO_LATE = "The service did not answer within {seconds} s."
    # Of the form of a request.
    BODY_NOT_JSON = "the body is not JSON: {reason}"
    BODY_TOO_LARGE = "The body has more than {maximum} characters."
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
    SEND_TOO_LARGE = "a part of the send is larger than the {maximum} bytes that Kafka accepts: {reason}"
    SEND_INCOMPLETE = "Kafka has not taken the whole of send {send_id}: {reason}"
    SEND_UNKNOWN = "No send with this id is known; a send that was requested by Kafka is counted in seconds."
    SEND_ENDED = "The send has ended."
    EMAIL_SENDER_NOT_READY = (
        "SES does not accept e-mails of {domain}: the identity must be verified, and associated with the tenant of"
        " SES in email.yaml. Ask an operator."
    )
    SEND_ENDED_NO_PAUSE = "The send has ended: there is nothing to pause."
    SEND_ENDED_NO_CANCEL = "The send has ended: there is nothing to cancel."
    SEND_CANCELLED = "The send is cancelled."
    SEND_NOT_PAUSED = "The send is not paused."
    SEND_NOT_PACED = "The send has no pace."
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
    ROLE_WITHOUT_TARGET = "is for the ARN of a queue or of an event bus"
    ROLE_FORM = "must be the ARN of a role of account {account} whose name begins with {prefix}"
    ENDPOINT_UNKNOWN = "The endpoint is unknown."
    ENDPOINT_DISABLED = "The endpoint is disabled: enable it first."
    ENDPOINT_DELETED = "The endpoint that this request created is deleted: choose a new key for another one."
    ENDPOINTS_TOO_MANY = "The club has {maximum} endpoints: delete one."
    # Of events.
    EVENT_TYPE_UNKNOWN = "The event type is unknown."
    TEST_WITHOUT_SUBSCRIPTION = "The endpoint does not subscribe to this event type."
    EVENT_TYPE_RESERVED = "Types that begin with {reserved} are those of masscomm's own events."
    WEBHOOK_DEAD_LETTER_POSITION = "the id of a dead letter of a webhook, or a time such as 2026-11-21T12:00:00Z"
    WEBHOOK_DEAD_LETTER_IDS = "must be a list of at most {maximum} ids of dead letters"
    WEBHOOK_DEAD_LETTER_IDS_ALONE = "ids name the dead letters: no span and no type are possible with them"
    EVENT_TYPE_FORM = "must be a type: up to 8 parts of a-z, 0-9 and _, with dots between them, e.g. match.finished"
    EVENT_TYPE_OF_EVENT_UNKNOWN = "there is no event type {type}"
    EVENT_ID_FORM = "must be 1 to {maximum} visible ASCII characters"
    EVENT_ID_OF_OTHER = "another event of the last 24 hours has this id"
    EVENT_KEY_FORM = "must have 1 to {maximum} characters"
    EVENT_DATA_TOO_LARGE = "has {size} bytes, and at most {maximum} are allowed"
    EVENT_DATA_MISFIT = "does not fit the schema of its type, at {place}: {reason}"
    EVENTS_LIST = "must be a list of 1 to {maximum} events"
    EVERY_CLUB_NEEDED = "These credentials may not change what concerns every club."
    EVERY_CLUB_SEEN = "These numbers are of all clubs together, and these credentials may not see every club."
    EVENTS_NOT_PERMITTED = "These credentials may not report events of these clubs."
    UNIT_FORM = "must be the path of a unit: up to {levels} levels of letters, digits, _ . -, e.g. 100/7"
    TIME_UNIT_WRONG = "{problem}"
    SCHEMA_UNUSABLE = "is not a usable JSON Schema: {reason}"
    EXAMPLE_MISFIT = "the example does not fit the schema, at {place}: {reason}"
    MAPPING_FORM = "must be an object with type, club_id, and optionally unit, key, occurred_at, event_id and data"
    MAPPED_FIELD_FORM = "must have either a value, or a path of names, e.g. order.id or headers.x-shop"
    MAPPED_PATH_NEEDED = "must have a path: each event has its own"
    MAPPED_TIME_UNIT = "must have the unit of the time: one of {units}"
    MAPPED_FIELD_UNUSABLE = "at {path}: {problem}"
    SOURCE_UNKNOWN = "The source is unknown."
    SOURCES_TOO_MANY = "The club has {maximum} sources: delete one."
    SOURCE_OF_OTHER_CLUB = "the source belongs to club {club_id}"
    SOURCE_KEY_FORM = "must be a secret of 8 to {maximum} ASCII characters; of Standard Webhooks, whsec_ and base64"
    HEADER_FORM = "must be the name of a header in lower case, e.g. x-shop-hmac"
    SUBSCRIPTION_UNKNOWN = "The subscription is unknown."
    SUBSCRIPTIONS_TOO_MANY = "The endpoint has {maximum} subscriptions: delete one."
    PATTERNS_LIST = "must be a list of 1 to {maximum} types, or of prefixes of whole parts, e.g. match.*"
    UNITS_LIST = "must be a list of at most {maximum} paths of units, e.g. 100/7"
    FILTER_FORM = "must be an object of at most {maximum} paths in data, each with a list of values"
    PATHS_LIST = "must be a list of at most {maximum} paths in data, e.g. player.id"
    RULE_RECIPIENTS = "must have one of users_path, audience and unit_attribute"
    RULE_CLUBS = "must be one club: notifications for several are made by credentials of every club"
    RULE_OWN_TYPES = "must not be types of masscomm's own events, as {types}: notifications would make further ones"
    VARIABLES_FORM = "must be an object of at most {maximum} names of variables, each with a path in data"
    ENDPOINT_AND_NOTIFICATION = "must be absent if the subscription has a notification"
    NOT_WITH_ENDPOINT = "must be absent if an endpoint is named"
    SUBSCRIPTION_TOO_LARGE = "types, clubs and units have {combinations} combinations, and at most {maximum} may be"
    # Of deliveries.
    DELIVERY_UNKNOWN = "The delivery is unknown, or older than 30 days."
    KEY_UNKNOWN = "The key is unknown."
    KEY_ENDED = "The key has ended."
    KEY_ENDS_FIRST = (
        "The key ends at {end}, within the {hours} hours, and a new key would end with it. Rotate the key that was made"
        " in its place, or create one."
    )
    KEY_OF_REQUEST_ENDED = "The key that this request made has ended."
    KEY_BEYOND_CALLER = "The key would have more authority than these credentials."
    # Of single fields and parameters.
    FIELD_UNKNOWN = "is not a field"
    FIELD_NOT_ALLOWED = "is not a field; allowed are {fields}"
    ONLY_FIELD = "is not a field; allowed is {field}"
    MEMBER_UNKNOWN = "is unknown"
    PARAMETER_UNKNOWN = "is not a parameter; allowed are {parameters}"
    PARAMETERS_NONE = "is not a parameter; none is allowed here"
    GIVEN_TWICE = "must be given once"
    GIVEN_TOO_OFTEN = "may be given at most {maximum} times"
    MISSING = "is missing"
    MISSING_FORM = "is missing: {form}"
    VALUE_UNUSABLE = "{value} cannot be used: {form}"
    UNUSABLE = "cannot be used: {form}"
    MUST_BE = "must be {form}"
    MUST_BE_OBJECT = "must be an object"
    MUST_BE_JSON_OBJECT = "must be a JSON object"
    MUST_BE_EMPTY = "must be empty, or {empty}"
    MUST_BE_UTF8 = "must be UTF-8 without the character U+FFFD"
    MUST_BE_TRUE = "must be true"
    MUST_BE_BOOLEAN = "must be true or false"
    MUST_BE_BOOLEAN_OR_OBJECT = "must be true, false or an object"
    MUST_BE_EITHER = "must be {first} or {second}"
    MUST_BE_LIST_OF = "must be a list of {choices}"
    MUST_BE_LIST_OF_SOME = "must be a list of some of {choices}"
    MUST_BE_CLUB = "must be the id of a club"
    MUST_BE_CLUB_FROM_1 = "must be the id of a club, at least 1"
    MUST_BE_TEXT = "must be a text of 1 to {maximum} characters"
    MUST_BE_PRINTABLE = "must be a text of 1 to {maximum} printable characters"
    MUST_BE_PRINTABLE_OR_EMPTY = "must be a text of at most {maximum} printable characters"
    MUST_LIE_AHEAD = "must lie ahead"
    FURTHER_ERRORS = "{left_out} further errors are not listed"
    CLUB_MISSING = "is missing: these credentials may see every club"
    CLUB_MISSING_OF_SEVERAL = "is missing: these credentials may see several clubs"
    CLUBS_NOT_SEEN = "{clubs} may not be seen with these credentials"
    CLUB_OF_OTHERS = "{club_id} is none of the clubs of these credentials"
    HALF_PAIR = "contains half of a surrogate pair"
    HALF_PAIR_IN_NAME = "its name contains half of a surrogate pair"
    HALF_PAIR_IN_TEXT = "a text holds half of a surrogate pair"
    NOT_64_BITS = "must be a 64-bit integer"
    NOT_A_DOUBLE = "must be within the range of a double"
    # The forms of parameters; the OpenAPI document has them as descriptions.
    FORM_TIME = (
        "an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B)"
    )
    FORM_NUMBER = "a whole number from {lowest} to {highest}"
    FORM_WORDS = "1 to 200 characters, no NUL"
    FORM_ID = "a whole number of 64 bits"
    FORM_CHOICE = "one of {choices}"
    FORM_CHOICES = "any of {choices}, several times or with commas between them"
    FORM_ZERO = "zero, and nothing else"
    FORM_SHA256 = "a SHA-256 in hex: 64 digits"
    FORM_TIME_ZONE = "a name of the IANA time zone database, e.g. Europe/Madrid, Asia/Kolkata, UTC"
    FORM_CURSOR = "the cursor of a response"
    FORM_STREAM_CURSOR = "the cursor of an answer of this resource"
    # Of the form of a JSON text.
    JSON_TOO_DEEP = "nested deeper than {maximum}"
    JSON_KEY_TWICE = "an object names a key twice"
    JSON_NOT_64_BITS = "{number} is not a 64-bit integer"
    JSON_NOT_A_DOUBLE = "{number} is beyond a double"
    JSON_NO_NUMBER = "{value} is not JSON"
    JSON_HALF_PAIR = "a text contains half of a surrogate pair"
    # In the words of pydantic.
    FIELD_UNUSABLE = "{words}"
    FIELD_REQUIRED = "Field required"
    FIELD_EXTRA = "Extra inputs are not permitted"
    TYPE_TEXT = "Input should be a valid string"
    TYPE_INTEGER = "Input should be a valid integer"
    TYPE_NUMBER = "Input should be a valid number"
    TYPE_BOOLEAN = "Input should be a valid boolean"
    TYPE_LIST = "Input should be a valid list"
    TYPE_OBJECT = "Input should be a valid dictionary"
    TYPE_MODEL = "Input should be a valid dictionary or instance of {class_name}"
    TYPE_CHOICE = "Input should be {expected}"
    TEXT_TOO_SHORT = "String should have at least {min_length} characters"
    TEXT_TOO_LONG = "String should have at most {max_length} characters"
    TEXT_PATTERN = "String should match pattern '{pattern}'"
    LIST_TOO_SHORT = "List should have at least {min_length} items after validation, not {actual_length}"
    LIST_TOO_LONG = "List should have at most {max_length} items after validation, not {actual_length}"
    NUMBER_TOO_SMALL = "Input should be greater than or equal to {ge}"
    NUMBER_TOO_LARGE = "Input should be less than or equal to {le}"
    NUMBER_NOT_BELOW = "Input should be less than {lt}"
    TIME_WITHOUT_ZONE = "Input should have timezone info"
    TIME_UNREADABLE = "Input should be a valid datetime or date, {error}"
    # Of the fields of a send.
    CATEGORY_UNKNOWN = "is no category of this installation (GET /v1/categories)"
    CATEGORY_RETIRED = "is a retired category (GET /v1/categories)"
    TEMPLATE_OF_OPTIONAL = (
        "is named after a category that is not mandatory: users who opted out of it would get its text"
    )
    TEMPLATE_UNKNOWN = "does not exist on any channel of the send (GET /v1/templates)"
    AUDIENCE_AT_WITHOUT_AUDIENCE = "is for a send to an audience"
    AUDIENCE_AT_WITHOUT_TIME = "is for a scheduled send: send_at or send_at_local is missing"
    PUSH_OF_SILENT = "must be absent: a silent push shows and plays nothing"
    PUSH_ACTION_TWICE = "must have distinct ids"
    PUSH_LINK = "must be an address of at most {maximum} characters with https, or with the scheme of an app"
    PUSH_KEY_RESERVED = "is a name that Apple, Firebase or masscomm uses"
    SEND_ID_NEEDED = "is needed if the send has several parts"
    SEND_ID_OF_OTHERS = "belongs to another send, or this part of it to other recipients"
    PART_TOO_LARGE = "must be less than part_count"
    AUDIENCE_NOT_BULK = "must be bulk for an audience"
    AUDIENCE_OF_CRITICAL = "is a critical category, which is not sent to an audience"
    AUDIENCE_IN_PARTS = "must be 1 for an audience"
    AUDIENCE_AND_USERS = "must be absent if the send has an audience"
    NOT_IN_TO_USERS = "is not in to_users"
    TIME_NOT_WRITTEN = "an RFC 3339 time with its zone, as a string, not a number of seconds or milliseconds"
    TIME_OF_OTHER_UNIT = "lies before 2001-09-09 or after 9999: a number of seconds was probably read as milliseconds"
    LOCAL_TIME_NOT_WRITTEN = "a date and time without a zone, such as 2026-11-24T09:00"
    TIME_TOO_FAR = "must lie ahead, and not more than {days} days"
    LOCAL_TIME_TOO_FAR = "must lie ahead in a time zone, and not more than {days} days"
    SEND_AT_AFTER_END = "must come before expires_at"
    SEND_AT_AFTER_KNOWN_END = "must come before expires_at, which is {expires_at}"
    LOCAL_TIME_AFTER_END = "must come before expires_at in a time zone"
    SEND_AT_TWICE = "must not be given with send_at"
    BYTES_TOO_MANY = "more than {maximum} bytes in total"
    USER_TWICE = "excludes user_id"
    USER_OF_OTHERS = "is no user of club {club_id}"
    NOT_SIMULATED = "is no simulator recipient ({first} to {last})"
    OTHER_CLUB_IN_BATCH = "must be that of the first send"
    KEY_REQUIRED = "is required for this route"
    KEY_INVALID = "must have 1 to {maximum} printable ASCII characters"
    KEY_REUSED = "belongs to another request of the last 24 hours: choose a new key for a new request"
    # Of queries.
    END_NOT_LATER = "must be later than start"
    CURSOR_UNKNOWN = "is not one that this query gave: use next_cursor, and change nothing else but limit"
    MEASURE_TWICE = "is another way to write measure: give one of them"
    REASONS_BY_HOUR = "reasons are counted by hour: ask for hours, or for days that begin on an hour of UTC"
    ZONE_NEEDS_DAYS = "goes with granularity=day alone: a bucket of a {granularity} is UTC's"
    ZONE_INEXACT = "{reason}; ask for UTC, or for hours or minutes, instead"
    ZONE_DAYS = "at most {maximum} days can be asked for in a time zone"
    DAY_HAS_NO_BEGINNING = "{day} does not begin at one moment in {zone}"
    DAYS_NOT_ON_MINUTES = "days of {zone} do not begin on whole minutes of UTC there"
    ROWS_READ = "The query would read more than {maximum} rows"
    ROWS_FILLED = "Filled with zeros, the answer would have more than {maximum} rows"
    ROWS_ANSWERED = "The answer would have more than {maximum} rows"
    # Of schedules.
    NAMED_SCHEDULE_UNKNOWN = "The schedule is unknown."
    SCHEDULES_NOT_PERMITTED = "These credentials may not use schedules of this club."
    SCHEDULES_TOO_MANY = "The club has {maximum} schedules: delete one."
    SCHEDULE_CHANGED = "Another request has changed the schedule: read it again."
    SCHEDULE_RULE_FORM = "must be an RRULE of RFC 5545, such as FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0"
    SCHEDULE_RULE_PART = "has the unknown part {part}"
    SCHEDULE_RULE_VALUE = "has another {part} than {form}"
    SCHEDULE_RULE_TOGETHER = "has {part}, which is not possible with {other}"
    SCHEDULE_RULE_SETPOS = "has BYSETPOS, which needs another part such as BYDAY"
    SCHEDULE_RULE_TOO_OFTEN = "has times that are less than {minutes} minutes apart"
    SCHEDULE_RULE_NEVER = "has no time from now on: it has ended, or its next {years} years have none"
    SCHEDULE_START = "must be a date and time without a zone and seconds, such as 2026-11-24T09:00"
    SCHEDULE_START_TOO_FAR = "must not be more than {days} days ahead"
    SCHEDULE_ZONE = "must be a time zone such as Europe/Zurich"
    SCHEDULE_SEND_CLUB = "must be the club_id of the path's query"
    SCHEDULE_SEND_TOO_LARGE = "has more than one record can hold: at most {maximum} users, or an audience"
    # Of conditional changes.
    CHANGED_SINCE_READ = "Another request has changed it since it was read: read it again, and repeat the change."
    EXISTS_ALREADY = "It exists already: read it, and change it."
    # Of saved audiences.
    NAMED_AUDIENCE_UNKNOWN = "The audience is unknown."
    AUDIENCES_NOT_PERMITTED = "These credentials may not use audiences of this club."
    AUDIENCES_TOO_MANY = "The club has {maximum} saved audiences: delete one."
    # Of categories.
    NAMED_CATEGORY_UNKNOWN = "The category is unknown."
    CATEGORY_CHANGED_TOO_OFTEN = "The category has been changed too often: sends that wait need its versions."
    CATEGORY_SPELLING = "is another spelling of the category {category}"
    CATEGORY_TOO_LARGE = "the category has more than {maximum} bytes"
    OPT_IN_OF_MANDATORY = "a mandatory category cannot need an opt-in"
    CAPS_OF_MANDATORY = "a mandatory category cannot have caps"
    DEFAULT_RETIRED = "the default category cannot be retired"
    CAPS_OF_CRITICAL = "a critical category cannot have caps"
    CAPS_FORM = (
        "must be a list of at most {most} caps, each with limit from 1 to {limit} and window: day, or at most {days} "
        "days, such as 24h; it may have by_channel and group, and no other cap with its window counts the same sends"
    )
    DIGEST_OF_MANDATORY = "notifications of a mandatory category are not collected"
    DIGEST_OF_CRITICAL = "notifications of a critical send are not collected"
    DIGEST_FORM = (
        "must have template, and either window, at most {days} days such as 1h, or at, such as 08:00; it may have key, "
        "the name of a variable, and list from 1 to {listed}"
    )
    FALLBACK_FORM = (
        "must be the name of a channel, or an object with channel, if ({conditions}) and after, such as 10m, at most "
        "{days}d"
    )
    FALLBACK_FIRST = "has a condition: there is no channel before it"
    FALLBACK_TWICE = "has a channel twice, and conditions"
    FALLBACK_OF_DIGEST = "has a condition: notifications in digests have none"
    FALLBACK_OF_RULE = "has a condition: the channels of a rule have none"
    FALLBACK_OF_SILENT = "has a condition: a send with a silent push has none"
    FALLBACK_WITHOUT_RECEIPTS = "has not_delivered, and the receipts of {channel} are not complete"
    FALLBACK_AFTER_END = "waits until after expires_at"
    FALLBACK_AFTER_OCCURRENCE = (
        "waits until after the send of an occurrence expires, which may begin {minutes} minutes late"
    )
    PACE_TWICE = "is given with spread_over: a send has one of the two"
    PACE_OF_CRITICAL = "a critical send has no pace"
    PACE_TOO_SLOW = "is too small: the send would take more than {days} days"
    SPREAD_AFTER_END = "ends after expires_at"
    SPREAD_AFTER_OCCURRENCE = "ends after the send of an occurrence expires, which may begin {minutes} minutes late"
    TITLES_FORM = "must be an object of texts by language, such as de"
    CLUB_ONCE = "must be the id of a club, in one entry only"
    MUST_BE_LIST_OF_OBJECTS = "must be a list of objects"
    # Of preferences.
    TENANT_RULES_CAPTURED = (
        "The rules of tenants are rows of a table that schemas/source.yaml maps. Change them in that table."
    )
    TENANT_FORM = "must be the id of a tenant, or default"
    NO_RULE = "has no rule: the request needs one rule at least"
    NO_CATEGORY = "is no category; the categories are {categories}"
    CATEGORY_MANDATORY = "is a mandatory category, to which preferences do not apply"
    NO_CHANNEL = "is no channel; the channels are {channels}"
    QUIET_HOURS_FORM = "must be null or an object with start and end"
    QUIET_HOURS_TIME = "must be a time HH:MM from 00:00 to 23:59"
    QUIET_HOURS_EMPTY = "must not be the start; opt out of the channels for no notification at all"
    # Of API keys.
    KEY_CLUBS_MISSING = "is missing: a list of ids, or null for every club"
    KEY_CLUBS_FORM = "must be null or a list of 1 to {maximum} ids, each above 0"
    KEY_CLUBS_BEYOND = "must be clubs of these credentials"
    KEY_SCOPES_BEYOND = "{scopes}: these credentials do not have it"
    KEY_LIMIT_BEYOND = "must be at most {maximum}, as for these credentials"
    KEY_END_BEYOND = "must be at most {end}, the end of these credentials"
    # Of the addresses of webhooks.
    URL_TOO_LONG = "must be a URL of at most {maximum} visible ASCII characters"
    URL_INVALID = "must be a URL"
    URL_NOT_HTTPS = "must begin with https://"
    URL_WITH_CREDENTIALS = "must not contain a user name or a password"
    URL_WITH_FRAGMENT = "must not contain a fragment"
    URL_WITHOUT_HOST = "must contain a host name or an IP address"
    URL_NOT_PUBLIC = "must name a public server"
    URL_PORT = "must use port {port}, or one from {first}"
    # Of the authentication of webhooks.
    MUST_BE_VISIBLE = "must be a text of 1 to {maximum} visible ASCII characters"
    USERNAME_WITH_COLON = "must not contain a colon"
    HEADERS_FORM = "must have 1 to {maximum} headers with values, none of which masscomm or the connection sets itself"
    CERTIFICATE_FORM = "must be a valid certificate in PEM, followed by those of its authorities"
    PRIVATE_KEY_FORM = "must be the private key of the certificate in PEM, without a password"
    AUTHENTICATION_OF_OTHER_SERVER = "must be given again for a URL of another server"
    # Of audiences.
    AUDIENCE_TOO_LARGE = "has more than {maximum} bytes of JSON"
    AUDIENCE_MEMBER = "is unknown: an audience has where, follows, all_users or saved, and except_users"
    AUDIENCE_EMPTY = "an audience needs one of where, follows, all_users or saved, or both where and follows"
    FOLLOWS_FORM = "must be KIND:OBJECT, such as team:42, without blanks and with at most 64 and 128 characters"
    FOLLOWS_UNMAPPED = "needs the table memberships, which schemas/source.yaml does not map"
    AUDIENCE_UNKNOWN = "is no saved audience of the club"
    AUDIENCE_NAME = "must match {pattern}, and not be {reserved}"
    AUDIENCE_SAVED_USERS = "is for a send: a saved audience names no user"
    AUDIENCE_EXCEPTIONS = "must be a list of at most {maximum} user ids"
    AUDIENCE_EXCEPTION = "must be a user id of at least 1"
    AUDIENCE_CONDITIONS = "has more than {maximum} conditions"
    AUDIENCE_TOO_DEEP = "is nested deeper than {maximum} levels"
    AUDIENCE_JOIN = "has {join}, and must have no other member"
    AUDIENCE_JOINED = "must be a list with at least one condition"
    AUDIENCE_OPERATOR = "needs field and one of {operators}; or one of {joins}"
    AUDIENCE_PERSONAL = "{field} is personal data: only exists is possible"
    AUDIENCE_ATTRIBUTE = "is no attribute of users; the mapped attributes are {attributes}"
    AUDIENCE_NO_ATTRIBUTES = "is no attribute of users; none is mapped"
    AUDIENCE_FIELD = "must be one of {fields}, attributes.NAME, settings.NAME"
    AUDIENCE_SETTING = "must be settings.channels.NAME, settings.categories.NAME or settings.quiet_hours"
    AUDIENCE_SETTING_NAME = "is no name in the {kind} of user settings, which are {names}"
    AUDIENCE_VALUES = "must be a list of 1 to {maximum} values"
    AUDIENCE_VALUE = "must be a text of at most {maximum} characters, a number, true or false"
    AUDIENCE_ORDERED = "must be a number, or an ISO date or time such as 2026-11-24 or 2026-11-24T18:00:00Z"
    # Warnings about a send.
    TEMPLATE_FAILS = "a template '{template}' on {channel} cannot be rendered: {reason}"
    TEMPLATE_MISSING = "there is no template '{template}' on {channel}"
    DATA_IGNORED = "is not used on {channels}: the template '{template}' comes before title and body"
    DATA_UNUSED = "is not used: no template '{template}' reads it"
    AUDIENCE_CUT = "has more users than were read in time: the counts are those of its first {users}"
    COUNTS_ESTIMATED = "the counts are estimated from {examined} of {total} recipients"
    PUSHES_SHORTENED = "{pushes} of the pushes to {platform} devices would be shortened"
    USERS_UNKNOWN = "{unknown} of {examined} users are unknown now; users of the last seconds may follow"
    # Of templates, and of messages rendered from them.
    NO_MESSAGE = "there is no template, and the data has no title and body"
    VALUES_MISSING = "a value is missing: {names}"
    NO_ADDRESS = "the user has no address on this channel"
    CHANNEL_UNKNOWN = "the channel {channel} is none of {channels}"
    RENDER_STEPS = "the template takes too many steps"
    RENDER_SOURCE = "the template is longer than {maximum} characters"
    RENDER_TOKENS = "the template has more than {maximum} tokens"
    RENDER_ERROR = "{error}: {reason}"
    RENDER_UNDEFINED = "UndefinedError: {reason}"
    RENDER_OUTPUT = "the text is longer than {maximum} bytes"
    RENDER_LINE = "a title, subject or link is longer than {maximum} bytes"
    RENDER_BLANK = "the message has no text"
    RENDER_LINK = "{link} is no address with https:// or the scheme of an app"
    RENDER_DIGITS = "a number has more than 99 digits"
    RENDER_BITS = "a number has more than {maximum} bits"
    RENDER_NO_NUMBER = "{value} is not a number"
    RENDER_PRECISION = "round: the precision is not between -{maximum} and {maximum}"
    RENDER_TRIM = "trim: more than {maximum} characters"
    RENDER_SPLIT = "split: a text was expected"
    RENDER_AT_LINE = "line {line}: {reason}"
    RENDER_NO_LIST = "{value} is not a list"
    RENDER_ITEMS = "the list has more than {maximum} items"
    RENDER_CONSTANTS = "a list may hold constants only"
    RENDER_FILTER = "there is no filter {name}"
    RENDER_TEST = "there is no test {name}"
    RENDER_ARGUMENTS = "{name} takes no arguments by * or **"
    RENDER_DEPTH = "nested more than {maximum} deep"
    RENDER_SYNTAX = "{syntax} is not allowed in a template"
    RENDER_CHOICE = "a condition without else has no value here"
    RENDER_TIME = "a time such as 2026-11-23T19:30:00+01:00 was expected"
    RENDER_FORMAT = "the format is one of {formats}"
    RENDER_NUMBER = "a number was expected"
    RENDER_RANGE = "the number is too large or too small"
    RENDER_DECIMALS = "the number of decimals is from 0 to {maximum}"
    RENDER_CURRENCY = "a currency such as EUR was expected"
    RENDER_PLURAL = "other='…' was expected, and any of {forms}"
    # Of dead letters that an operation does not change.
    LETTER_DONE = "already {status} at {at}"
    LETTER_SOURCE = "no source topic: {topic}"
    LETTER_FORGOTTEN = "its record is older than {days} days, and would be published and counted again"
    LETTER_REFUSED = "Kafka refuses it: {reason}"

    @property
    def code(self) -> str:
        return self.name.lower()

    @property
    def parameters(self) -> list[str]:
        """Return the names of the parameters."""
        return [name for _, name, _, _ in Formatter().parse(self.value) if name]

    def filled(self, *, longest: int | None = None, **parameters: str | int) -> CodedText:
        """Return the text with its parameters.

        Args:
            longest: The largest number of characters of the text and of each parameter.

        Raises KeyError if a parameter is missing.
        """
        text = CodedText.of(self.value.format_map(parameters), self.code, parameters)
        return text if longest is None else text.cut(longest)
