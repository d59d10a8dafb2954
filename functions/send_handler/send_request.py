"""The body of a request to POST /v1/sends: its fields, their limits, and the problem that names each invalid field."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import Annotated, Any, Literal, NotRequired, Self, TypedDict

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SkipValidation,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    with_config,
)
from pydantic_core import ErrorDetails, PydanticKnownError

from functions.send_handler.field_problems import field_problem, text_of_details
from masscomm.clock import Clock
from masscomm.domain.categories import (
    category,
    is_critical,
    is_listed,
    is_retired,
    passes_opt_outs_of,
    requested_lane,
    resolve_channels,
)
from masscomm.domain.channels import CHANNELS
from masscomm.domain.digests import (
    LISTED,
    MAX_LISTED,
    TIME_PATTERN,
    WINDOW_PATTERN,
    Digest,
    DigestError,
    read_digest,
)
from masscomm.domain.fallbacks import CONDITIONS, Fallback, ends_before, fallbacks_text, unreported
from masscomm.domain.lanes import NOT_CRITICAL, Lane
from masscomm.domain.limits import (
    FIELDS_OF_SEND,
    MAX_PARTS,
    MAX_RECIPIENT_DATA,
    MAX_REQUEST_AHEAD_MS,
    REQUEST_RECIPIENT_DATA_BYTES,
)
from masscomm.domain.local_times import first_ms, last_ms, parse_local_time
from masscomm.domain.pace import SPREAD_PATTERN, PaceError, ends_late, is_too_slow, spread_ms_in
from masscomm.domain.push_options import (
    ACTION_ID_PATTERN,
    ANDROID_CHANNEL_PATTERN,
    DATA_KEY_PATTERN,
    IMAGE_PATTERN,
    INTERRUPTION_LEVELS,
    MAX_ACTIONS,
    MAX_BADGE,
    MAX_ENTRIES,
    MAX_LINK,
    MAX_TITLE,
    PUSH,
    SOUND_PATTERN,
    push_problems,
    push_text,
    shows_own,
)
from masscomm.domain.records import ContentFields
from masscomm.domain.simulator import FIRST_ID, LAST_ID, is_simulated
from masscomm.domain.time_limits import LONGEST_FALLBACK_S, LONGEST_PACE_S
from masscomm.domain.units import unit_problem
from masscomm.environment import complete_receipts
from masscomm.http.audiences import audience_errors, is_saved, resolved
from masscomm.http.body import read_object
from masscomm.http.digests import form_error
from masscomm.http.problem import FieldError, Problem, invalid
from masscomm.http.rest import JSON, Request
from masscomm.http.scopes import Scope
from masscomm.http.send_scopes import scopes_of_send
from masscomm.http.single_users import check_named_users
from masscomm.http.tenant import Clubs
from masscomm.stores.saved_audiences.port import SavedAudiences
from masscomm.texts import CodedText, Text

_LONGEST_PATH = 200
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# The errors in a response for one field; the names of unknown fields count as one field.
_ERRORS_A_FIELD = 10
_TIMES = ("expires_at", "send_at")
_DAYS_AHEAD = MAX_REQUEST_AHEAD_MS // 86_400_000


def _number(name: str) -> Any:
    """Return the bounds of a numeric field of a send, or of each number in a list."""
    return Field(ge=1, le=FIELDS_OF_SEND[name].highest)


def _text(name: str) -> Any:
    """Return the bounds of a text field of a send; the text must not be empty."""
    limit = FIELDS_OF_SEND[name]
    return Field(pattern=limit.pattern, min_length=None if limit.pattern else 1, max_length=limit.characters)


def _entries(name: str, **also: Any) -> Any:
    """Return the bounds of a list or map field of a send."""
    return Field(max_length=FIELDS_OF_SEND[name].entries, **also)


_DATA = FIELDS_OF_SEND["data"]


def _written_out(value: object) -> object:
    if value is not None and not (isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d[Tt ]", value)):
        raise field_problem(Text.TIME_NOT_WRITTEN)
    return value


Time = Annotated[Annotated[AwareDatetime, Field(strict=False)] | None, BeforeValidator(_written_out)]
_TIME: TypeAdapter[datetime | None] = TypeAdapter(Time)


def _local_time(text: str | None) -> str | None:
    if text is not None and parse_local_time(text) is None:
        raise field_problem(Text.LOCAL_TIME_NOT_WRITTEN)
    return text


LocalTime = Annotated[Annotated[str, _text("send_at_local")] | None, AfterValidator(_local_time)]
UserId = Annotated[int, _number("to_users")]


def bytes_of(data: Mapping[str, str]) -> int:
    """Return the bytes of the names and values of variables."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in data.items())


