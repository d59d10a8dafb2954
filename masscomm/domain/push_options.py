"""The options of the pushes of a send, in its field `push`.

    {"image": "https://club.example/goal.jpg", "badge": 3, "sound": "default", "interruption_level": "time_sensitive",
     "actions": [{"id": "watch", "title": "Watch", "url": "riverside://matches/7"}], "data": {"match": "7"}}
    {"silent": true, "data": {"refresh": "scores"}}

Records have it as JSON. The reader here checks it for requests over REST and for records of other producers.

Source: Apple, "Generating a remote notification"; Firebase, "REST Resource: projects.messages".
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from masscomm.domain.deep_links import is_deep_link
from masscomm.domain.limits import MAX_PUSH_BYTES
from masscomm.json_reader import InvalidJson, read_json
from masscomm.texts import CodedText, Text

PUSH = "push"
MAX_ACTIONS = 3
MAX_ENTRIES = 50
MAX_LINK = 1_000
MAX_TITLE = 64
# The highest number of Firebase's notification_count, an int32.
MAX_BADGE = 2**31 - 1
INTERRUPTION_LEVELS = ("passive", "active", "time_sensitive", "critical")
IMAGE_PATTERN = r"^https://[A-Za-z0-9][!-~]{0,990}$"
SOUND_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}$"
ANDROID_CHANNEL_PATTERN = r"^[!-~]([ -~]{0,98}[!-~])?$"
ACTION_ID_PATTERN = r"^[A-Za-z0-9_-]{1,32}$"
# Firebase reserves from, message_type and what begins with google or gcm, and its earlier interface also collapse_key.
# aps is Apple's own member, and the others are those that masscomm adds (masscomm.channels.push).
RESERVED_KEYS = (
    *("from", "message_type", "collapse_key", "aps"),
    *("masscomm", "notification_id", "send_id", "url", "actions"),
)
RESERVED_PREFIXES = ("google", "gcm")
_KEY_PATTERN = r"^[A-Za-z0-9_.-]{1,64}$"
# The form of a key that is not reserved.
DATA_KEY_PATTERN = rf"^(?!(?:{'|'.join(RESERVED_KEYS)})$)(?!{'|'.join(RESERVED_PREFIXES)}){_KEY_PATTERN[1:]}"
# The members that a silent push cannot have, because they show or play something.
_SHOWN = ("image", "badge", "sound", "android_channel", "interruption_level", "actions")
# One shared encoder: json.dumps would create an encoder for each call with these options.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


class PushProblem(NamedTuple):
    """An invalid part of the field."""

    # The path of the part, such as `actions[0].id`; "" for the field itself.
    path: str
    message: CodedText


class InvalidPush(ValueError):
    """The field `push` of a record is invalid. The message names the first problem."""


class Action(NamedTuple):
    """A button of a push."""

    id: str
    title: str
    url: str | None = None

    def fields(self) -> dict[str, str]:
        """Return the members of the action."""
        return {"id": self.id, "title": self.title} | ({} if self.url is None else {"url": self.url})


class PushOptions(NamedTuple):
    """The options of the pushes of a send."""

    image: str | None = None
    badge: int | None = None
    sound: str | None = None
    # Whether the app gets the data and the device shows nothing.
    silent: bool = False
    android_channel: str | None = None
    # One of INTERRUPTION_LEVELS.
    interruption_level: str | None = None
    actions: tuple[Action, ...] = ()
    data: Mapping[str, str] = MappingProxyType({})


def push_problems(value: Any) -> list[PushProblem]:
    """Return the problems of the field in a request; none if it is valid."""
    if not isinstance(value, dict):
        return [PushProblem("", Text.TYPE_OBJECT.filled())]
    problems = [PushProblem(name, Text.FIELD_EXTRA.filled()) for name in value if name not in _READERS]
    for name, given in value.items():
        if name in _READERS:
            problems += _READERS[name](name, given)
    if value.get("silent") is True:  # guard: push.silent_shows_nothing
        problems += [PushProblem(name, Text.PUSH_OF_SILENT.filled()) for name in _SHOWN if name in value]
    if not problems and len(push_text(value).encode(errors="surrogatepass")) > MAX_PUSH_BYTES:
        problems.append(PushProblem("", Text.AUDIENCE_TOO_LARGE.filled(maximum=MAX_PUSH_BYTES)))
    return problems


def shows_own(value: Mapping[str, Any] | None) -> bool:
    """Return whether the field of a request shows a picture or buttons of the caller."""
    return value is not None and bool(value.keys() & {"image", "actions"})


def push_text(value: Mapping[str, Any]) -> str:
    """Return the field as records have it: the same text for each order of its members."""
    return _ENCODER.encode(value)


def check_push(text: str) -> None:
    """Check the field of a record. Raises InvalidPush."""
    push_options(text)


# The result is cached, because all records of a send have the same text.
@lru_cache(maxsize=64)
def push_options(text: str) -> PushOptions:
    """Return the field of a record. Raises InvalidPush."""
    if len(text.encode(errors="surrogatepass")) > MAX_PUSH_BYTES:
        raise InvalidPush(f"push has more than {MAX_PUSH_BYTES} bytes")
    try:
        value = read_json(text)
    except InvalidJson as error:
        raise InvalidPush(f"push is not JSON: {error}") from error
    if problems := push_problems(value):
        path, message = problems[0]
        raise InvalidPush(f"push{'.' if path else ''}{path}: {message}")
    actions = tuple(Action(**each) for each in value.get("actions", ()))
    return PushOptions(**{**value, "actions": actions})


def is_silent(push: str | None, channel: str) -> bool:
    """Return whether the notifications of a send on a channel are silent pushes, which no user notices.

    Args:
        push: The valid field of a record.
        channel: The channel.
    """
    return push is not None and channel == PUSH and push_options(push).silent


def without_values(push: str | None) -> str | None:
    """Return the field of a record without values, which may be about a person; a silent push stays silent."""
    return push_text({"silent": True}) if is_silent(push, PUSH) else None


def _boolean(path: str, value: Any) -> Iterator[PushProblem]:
    if type(value) is not bool:
        yield PushProblem(path, Text.TYPE_BOOLEAN.filled())


def _badge(path: str, value: Any) -> Iterator[PushProblem]:
    if type(value) is not int:
        yield PushProblem(path, Text.TYPE_INTEGER.filled())
    elif value < 0:
        yield PushProblem(path, Text.NUMBER_TOO_SMALL.filled(ge=0))
    elif value > MAX_BADGE:
        yield PushProblem(path, Text.NUMBER_TOO_LARGE.filled(le=MAX_BADGE))


def _matching(pattern: str) -> Any:
    def read(path: str, value: Any) -> Iterator[PushProblem]:
        if not isinstance(value, str):
            yield PushProblem(path, Text.TYPE_TEXT.filled())
        elif not re.fullmatch(pattern, value):
            yield PushProblem(path, Text.TEXT_PATTERN.filled(pattern=pattern))

    return read


def _level(path: str, value: Any) -> Iterator[PushProblem]:
    if value not in INTERRUPTION_LEVELS:
        yield PushProblem(path, Text.TYPE_CHOICE.filled(expected=", ".join(INTERRUPTION_LEVELS)))


def _actions(path: str, value: Any) -> Iterator[PushProblem]:
    if not isinstance(value, list):
        yield PushProblem(path, Text.TYPE_LIST.filled())
    elif len(value) > MAX_ACTIONS:
        yield PushProblem(path, Text.LIST_TOO_LONG.filled(max_length=MAX_ACTIONS, actual_length=len(value)))
    else:
        for index, each in enumerate(value):
            yield from _action(f"{path}[{index}]", each)
        ids = [each.get("id") for each in value if isinstance(each, dict)]
        if any(ids.count(each) > 1 for each in ids if isinstance(each, str)):
            yield PushProblem(path, Text.PUSH_ACTION_TWICE.filled())


def _action(path: str, value: Any) -> Iterator[PushProblem]:
    if not isinstance(value, dict):
        yield PushProblem(path, Text.TYPE_OBJECT.filled())
        return
    for name in value.keys() - _ACTION_READERS.keys():
        yield PushProblem(f"{path}.{name}", Text.FIELD_EXTRA.filled())
    for name, read in _ACTION_READERS.items():
        if name in value:
            yield from read(f"{path}.{name}", value[name])
        elif name != "url":
            yield PushProblem(f"{path}.{name}", Text.FIELD_REQUIRED.filled())


def _title(path: str, value: Any) -> Iterator[PushProblem]:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_TITLE or not value.strip():
        yield PushProblem(path, Text.MUST_BE_TEXT.filled(maximum=MAX_TITLE))


def _link(path: str, value: Any) -> Iterator[PushProblem]:
    if not isinstance(value, str) or len(value) > MAX_LINK or not is_deep_link(value):
        yield PushProblem(path, Text.PUSH_LINK.filled(maximum=MAX_LINK))


def _data(path: str, value: Any) -> Iterator[PushProblem]:
    if not isinstance(value, dict):
        yield PushProblem(path, Text.TYPE_OBJECT.filled())
        return
    if len(value) > MAX_ENTRIES:
        yield PushProblem(path, Text.LIST_TOO_LONG.filled(max_length=MAX_ENTRIES, actual_length=len(value)))
        return
    for key, each in value.items():
        if key in RESERVED_KEYS or key.startswith(RESERVED_PREFIXES):  # guard: push.reserved_keys
            yield PushProblem(f"{path}.{key}", Text.PUSH_KEY_RESERVED.filled())
        elif not re.fullmatch(_KEY_PATTERN, key):
            yield PushProblem(f"{path}.{key}", Text.TEXT_PATTERN.filled(pattern=_KEY_PATTERN))
        elif not isinstance(each, str):
            yield PushProblem(f"{path}.{key}", Text.TYPE_TEXT.filled())


_READERS: Mapping[str, Any] = {
    "image": _matching(IMAGE_PATTERN),
    "badge": _badge,
    "sound": _matching(SOUND_PATTERN),
    "silent": _boolean,
    "android_channel": _matching(ANDROID_CHANNEL_PATTERN),
    "interruption_level": _level,
    "actions": _actions,
    "data": _data,
}
_ACTION_READERS: Mapping[str, Any] = {"id": _matching(ACTION_ID_PATTERN), "title": _title, "url": _link}
