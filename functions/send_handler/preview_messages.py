"""POST /v1/previews: the messages of a send for one user, rendered as the builder renders them, and not sent."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from functions.send_handler.field_problems import field_problem
from functions.send_handler.send_request import ContentRequest, UserId, invalid_fields, push_errors
from masscomm.channels.push import MAX_PAYLOAD_BYTES, PLATFORM_NAMES, payload_bytes, shortened_body
from masscomm.channels.sms import sms_by_country
from masscomm.directory.port import Directory
from masscomm.domain.categories import category
from masscomm.domain.channels import CHANNELS
from masscomm.domain.limits import FIELDS_OF_SEND, MAX_SOURCE_CHARACTERS, RECORD_STEPS
from masscomm.domain.preferences import is_member
from masscomm.domain.push_options import PUSH
from masscomm.domain.sms_segments import MAX_SEGMENTS, encoding, segments
from masscomm.domain.sms_settings import MICRO, sms_table
from masscomm.domain.users import Template, User
from masscomm.http.problem import FieldError, FieldErrorBody, invalid
from masscomm.http.unused_content import unused_content
from masscomm.rendering.compiler import Steps
from masscomm.rendering.preview import Preview, preview
from masscomm.texts import CodedBody, Text

# The bytes of the ids of notification and send, which are UUIDs.
_ID_BYTES = 2 * 36
_SMS = "sms"
_NAME = Field(max_length=200)
_SOURCE = Field(max_length=MAX_SOURCE_CHARACTERS)


class PreviewUser(BaseModel):
    """The values of a user that does not have to exist."""

    model_config = ConfigDict(extra="forbid", strict=True)

    first_name: Annotated[str, _NAME] = ""
    last_name: Annotated[str, _NAME] = ""
    locale: Annotated[str, Field(pattern=FIELDS_OF_SEND["locale"].pattern, max_length=64)] = "en"
    attributes: Annotated[
        dict[Annotated[str, _NAME], Annotated[str, Field(max_length=10_000)] | bool | int | float | None],
        Field(max_length=100),
    ] = {}


class Draft(BaseModel):
    """A template that is not saved yet. It is rendered in place of the saved ones."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: Annotated[str, _SOURCE]
    body: Annotated[str, _SOURCE]
    html: Annotated[str, _SOURCE] | None = None
    url: Annotated[str, _SOURCE] | None = None


class PreviewRequest(ContentRequest):
    """The body of a request to POST /v1/previews."""

    user_id: Annotated[UserId | None, Field(description="The user; without it, the values in `user`.")] = None
    user: PreviewUser | None = None
    draft: Draft | None = None

    @field_validator("user")
    @classmethod
    def _one_user(cls, user: PreviewUser | None, info: ValidationInfo) -> PreviewUser | None:
        if user is not None and info.data.get("user_id") is not None:
            raise field_problem(Text.USER_TWICE)
        return user


class PreviewedTemplate(TypedDict):
    """The template that a message is rendered from."""

    id: int
    club_id: int | None
    """The tenant that the template belongs to; null: it is for every tenant."""
    locale: str


class PreviewedPlatform(TypedDict):
    """A push as a platform gets it, without a `collapse_key`."""

    platform: Literal["ios", "android"]
    body: str
    """The body, which may be shortened."""
    shortened: bool
    payload_bytes: int
    too_large: bool
    """Whether the push fails, because the platform accepts 4,096 bytes."""


class PreviewedCountry(TypedDict):
    """The SMS to a country of the tenant, as it is billed."""

    country: str
    """ISO 3166, two letters."""
    segments: int
    usd: float


class PreviewedSms(TypedDict):
    """An SMS as it is sent, with the way to opt out if its recipients cannot answer STOP."""

    encoding: Literal["GSM-7", "UCS-2"]
    """That of the SMS with the most segments."""
    segments: int
    """The most segments of the SMS to a country; of the text alone if the tenant sends to none."""
    too_large: bool
    """Whether the SMS fails, because it has more than 6 segments."""
    countries: list[PreviewedCountry]
    prices_as_of: str | None
    """The day of the prices."""


class PreviewedMessage(TypedDict):
    """The message on one channel."""

    channel: str
    template: PreviewedTemplate | None
    """Null: a draft, or title and body of the data."""
    fields: dict[str, str] | None
    """The texts: title, body and url of a push; subject, text and html of an e-mail; text of an SMS. Null: there is no
    message."""
    missing: list[str]
    """The variables without a value; in the texts, their names in brackets replace them."""
    problem: str | None
    """The reason why the user would not get this message."""
    problem_text: CodedBody | None
    """The code of the reason, with its values."""
    platforms: list[PreviewedPlatform]
    """The push on each platform; empty for another message, and for none."""
    sms: PreviewedSms | None
    """Null for another message, and for none."""