def _bounded(data: dict[str, str]) -> dict[str, str]:
    if bytes_of(data) > _DATA.max_bytes:
        raise field_problem(Text.BYTES_TOO_MANY, maximum=_DATA.max_bytes or 0)
    return data


Variables = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=_DATA.key_characters)], str],
    _entries("data"),
    AfterValidator(_bounded),
]


_MEMBERS = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@with_config(_MEMBERS)
class PushAction(TypedDict):
    """A button of a push, which the app shows."""

    id: Annotated[str, Field(pattern=ACTION_ID_PATTERN)]
    title: Annotated[str, Field(min_length=1, max_length=MAX_TITLE)]
    url: NotRequired[Annotated[str, Field(max_length=MAX_LINK)]]
    """The address that the app opens: https, or the scheme of an app."""


@with_config(_MEMBERS)
class PushFields(TypedDict):
    """The options of a push. A silent one shows nothing: the app gets `data`."""

    image: NotRequired[Annotated[str, Field(pattern=IMAGE_PATTERN)]]
    """The address of a picture."""
    badge: NotRequired[Annotated[int, Field(ge=0, le=MAX_BADGE)]]
    """The number at the icon of the app; 0 removes it."""
    sound: NotRequired[Annotated[str, Field(pattern=SOUND_PATTERN)]]
    """The name of a sound of the app, or `default`."""
    silent: NotRequired[bool]
    """Whether the push has `data` only. Quiet hours and frequency caps do not apply to it."""
    android_channel: NotRequired[Annotated[str, Field(pattern=ANDROID_CHANNEL_PATTERN)]]
    """The id of a notification channel of the Android app."""
    interruption_level: NotRequired[Literal[*INTERRUPTION_LEVELS]]  # type: ignore[valid-type]
    """Apple's interruption level."""
    actions: NotRequired[Annotated[list[PushAction], Field(max_length=MAX_ACTIONS)]]
    """Buttons."""
    data: NotRequired[
        Annotated[
            dict[str, str],
            Field(max_length=MAX_ENTRIES, json_schema_extra={"propertyNames": {"pattern": DATA_KEY_PATTERN}}),
        ]
    ]
    """Values for the app."""


class ContentRequest(BaseModel):
    """The fields of a request that determine the messages of a send."""

    model_config = ConfigDict(extra="forbid", strict=True)

    type: Annotated[str, _text("type")]
    club_id: Annotated[int, _number("club_id")]
    channels: Annotated[list[Literal[*tuple(CHANNELS)]], Field(max_length=len(CHANNELS))] = []  # type: ignore[valid-type]
    template: Annotated[str, _text("template")] | None = None
    data: Variables = {}
    locale: Annotated[str, _text("locale")] | None = None
    # `push_errors` validates it, as a record of another producer.
    push: Annotated[PushFields | None, SkipValidation] = None

    @property
    def push_text(self) -> str | None:
        """Return the field push as the records of the send have it."""
        return push_text(self.push) if self.push else None

    @property
    def is_silent(self) -> bool:
        """Return whether a push of the send is silent."""
        return self.push is not None and self.push.get("silent", False)

    @property
    def channel_names(self) -> list[str]:
        """Return the channels that the request names."""
        return [_name_of(each) for each in self.channels]

    def resolved_channels(self) -> list[str]:
        """Return the channels that the request names, or else those of its category."""
        return resolve_channels(self.type, self.channel_names, self.club_id, None)

    def content(self) -> ContentFields:
        """Return the fields as in the records of a send. The time of the request is left out."""
        return ContentFields(
            club_id=self.club_id,
            type=self.type,
            timestamp=0,
            template=self.template,
            data=self.data,
            locale=self.locale,
            push=self.push_text,
        )

    def template_keys(self) -> list[tuple[int, str, str]]:
        """Return club, type and channel of the templates. A silent push has no texts."""
        written = [channel for channel in self.resolved_channels() if not (self.is_silent and channel == PUSH)]
        return [(self.club_id, self.template or self.type, channel) for channel in written]


