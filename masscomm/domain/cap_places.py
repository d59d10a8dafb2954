"""The places of a user: the sends that count for a frequency cap.

A notification that is let through takes a place of each cap, under its send and its channel. A place is free again when
the window has passed, or when the notification ends unsent.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, time
from functools import lru_cache
from typing import NamedTuple

from masscomm.domain.frequency_caps import Cap
from masscomm.domain.time_limits import CAP_PLACES_LONGER_S
from masscomm.domain.time_zones import moments, utc, wall_time, zone_of


class Wish(NamedTuple):
    """A recipient whose notifications all other rules let through."""

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


def since_ms(cap: Cap, now_ms: int, time_zone: str | None) -> int:
    """Return the time (ms since the epoch) since which places count.

    Args:
        cap: The cap.
        now_ms: The present time, in ms since the epoch.
        time_zone: The user's time zone. Without one, or with an unknown one, days are those of UTC.
    """
    length_ms = cap.window_ms
    return _midnight_ms(time_zone or "", now_ms) if length_ms is None else now_ms - length_ms + 1


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
    since = {cap: since_ms(cap, now_ms, wish.time_zone) for cap in caps}
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
        oldest_ms = since[cap] - (round(CAP_PLACES_LONGER_S * 1000) if cap.window_ms is None else 0)
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