class PreviewBody(TypedDict):
    """The messages of one user."""

    complete: bool
    """Whether the user would get a message on each channel, unless preferences or quiet hours prevent it."""
    messages: list[PreviewedMessage]
    warnings: list[FieldErrorBody]
    """The warnings that the response to the send would have."""


def parse_preview(document: dict[str, Any]) -> PreviewRequest:
    """Return the request in a JSON object. Raises Problem with status 400 that names each invalid field."""
    try:
        wanted = PreviewRequest.model_validate(document)
    except ValidationError as error:
        raise invalid_fields(error, PreviewRequest) from error
    if errors := push_errors(wanted):
        raise invalid(errors)
    return wanted


def previewed(wanted: PreviewRequest, directory: Directory) -> PreviewBody:
    """Return the messages. The caller has checked the club.

    Raises Problem with status 400 if the club has no such user, and Retry.
    """
    user, content = _user(wanted, directory), wanted.content()
    found = _templates(wanted, directory)
    messages = []
    steps = Steps(RECORD_STEPS)
    for channel in wanted.resolved_channels():
        if channel in found:
            message = preview(content, channel, found[channel], user, steps)
        else:
            message = Preview(channel=channel, texts={})  # A silent push.
        if wanted.user_id is not None and not CHANNELS[channel].reaches(user):
            message = replace(message, problem=Text.NO_ADDRESS.filled())
        messages.append(_message(message, wanted))
    warnings = unused_content(content, found, list(wanted.data), steps)
    return {
        "complete": all(message["problem"] is None for message in messages),
        "messages": messages,
        "warnings": [each.body() for each in warnings],
    }


def _user(wanted: PreviewRequest, directory: Directory) -> User:
    if wanted.user_id is None:
        values = wanted.user or PreviewUser()
        return User(
            user_id=1,
            club_id=wanted.club_id,
            first_name=values.first_name,
            last_name=values.last_name,
            locale=values.locale,
            attributes=values.attributes,
        )
    user = directory.users([wanted.user_id]).get(wanted.user_id)
    # A user of another club and an unknown user have the same response, so that guessed ids reveal nothing.
    if user is None or not is_member(user, wanted.club_id):  # guard: tenancy.previewed_user
        raise invalid([FieldError("user_id", Text.USER_OF_OTHERS.filled(club_id=str(wanted.club_id)))])
    return user


def _templates(wanted: PreviewRequest, directory: Directory) -> dict[str, Sequence[Template]]:
    """Return the templates by channel."""
    keys = wanted.template_keys()
    if wanted.draft is None:
        return {channel: templates for (_, _, channel), templates in directory.templates(keys).items()}
    locale, texts = wanted.locale or "en", wanted.draft.model_dump()
    return {channel: [Template(0, club_id, name, channel, locale, **texts)] for club_id, name, channel in keys}


def _message(found: Preview, wanted: PreviewRequest) -> PreviewedMessage:
    template = None if wanted.draft is not None else found.template
    return {
        "channel": found.channel,
        "template": None
        if template is None
        else {"id": template.template_id, "club_id": template.club_id, "locale": template.locale},
        "fields": found.texts,
        "missing": list(found.missing),
        "problem": found.problem,
        "problem_text": None if found.problem is None else found.problem.body(),
        "platforms": [] if found.channel != PUSH or found.texts is None else _platforms(found.texts, wanted),
        "sms": None if found.channel != _SMS or found.texts is None else _sms(found.texts.get("text", ""), wanted),
    }


def _sms(text: str, wanted: PreviewRequest) -> PreviewedSms:
    found = sms_by_country(wanted.club_id, wanted.type, text)
    longest = max((each.text for each in found), key=segments, default=text)
    as_of = sms_table().prices_as_of
    return {
        "encoding": encoding(longest),
        "segments": segments(longest),
        "too_large": segments(longest) > MAX_SEGMENTS,
        "countries": [
            {"country": each.country, "segments": each.segments, "usd": each.micro_dollars / MICRO} for each in found
        ],
        "prices_as_of": None if as_of is None else as_of.isoformat(),
    }


def _platforms(texts: Mapping[str, str], wanted: PreviewRequest) -> list[PreviewedPlatform]:
    may_shorten = category(wanted.type, wanted.club_id).shorten
    found: list[PreviewedPlatform] = []
    for platform, name in PLATFORM_NAMES.items():
        size_of = partial(
            payload_bytes,
            platform,
            title=texts.get("title", ""),
            id_bytes=_ID_BYTES,
            url=texts.get("url"),
            push=wanted.push_text,
        )
        body = texts.get("body", "")
        size = size_of(body=body)
        shortened = shortened_body(body, size - MAX_PAYLOAD_BYTES) if may_shorten and size > MAX_PAYLOAD_BYTES else None
        size = size if shortened is None else size_of(body=shortened)
        found.append(
            {
                "platform": name,
                "body": body if shortened is None else shortened,
                "shortened": shortened is not None,
                "payload_bytes": size,
                "too_large": size > MAX_PAYLOAD_BYTES,
            }
        )
    return found