ChannelName = Literal[*tuple(CHANNELS)]  # type: ignore[valid-type]
# The name of a field is a keyword of Python.
ChannelCondition = with_config(_MEMBERS)(
    TypedDict(  # type: ignore[operator]
        "ChannelCondition",
        {
            "channel": ChannelName,
            "if": Annotated[
                Literal[*CONDITIONS],
                Field(description="What became of the notification on the channel before it."),
            ],
            "after": Annotated[
                str,
                Field(
                    pattern=SPREAD_PATTERN,
                    description="How long it waits for the channel before it, such as 10m, 2h or 1d; at most 7d.",
                ),
            ],
        },
    )
)
ChannelCondition.__doc__ = "A channel that is used only if the one before it was not."


@with_config(_MEMBERS)
class ChannelAlone(TypedDict):
    """A channel without a condition."""

    channel: ChannelName  # type: ignore[valid-type]


def _channel_or_fallback(value: Any, _validate: ValidatorFunctionWrapHandler) -> str | Fallback:
    """Return the name of a channel, or the condition under which it is used."""
    if not isinstance(value, dict):
        if isinstance(value, str) and value in CHANNELS:
            return value
        *others, last = map(repr, CHANNELS)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    name = value.get("channel")
    if isinstance(name, str) and name in CHANNELS:
        if value.keys() == {"channel"}:
            return name
        with suppress(PaceError):
            if value.keys() == {"channel", "if", "after"} and value["if"] in CONDITIONS:
                return Fallback(channel=name, condition=value["if"], after_ms=spread_ms_in(value["after"]))
    days = round(LONGEST_FALLBACK_S) // 86_400
    raise field_problem(Text.FALLBACK_FORM, conditions=" or ".join(CONDITIONS), days=days)


def _name_of(entry: Any) -> str:
    """Return the channel of an entry, also of one that is as the caller wrote it."""
    name: str = entry.channel if isinstance(entry, Fallback) else entry["channel"] if isinstance(entry, dict) else entry
    return name


class DigestRequest(BaseModel):
    """How the notifications of a send are collected, each in the digest of its user."""

    model_config = ConfigDict(extra="forbid", strict=True)

    template: Annotated[str, _text("template"), Field(description="The template of the message of the digest.")]
    window: Annotated[
        str | None, Field(pattern=f"^{WINDOW_PATTERN}$", description="How long they are collected, at most 7 days.")
    ] = None
    at: Annotated[
        str | None, Field(pattern=f"^{TIME_PATTERN}$", description="Instead of a window, a time on the user's clock.")
    ] = None
    key: Annotated[
        str | None, Field(min_length=1, max_length=128, description="The variable whose value separates digests.")
    ] = None
    list: Annotated[
        int, Field(ge=1, le=MAX_LISTED, description="The number of notifications that the template sees.")
    ] = LISTED

    def digest(self) -> Digest:
        """Return the digest. Raises DigestError."""
        return read_digest(self.model_dump())


