"""Frequency caps of categories: how many notifications a user gets in a window.

A cap counts the sends of a category, or of a group of categories, either on each channel or over all channels, where a
send counts once.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from masscomm.domain.names import folded
from masscomm.domain.time_limits import CAP_PLACES_LONGER_S, LONGEST_CAP_S

MAX_LIMIT = 100
# The largest number of caps of one category.
MAX_CAPS = 4
# The window that is the user's local day.
DAY = "day"
WINDOW_PATTERN = r"day|[1-9][0-9]{0,4}[mhd]"
GROUP_PATTERN = r"[a-z0-9_.-]{1,64}"
# The milliseconds of a unit of windows.
_UNITS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


class CapError(ValueError):
    """A cap is not valid. The message names the field."""


@dataclass(frozen=True, kw_only=True)
class Cap:
    """A frequency cap of a category."""

    # The number of sends in a window, from 1 to MAX_LIMIT.
    limit: int
    # The rolling window, such as 24h, or DAY.
    window: str
    # Whether each channel counts by itself. Otherwise, a send counts once for all its channels.
    by_channel: bool = False
    # The name of the group whose categories count together; None: the category counts by itself.
    group: str | None = None

    @property
    def window_ms(self) -> int | None:
        """Return the length of a rolling window in milliseconds; None for the user's local day."""
        return None if self.window == DAY else int(self.window[:-1]) * _UNITS[self.window[-1]]

    @property
    def kept_s(self) -> int:
        """Return how long places are kept after the last change, in seconds."""
        return round((self.window_ms or _UNITS["d"]) / 1000 + CAP_PLACES_LONGER_S)

    def scope(self, category: str) -> str:
        """Return the name of the categories that count together."""
        return f"category:{folded(category)}" if self.group is None else f"group:{self.group}"

    def words(self, category: str, channel: str) -> str:
        """Return the cap in words, for outcome records."""
        where = channel if self.by_channel else "all channels"
        return f"at most {self.limit} in {self.window} of {self.scope(category)} on {where}"

    def key(self, category: str, channel: str) -> str:
        """Return the key of the places that a notification takes. It leaves out the limit, so that a category whose
        limit changes keeps its places.
        """
        length_ms = self.window_ms
        # The scope is last, because a producer of Kafka may write any text.
        window, where = DAY if length_ms is None else length_ms, channel if self.by_channel else "*"
        return f"{window}#{where}#{self.scope(category)}"


def read_caps(given: Any) -> tuple[Cap, ...]:
    """Return the caps in a list of JSON objects. Raises CapError."""
    if not isinstance(given, list) or len(given) > MAX_CAPS:
        raise CapError(f"must be a list of at most {MAX_CAPS} caps")
    found = tuple(map(_read_cap, given))
    if len({(cap.window_ms, cap.by_channel, cap.group) for cap in found}) < len(found):
        raise CapError("two caps with one window count the same sends")
    return found


def _read_cap(given: Any) -> Cap:
    if not isinstance(given, dict) or not {"limit", "window"} <= given.keys() <= _FIELDS:
        raise CapError("a cap has limit and window, and may have by_channel and group")
    limit, window = given["limit"], given["window"]
    if type(limit) is not int or not 1 <= limit <= MAX_LIMIT:
        raise CapError(f"limit must be a whole number from 1 to {MAX_LIMIT}")
    if not isinstance(window, str) or not re.fullmatch(WINDOW_PATTERN, window):
        raise CapError("window must be day, or a number of minutes, hours or days such as 30m, 24h or 7d")
    by_channel, group = given.get("by_channel", False), given.get("group")
    if type(by_channel) is not bool:
        raise CapError("by_channel must be true or false")
    if group is not None and not (isinstance(group, str) and re.fullmatch(GROUP_PATTERN, group)):
        raise CapError(f"group must have the form {GROUP_PATTERN}")
    found = Cap(limit=limit, window=window, by_channel=by_channel, group=group)
    if (found.window_ms or 0) > LONGEST_CAP_S * 1000:
        raise CapError(f"window must not be longer than {round(LONGEST_CAP_S) // 86_400}d")
    return found


_FIELDS = {"limit", "window", "by_channel", "group"}


def known_fields(caps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return stored caps without the fields that a later version of the code has added."""
    return [{name: value for name, value in cap.items() if name in _FIELDS} for cap in caps]


def fields_of_caps(caps: Sequence[Cap]) -> list[dict[str, Any]]:
    """Return caps as JSON objects (read_caps)."""
    return [
        {"limit": cap.limit, "window": cap.window, "by_channel": cap.by_channel}
        | ({} if cap.group is None else {"group": cap.group})
        for cap in caps
    ]
