"""Digests: the notifications of a category to one user on one channel that go out as one message.

A notification is collected in the digest of its tenant, user, channel, category and key. The first one opens the
digest. The end of the window, the local time or the number of members closes it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Any

from masscomm.domain.limits import NAME_PATTERN
from masscomm.domain.names import folded
from masscomm.domain.time_limits import LONGEST_DIGEST_S

# The delay reason of collected notifications.
DELAY_REASON = "digest"
# The number of members that closes a digest.
MAX_MEMBERS = 1_000
# The largest number of members whose variables the template sees, and the number if the digest names none.
MAX_LISTED, LISTED = 100, 10
# The size in UTF-8 of the contents of a digest. Members whose variables do not fit are counted, and not listed.
MAX_CONTENTS_BYTES = 64_000
WINDOW_PATTERN = r"[1-9][0-9]{0,4}[mhd]"
TIME_PATTERN = r"([01][0-9]|2[0-3]):[0-5][0-9]"
_MINUTES = {"m": 1, "h": 60, "d": 1_440}
_KEY_CHARACTERS = 128
_FIELDS = {"template", "window", "at", "key", "list"}


class DigestError(ValueError):
    """A digest is not valid. The message names the field."""


@dataclass(frozen=True, kw_only=True)
class Digest:
    """The digest of a category or of a send."""

    # The template of the message, whatever number of members it has.
    template: str
    # How long members are collected, such as 1h; None: until `at`.
    window: str | None = None
    # The time on the user's clock at which the digest closes, such as 08:00; None: after the window.
    at: str | None = None
    # The variable whose value separates digests; None: the user has one digest of the category.
    key: str | None = None
    # The number of members whose variables the template sees.
    listed: int = LISTED

    @property
    def window_ms(self) -> int | None:
        """Return the length of the window in milliseconds; None if the digest closes at a local time."""
        return None if self.window is None else length_ms(self.window)

    def key_of(self, category: str, data: Mapping[str, str]) -> str:
        """Return the name of the digest among those of its user and channel. Notifications without the variable of
        the key share one digest.
        """
        value = "" if self.key is None else data.get(self.key, "")
        digest = blake2b(f"{folded(category)}\0{value}".encode(errors="surrogatepass"), digest_size=12)
        return digest.hexdigest()


def length_ms(window: str) -> int:
    """Return the length of a window (WINDOW_PATTERN) in milliseconds."""
    return int(window[:-1]) * _MINUTES[window[-1]] * 60_000


def read_digest(given: Any) -> Digest:
    """Return the digest in a JSON object. Raises DigestError."""
    if not isinstance(given, dict) or not given.keys() <= _FIELDS:
        raise DigestError("a digest has template, and window or at, and may have key and list")
    template, window, at, key = (given.get(name) for name in ("template", "window", "at", "key"))
    listed = given.get("list", LISTED)
    if not _matches(NAME_PATTERN, template):
        raise DigestError("template must be the name of the template of the digest")
    if (window is None) == (at is None):
        raise DigestError("a digest has either window or at")
    if window is not None and not _matches(WINDOW_PATTERN, window):
        raise DigestError("window must be a number of minutes, hours or days such as 30m, 24h or 7d")
    if at is not None and not _matches(TIME_PATTERN, at):
        raise DigestError("at must be a time such as 08:00")
    if key is not None and not (isinstance(key, str) and 1 <= len(key) <= _KEY_CHARACTERS):
        raise DigestError("key must be the name of a variable")
    if type(listed) is not int or not 1 <= listed <= MAX_LISTED:
        raise DigestError(f"list must be a whole number from 1 to {MAX_LISTED}")
    found = Digest(template=str(template), window=window, at=at, key=key, listed=listed)
    if (found.window_ms or 0) > LONGEST_DIGEST_S * 1000:
        raise DigestError(f"window must not be longer than {round(LONGEST_DIGEST_S) // 86_400}d")
    return found


def _matches(pattern: str, value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII) is not None


def is_listable(data: Mapping[str, str]) -> bool:
    """Return whether the contents of a digest have room for the variables of a member that is the first one."""
    return len(_contents(MAX_MEMBERS, [data])) <= MAX_CONTENTS_BYTES


def known_fields(digest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored digest without the fields that a later version of the code has added."""
    return {name: value for name, value in digest.items() if name in _FIELDS}


def fields_of_digest(digest: Digest) -> dict[str, Any]:
    """Return a digest as a JSON object (read_digest)."""
    named = {"template": digest.template, "window": digest.window, "at": digest.at, "key": digest.key}
    return {name: value for name, value in named.items() if value is not None} | {"list": digest.listed}


def digest_text(digest: Digest) -> str:
    """Return the text of a digest in the records of a send."""
    return json.dumps(fields_of_digest(digest), sort_keys=True, separators=(",", ":"))


# The result is cached, because all records of a send have the same text, which each step of their decision reads.
@lru_cache(maxsize=64)
def digest_in(text: str) -> Digest:
    """Return the digest in the text of a record. Raises DigestError."""
    return read_digest(_document(text))


def contents_of(count: int, members: Iterable[Mapping[str, str]], listed: int) -> str:
    """Return what the template sees of a digest.

    Args:
        count: The number of its members.
        members: The variables of the members, in the order in which they were collected.
        listed: The largest number of members whose variables are listed.
    """
    shown: list[Mapping[str, str]] = []
    # The first member has no comma before it.
    room = MAX_CONTENTS_BYTES - len(_contents(count, [])) + 1
    for data in islice(members, listed):
        room -= len(_json(data)) + 1
        if room < 0:
            break
        shown.append(data)
    return _contents(count, shown)


def without_members(text: str | None) -> str | None:
    """Return the contents of a digest without the variables of its members. It stays the message of a digest."""
    return None if text is None else _contents(0, [])


def _contents(count: int, shown: list[Mapping[str, str]]) -> str:
    return _json({"count": count, "list": shown})


def _json(value: object) -> str:
    """Return a value as JSON in ASCII, so that its length is its size in bytes."""
    return json.dumps(value, separators=(",", ":"))


def contents_in(text: str) -> dict[str, Any]:
    """Return the values of the variable `digest` of a template. Raises DigestError."""
    found = _document(text)
    if not isinstance(found, dict) or type(found.get("count")) is not int or not isinstance(found.get("list"), list):
        raise DigestError("the contents of a digest have count and list")
    listed = found["list"]
    if len(listed) > MAX_LISTED or not all(map(_is_data, listed)):
        raise DigestError(f"list has the variables of at most {MAX_LISTED} members")
    return {"count": found["count"], "first": listed[0] if listed else {}, "list": listed}


def _is_data(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DigestError("is not a JSON object") from error
