"""Frequency caps: how many notifications a user gets in a window.

A cap counts the sends of a category, or of a group of categories, either on each channel or over all channels, where a
send counts once. A notification that is let through takes a place in the user's places of each cap, under its send and
its channel. A place is free again when the window has passed, or when the notification ends unsent.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from functools import lru_cache
from typing import Any, NamedTuple

from masscomm.domain.names import folded
from masscomm.domain.time_limits import CAP_PLACES_LONGER_S, LONGEST_CAP_S
from masscomm.domain.time_zones import moments, utc, wall_time, zone_of

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

    def since_ms(self, now_ms: int, time_zone: str | None) -> int:
        """Return the time (ms since the epoch) since which places count.

        Args:
            now_ms: The present time, in ms since the epoch.
            time_zone: The user's time zone. Without one, or with an unknown one, days are those of UTC.
        """
        length_ms = self.window_ms
        return _midnight_ms(time_zone or "", now_ms) if length_ms is None else now_ms - length_ms + 1

    def scope(self, category: str) -> str:
        """Return the name of the categories that count together."""
        return f"category:{folded(category)}" if self.group is None else f"group:{self.group}"

    def words(self, category: str, channel: str) -> str:
        """Return the cap in words, for outcome records."""
        where = channel if self.by_channel else "all channels"
        return f"{self.scope(category)} at most {self.limit} in {self.window} on {where}"

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


class Wish(NamedTuple):
    """A recipient who may get a send as far as all other rules are concerned."""

    position: int
    user_id: int
    # The channels on which the send may go out.
    channels: tuple[str, ...]
    time_zone: str | None


# The key of a cap (Cap.key) → the places: the entry of a send on a channel → the time at which it was taken.
type Places = dict[str, dict[str, int]]


def entry_of(send_id: str, channel: str) -> str:
    """Return the name of a notification's place among those of its user."""
    return f"{send_id}#{channel}"


def keys_of(caps: Sequence[Cap], category: str, channels: Sequence[str]) -> Iterator[str]:
    """Yield the distinct keys of the places that a send may take on these channels."""
    yield from dict.fromkeys(cap.key(category, channel) for channel in channels for cap in caps)


def take_places(
    places: Places, caps: Sequence[Cap], wish: Wish, *, category: str, send_id: str, now_ms: int
) -> dict[str, Cap]:
    """Take the places of a send to a user. On a channel, it takes a place of each cap or none.

    Args:
        places: The user's places, which are changed; keys without places may be absent.
        caps: The caps of the category.
        wish: The user, and the channels in their order.
        category: The category.
        send_id: The send.
        now_ms: The present time, in milliseconds since the epoch.

    Returns:
        Channel → the first cap that refuses the notification.
    """
    refused: dict[str, Cap] = {}
    since = {cap: cap.since_ms(now_ms, wish.time_zone) for cap in caps}
    for channel in wish.channels:
        full = (cap for cap in caps if _is_full(places.get(cap.key(category, channel), {}), cap, since[cap], send_id))
        if (cap := next(full, None)) is not None:  # guard: frequency_caps.all_or_none
            refused[channel] = cap
            continue
        for cap in caps:
            taken = places.setdefault(cap.key(category, channel), {})
            taken.setdefault(entry_of(send_id, channel), now_ms)
    for cap in caps:
        # A user who moves to another time zone has a day that began earlier.
        oldest_ms = since[cap] - (_UNITS["d"] if cap.window_ms is None else 0)
        for key in keys_of([cap], category, wish.channels):
            for entry in [entry for entry, at_ms in places.get(key, {}).items() if at_ms < oldest_ms]:
                del places[key][entry]
    return refused


def _is_full(taken: Mapping[str, int], cap: Cap, since_ms: int, send_id: str) -> bool:
    """Return whether a cap refuses a send. It never refuses one that has a place: a repetition finds it, and a send
    over several channels counts once.
    """
    # The counted ones, and whether they include this one.
    counted, is_own = set[str](), False
    for entry, at_ms in taken.items():
        other = entry.partition("#")[0]
        is_own = is_own or other == send_id
        if at_ms >= since_ms:
            counted.add(other)
    return not is_own and len(counted) >= cap.limit  # guard: frequency_caps.own_place


@lru_cache(maxsize=4096)
def _midnight_ms(time_zone: str, now_ms: int) -> int:
    zone = zone_of(time_zone) or utc()
    today = wall_time(now_ms, zone).date()
    began = [moment for moment in moments(datetime.combine(today, time.min), zone) if moment <= now_ms]
    # Clocks that are put back over midnight show the day's first minutes a second time.
    return min(began, default=now_ms)