class RecurringSend(ContentRequest):
    """The send of a schedule: a send without times and without an id of its own."""

    channels: Annotated[
        list[Annotated[ChannelName | ChannelCondition | ChannelAlone, WrapValidator(_channel_or_fallback)]],  # type: ignore[valid-type]
        Field(max_length=len(CHANNELS)),
    ] = []
    # The audience is validated before to_users: a send has one of the two. `parse_request` reads its conditions.
    audience: Annotated[
        dict[str, Any] | None,
        Field(
            description="Users of the club by conditions or a saved audience (docs/audiences.md), instead of to_users."
        ),
    ] = None
    to_users: Annotated[list[UserId], _entries("to_users", min_length=1, default_factory=list)]
    recipient_data: Annotated[
        dict[str, Variables],
        Field(
            max_length=MAX_RECIPIENT_DATA,
            description="Variables of single recipients, which replace those of data: user id → name → text.",
        ),
    ] = {}
    priority: Annotated[
        Literal[*FIELDS_OF_SEND["priority"].choices],  # type: ignore[valid-type]
        Field(description="The lane of the send. That of a critical category is critical without it."),
    ] = "bulk"
    collapse_key: Annotated[str, _text("collapse_key")] | None = None
    reference: Annotated[str, _text("reference")] | None = None
    digest: Annotated[
        DigestRequest | None,
        Field(description="How the notifications are collected; by default as the category says."),
    ] = None
    per_minute: Annotated[
        int | None, _number("per_minute"), Field(description="The most recipients that are released in a minute.")
    ] = None
    spread_over: Annotated[
        str | None,
        Field(
            pattern=SPREAD_PATTERN,
            description="Instead of per_minute, how long the recipients are spread, such as 90m, 2h or 1d; at most 7d.",
        ),
    ] = None

    @field_validator("recipient_data")
    @classmethod
    def _in_one_request(cls, found: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        if sum(map(bytes_of, found.values())) > REQUEST_RECIPIENT_DATA_BYTES:
            raise field_problem(Text.BYTES_TOO_MANY, maximum=REQUEST_RECIPIENT_DATA_BYTES)
        return found

    @field_validator("to_users", mode="wrap")
    @classmethod
    def _or_audience(cls, value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> list[int]:
        if info.data.get("audience") is not None:
            raise field_problem(Text.AUDIENCE_AND_USERS)
        users: list[int] = validate(value)
        return users

    def lane(self, at_ms: int) -> Lane:
        """Return the lane of a send that is requested at a time, in milliseconds since the epoch."""
        return requested_lane(self.type, self.priority, at_ms)

    @property
    def recipients(self) -> int:
        """Return the number of distinct users; 0 if the send has an audience."""
        return len(set(self.to_users))

    @property
    def spread_over_ms(self) -> int | None:
        return None if self.spread_over is None else spread_ms_in(self.spread_over)


class SendRequest(RecurringSend):
    """The body of a request to POST /v1/sends."""

    audience_at: Annotated[
        Literal["due", "request"] | None,
        Field(
            description="When the users of the audience of a scheduled send are found: at its time (`due`, the default)"
            " or at the request."
        ),
    ] = None
    expires_at: Time = None
    send_at: Time = None
    send_at_local: LocalTime = None
    send_id: Annotated[
        str | None,
        Field(
            pattern=FIELDS_OF_SEND["send_id"].pattern,
            description="The id of the send, chosen by the caller: a random UUID in lower case. Without it, the "
            "service makes one. A name of the caller's own belongs into `reference`.",
        ),
    ] = None
    part_index: Annotated[
        int, Field(ge=0, lt=MAX_PARTS, description="Which of the requests of the send this one is, from 0.")
    ] = 0
    part_count: Annotated[
        int, Field(ge=1, le=MAX_PARTS, description="The number of requests under this send_id, in any order.")
    ] = 1

    @field_validator(*_TIMES)
    @classmethod
    def _in_milliseconds(cls, found: datetime | None, info: ValidationInfo) -> datetime | None:
        if unit_problem(str(info.field_name), _ms(found)):  # guard: sends.unit_of_written_time
            raise field_problem(Text.TIME_OF_OTHER_UNIT)
        return found

    @property
    def expires_at_ms(self) -> int | None:
        return _ms(self.expires_at)

    @property
    def send_at_ms(self) -> int | None:
        return _ms(self.send_at)

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """Return the channels that are used only if the one before them was not."""
        return tuple(each for each in self.channels if isinstance(each, Fallback))

    @property
    def part_suffix(self) -> str:
        """Return what distinguishes this part from the others under the send's id, also from those that are refused
        later because they have other recipients; "" if the service makes the id.
        """
        return "" if self.send_id is None else f"#{self.part_index}#{self.part_digest}"

    @cached_property
    def part_digest(self) -> str:
        """Return a digest of what this part has in addition to the content of its send: recipients, their variables and
        the lane. A value that most parts have is omitted.
        """
        of_some = {} if self.audience is None else {"audience": self.audience}
        of_some |= {} if self.priority == Lane.BULK else {"priority": self.priority}
        return _digest([self.to_users, self.recipient_data, *([of_some] if of_some else [])])

    def with_audience(self, audience: Mapping[str, Any]) -> Self:
        """Return the send with the definition of its saved audience. It is the same part of a send: a repeated request
        has the name, whose definition may have changed meanwhile.
        """
        copied = self.model_copy(update={"audience": dict(audience)})
        copied.__dict__["part_digest"] = self.part_digest  # guard: audiences.changed_definition
        return copied

    @property
    def variable_names(self) -> list[str]:
        """Return the names in the data of the send and of its recipients."""
        return list(dict.fromkeys([*self.data, *(name for own in self.recipient_data.values() for name in own)]))


class _UserSend(SendRequest):
    """A send without an audience."""

    to_users: Annotated[list[UserId], _entries("to_users", min_length=1)]


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def check_media_type(content_type: str | None) -> None:
    """Check the Content-Type of a request; it may be absent. Raises Problem with status 415 if it is not JSON."""
    media_type = (content_type or JSON).partition(";")[0].strip().lower()
    if media_type != JSON and not re.fullmatch(r"application/[\w.-]+\+json", media_type):
        raise Problem(
            415, Text.BODY_TYPE.filled(type=JSON), errors=[FieldError("Content-Type", Text.MUST_BE.filled(form=JSON))]
        )


def read_document(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request. Raises Problem with status 400 or 415."""
    check_media_type(request.header("content-type"))
    content = request.text()
    document = read_object(content, bounded=False)
    if content and _ESCAPED_SURROGATE.search(content):  # guard: sends.half_surrogates
        fields = dict.fromkeys(_path(location) for location in _half_surrogates(document, ()))
        if fields:
            message = Text.HALF_PAIR_IN_TEXT.filled()
            raise invalid([FieldError(field, message) for field in islice(fields, _ERRORS_A_FIELD)])
    return document


def _half_surrogates(value: Any, location: tuple[int | str, ...]) -> Iterator[tuple[int | str, ...]]:
    """Yield the location of each text that UTF-8 cannot encode. Half of a pair in a name is written as an escape."""
    match value:
        case str() if _SURROGATE.search(value):
            yield location
        case list():
            for index, each in enumerate(value):
                yield from _half_surrogates(each, (*location, index))
        case dict():
            for name, each in value.items():
                if _SURROGATE.search(name):
                    yield (*location, name.encode("ascii", "backslashreplace").decode())
                else:
                    yield from _half_surrogates(each, (*location, name))


def parse_request(document: Any, clock: Clock, model: "type[SendRequest]" = SendRequest) -> SendRequest:
    """Return the request in a JSON value. Raises Problem with status 400 that names each invalid field.

    Times that have passed are errors only if the request has another error: a repeated request with an idempotency key
    may arrive after them.
    """
    errors: list[FieldError] = []
    wrong: set[str] = set()
    if model is SendRequest and isinstance(document, Mapping) and document.get("audience") is None:
        model = _UserSend
    try:
        send = model.model_validate(document)
    except ValidationError as error:
        details = _details(error)
        errors = _field_errors(details, model)
        locations = [entry["loc"] for entry in details]
        # An error of the whole document, such as a name that is no text, hides those of its fields.
        if not isinstance(document, Mapping) or not all(locations):
            raise invalid(errors) from error
        wrong = {str(location[0]) for location in locations}
        readable = {name: document[name] for name in model.model_fields.keys() & document.keys() - wrong}
        send = model.model_construct(**readable)
    for fields, rule in _RULES:
        if not wrong.intersection(fields):
            errors += rule(send)
    if _is_critical(send, wrong, clock.now_ms()):
        errors += _critical_errors(send, wrong)
    if errors:
        errors += _time_errors(_readable_times(document), document.get("send_at_local"), clock.now_ms())
        raise invalid(errors)
    return send


def _type_errors(send: SendRequest) -> list[FieldError]:
    # A misspelt category would lose its rules, such as that it is mandatory.
    if not is_listed(send.type):  # guard: sends.unknown_category
        return [FieldError("type", Text.CATEGORY_UNKNOWN.filled())]
    if is_retired(send.type):  # guard: sends.retired_category
        return [FieldError("type", Text.CATEGORY_RETIRED.filled())]
    return []


def _template_errors(send: SendRequest) -> list[FieldError]:
    # The chain dead-letters such a record.
    if passes_opt_outs_of(send.type, send.template):  # guard: sends.template_of_an_optional_category
        return [FieldError("template", Text.TEMPLATE_OF_OPTIONAL.filled())]
    return []


def _id_errors(send: SendRequest) -> list[FieldError]:
    if send.part_count > 1 and send.send_id is None:
        return [FieldError("send_id", Text.SEND_ID_NEEDED.filled())]
    return []


def _part_errors(send: SendRequest) -> list[FieldError]:
    if send.part_index >= send.part_count:
        return [FieldError("part_index", Text.PART_TOO_LARGE.filled())]
    return []


def push_errors(send: ContentRequest) -> list[FieldError]:
    """Return the errors of the field push."""
    if send.push is None:
        return []
    problems = push_problems(send.push)
    errors = [
        FieldError(f"push.{path}"[:_LONGEST_PATH] if path else "push", message)
        for path, message in problems[:_ERRORS_A_FIELD]
    ]
    return errors + _further("push", len(problems))


def _audience_errors(send: SendRequest) -> list[FieldError]:
    return [] if send.audience is None else audience_errors(send.audience)


def _audience_time_errors(send: SendRequest) -> list[FieldError]:
    if send.audience_at is not None and send.audience is None:
        return [FieldError("audience_at", Text.AUDIENCE_AT_WITHOUT_AUDIENCE.filled())]
    if send.audience_at == "due" and send.send_at is None and send.send_at_local is None:
        return [FieldError("audience_at", Text.AUDIENCE_AT_WITHOUT_TIME.filled())]
    return []


def _is_critical(send: SendRequest, wrong: Set[str], now_ms: int) -> bool:
    """Return whether a send uses the critical lane now, or will as its category was put last. Wrong fields are not
    read.
    """
    if "priority" not in wrong and send.priority == Lane.CRITICAL:
        return True
    return "type" not in wrong and (is_critical(send.type, now_ms) or category(send.type).critical)


def _critical_errors(send: SendRequest, wrong: Set[str]) -> list[FieldError]:
    """Return the errors of fields that a send in the critical lane does not have."""
    given = [name for name in NOT_CRITICAL if name not in wrong and getattr(send, name) is not None]
    return [_critical_error(send, name) for name in given]  # guard: sends.critical_fields


def _critical_error(send: SendRequest, name: str) -> FieldError:
    if name != "audience":
        text = Text.DIGEST_OF_CRITICAL if name == "digest" else Text.PACE_OF_CRITICAL
        return FieldError(name, text.filled())
    if send.priority == Lane.CRITICAL:
        return FieldError("priority", Text.AUDIENCE_NOT_BULK.filled())
    return FieldError("type", Text.AUDIENCE_OF_CRITICAL.filled())


def _audience_part_errors(send: SendRequest) -> list[FieldError]:
    if send.audience is not None and send.part_count > 1:
        return [FieldError("part_count", Text.AUDIENCE_IN_PARTS.filled())]
    return []


def _digest_errors(send: SendRequest) -> list[FieldError]:
    if send.digest is None:
        return []
    if category(send.type, send.club_id).mandatory:
        return [FieldError("digest", Text.DIGEST_OF_MANDATORY.filled())]
    try:
        # Beside an error of another field, it is as the caller wrote it.
        DigestRequest.model_validate(send.digest).digest()
    except DigestError:
        return [form_error()]
    return []


def _pace_errors(send: SendRequest) -> list[FieldError]:
    if send.per_minute is not None and send.spread_over is not None:
        return [FieldError("per_minute", Text.PACE_TWICE.filled())]
    # The chain dead-letters such a record.
    if is_too_slow(send.per_minute, len(set(send.to_users))):
        return [FieldError("per_minute", Text.PACE_TOO_SLOW.filled(days=round(LONGEST_PACE_S) // 86_400))]
    return []


def _fallback_errors(send: SendRequest) -> list[FieldError]:
    has_condition = [isinstance(each, Fallback) or (isinstance(each, dict) and "if" in each) for each in send.channels]
    if not any(has_condition):
        return []
    names = [_name_of(each) for each in send.channels]
    if has_condition[0]:
        return [FieldError("channels[0]", Text.FALLBACK_FIRST.filled())]
    if len(set(names)) < len(names):
        return [FieldError("channels", Text.FALLBACK_TWICE.filled())]
    own = category(send.type, send.club_id)
    is_collected = own.digest is not None and not own.critical and send.priority != Lane.CRITICAL
    if send.digest is not None or is_collected:
        return [FieldError("channels", Text.FALLBACK_OF_DIGEST.filled())]
    text = fallbacks_text(each for each in send.channels if isinstance(each, Fallback))
    if (channel := unreported(text, names, complete_receipts())) is not None:
        return [FieldError("channels", Text.FALLBACK_WITHOUT_RECEIPTS.filled(channel=channel))]
    if PUSH in names and send.is_silent:
        return [FieldError("channels", Text.FALLBACK_OF_SILENT.filled())]
    return []


def _recipient_data_errors(send: SendRequest) -> list[FieldError]:
    users = set(map(str, send.to_users))
    others = [user for user in send.recipient_data if user not in users]
    errors = [
        FieldError(_path(("recipient_data", user)), Text.NOT_IN_TO_USERS.filled()) for user in others[:_ERRORS_A_FIELD]
    ]
    return errors + _further("recipient_data", len(others))


# The rules about several fields, with these fields. A rule is not applied if one of them is wrong.
_RULES: tuple[tuple[tuple[str, ...], Callable[[SendRequest], list[FieldError]]], ...] = (
    (("type",), _type_errors),
    (("type", "template"), _template_errors),
    (("part_count", "send_id"), _id_errors),
    (("part_count", "part_index"), _part_errors),
    (("push",), push_errors),
    (("audience",), _audience_errors),
    (("audience_at", "audience", "send_at", "send_at_local"), _audience_time_errors),
    (("audience", "part_count"), _audience_part_errors),
    (("digest", "type", "club_id"), _digest_errors),
    (("per_minute", "spread_over", "to_users"), _pace_errors),
    (("recipient_data", "to_users"), _recipient_data_errors),
    (("channels", "type", "club_id", "priority", "digest", "push"), _fallback_errors),
)


def _further(field: str, errors: int) -> list[FieldError]:
    """Return an entry that says how many errors of a field are not listed; none if all of them are."""
    left_out = errors - _ERRORS_A_FIELD
    return [FieldError(field, Text.FURTHER_ERRORS.filled(left_out=left_out))] if left_out > 0 else []


def invalid_fields(error: ValidationError, model: type[BaseModel]) -> Problem:
    """Return the problem that names each invalid field of a request."""
    return invalid(_field_errors(_details(error), model))


def time_problem(send: SendRequest, now_ms: int) -> Problem | None:
    """Return the problem with status 400 of a send that has expired, whose send_at is past, too far ahead or not
    before expires_at, or whose spread or fallbacks end after it; None if its times are valid.
    """
    times = {"expires_at": send.expires_at_ms, "send_at": send.send_at_ms}
    errors = _time_errors(times, send.send_at_local, now_ms)
    # guard: pace.after_the_end
    if not errors and ends_late(send.spread_over_ms, _begins_ms(send, now_ms), send.expires_at_ms):
        errors = [FieldError("spread_over", Text.SPREAD_AFTER_END.filled())]
    # guard: fallbacks.after_the_end
    if not errors and ends_before(send.fallbacks, _begins_ms(send, now_ms), send.expires_at_ms):
        errors = [FieldError("channels", Text.FALLBACK_AFTER_END.filled())]
    return invalid(errors) if errors else None


def _begins_ms(send: SendRequest, now_ms: int) -> int:
    """Return the time at which a send begins, in ms since the epoch."""
    if send.send_at_local is not None:
        return max(now_ms, first_ms(send.send_at_local) or now_ms)
    return send.send_at_ms or now_ms


def _details(error: ValidationError) -> list[ErrorDetails]:
    """Return each error without its input: half a million wrong users take 160 MB so, and 250 MB with it."""
    return error.errors(include_url=False, include_context=False, include_input=False)


def _field_errors(details: Sequence[ErrorDetails], model: type[BaseModel]) -> list[FieldError]:
    """Return the errors by field. A field with many errors leaves room for those of other fields."""
    reported: Counter[str] = Counter()
    errors = []
    for entry in details:
        field = str(entry["loc"][0]) if entry["loc"] else ""
        field = field if field in model.model_fields else ""
        reported[field] += 1
        if reported[field] <= _ERRORS_A_FIELD:
            errors.append(FieldError(_path(entry["loc"]), text_of_details(entry)))
    return errors + [entry for field, number in reported.items() for entry in _further(field, number)]


def _readable_times(document: Mapping[str, Any]) -> dict[str, int | None]:
    times: dict[str, int | None] = {}
    for name in _TIMES:
        try:
            found = _ms(_TIME.validate_python(document.get(name)))
        except ValidationError:
            found = None
        times[name] = None if unit_problem(name, found) else found
    return times


def with_definition(send: SendRequest, saved: SavedAudiences) -> SendRequest:
    """Return a permitted send with the definition of the saved audience that it names; another send as it is. Raises
    the errors of `resolved`.
    """
    if not is_saved(send.audience):
        return send
    return send.with_audience(resolved(send.audience or {}, send.club_id, saved.find))


def check_tenant(send: ContentRequest, clubs: Clubs) -> None:
    """Check the clubs of the caller. Raises Problem with status 403 if the credentials do not permit sends for the
    club.
    """
    if send.club_id not in clubs:
        message = Text.CLUB_OF_OTHERS.filled(club_id=str(send.club_id))
        raise Problem(403, Text.SENDING_NOT_PERMITTED.filled(), errors=[FieldError("club_id", message)])


def _check_simulated(send: SendRequest) -> None:
    """Check that all recipients of a test key's send are simulator recipients; an audience is replaced by them. Raises
    Problem with status 403 that names the others, at most 20.
    """
    others = [index for index, user_id in enumerate(send.to_users) if not is_simulated(user_id)]
    if others:  # guard: simulator.test_key
        message = Text.NOT_SIMULATED.filled(first=str(FIRST_ID), last=str(LAST_ID))
        errors = [FieldError(f"to_users[{index}]", message) for index in others[:20]]
        raise Problem(403, Text.TEST_KEY_RECIPIENTS.filled(), errors=errors)


def _scopes_needed(send: SendRequest) -> list[Scope]:
    """Return the scopes that a request needs in addition to that of its route."""
    names = [send.data.keys() | own.keys() for own in ({}, *send.recipient_data.values())]
    return scopes_of_send(send.type, names, is_critical=send.priority == Lane.CRITICAL, shows_own=shows_own(send.push))


def check_permitted(request: Request, send: SendRequest) -> None:
    """Check that the caller may request a send. Raises Problem with status 403."""
    check_tenant(send, request.clubs)
    if request.is_test:
        _check_simulated(send)
    for scope in _scopes_needed(send):
        request.require(scope)
    if send.audience is not None and send.audience.get("except_users"):
        check_named_users(request.scopes, "audience.except_users")


def _time_errors(times: Mapping[str, int | None], send_at_local: object, now_ms: int) -> list[FieldError]:
    """Return the errors of the times of a send. Those in `times` are in milliseconds since the epoch."""
    expires_at, send_at = times["expires_at"], times["send_at"]
    errors = []
    if expires_at is not None and expires_at <= now_ms:
        errors.append(FieldError("expires_at", Text.MUST_LIE_AHEAD.filled()))
    if send_at is not None and not now_ms < send_at <= now_ms + MAX_REQUEST_AHEAD_MS:
        errors.append(FieldError("send_at", Text.TIME_TOO_FAR.filled(days=_DAYS_AHEAD)))
    elif send_at is not None and expires_at is not None and expires_at <= send_at:
        errors.append(FieldError("send_at", Text.SEND_AT_AFTER_END.filled()))
    if isinstance(send_at_local, str) and (problem := _local_time_problem(send_at_local, times, now_ms)):
        errors.append(FieldError("send_at_local", problem))
    return errors


def _local_time_problem(text: str, times: Mapping[str, int | None], now_ms: int) -> CodedText | None:
    """Return the problem of a send_at_local that no recipient can wait for; None for any other, and for an invalid
    text.
    """
    first, last, expires_at = first_ms(text), last_ms(text), times["expires_at"]
    if first is None or last is None:
        return None
    if times["send_at"] is not None:
        return Text.SEND_AT_TWICE.filled()
    if last <= now_ms or first > now_ms + MAX_REQUEST_AHEAD_MS:
        return Text.LOCAL_TIME_TOO_FAR.filled(days=_DAYS_AHEAD)
    if expires_at is not None and expires_at <= first:
        return Text.LOCAL_TIME_AFTER_END.filled()
    return None


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def _path(location: tuple[int | str, ...]) -> str:
    """Return the path of a field such as `to_users[3]`, as the caller wrote it; it is truncated if the caller's own
    names are too long.
    """
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text[:_LONGEST_PATH]
