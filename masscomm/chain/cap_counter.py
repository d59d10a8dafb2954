"""Counts notifications for the frequency caps of their users."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import batched

from masscomm.clock import Clock
from masscomm.decisions.caps import Counted
from masscomm.domain.cap_places import Wish, entry_of, keys_of, take_places
from masscomm.domain.categories import caps_of
from masscomm.domain.frequency_caps import Cap
from masscomm.domain.records import NotificationOutcome, RecheckRequested
from masscomm.domain.statuses import PUBLISHED, TERMINAL, Reason, Status
from masscomm.errors import Retry
from masscomm.stores.frequency_caps.port import Change, FrequencyCaps, PlacesKey, StoredPlaces

# The number of recipients that are counted together, and how often the places of one are read again because another
# record has changed them meanwhile.
_SLICE = 500
_ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class CapCounter:
    """Takes places and gives them back. Methods raise Retry, Stop or DeadLetter, as FrequencyCaps."""

    store: FrequencyCaps
    clock: Clock

    def take(
        self, request: RecheckRequested, caps: Sequence[Cap], wishes: Sequence[Wish], has_time: Callable[[], bool]
    ) -> Counted:
        """Take the places of recipients whose notifications are let through. A repetition finds them.

        Args:
            request: The request of the recipients.
            caps: The caps of its category.
            wishes: The recipients.
            has_time: Returns whether further recipients may be counted.
        """
        refused: dict[int, Mapping[str, Cap]] = {}
        uncounted: list[int] = []
        for some in batched(wishes, _SLICE, strict=False):
            if not has_time():  # guard: frequency_caps.out_of_time
                uncounted += [wish.position for wish in some]
                continue
            pending: Sequence[Wish] = some
            for _ in range(_ROUNDS):
                if pending:
                    pending = self._take(request, caps, pending, refused)
            uncounted += [wish.position for wish in pending]
        return Counted(refused, uncounted)

    def forecast(self, request: RecheckRequested, caps: Sequence[Cap], wishes: Sequence[Wish], now_ms: int) -> Counted:
        """Return which notifications caps would refuse at a time (ms since the epoch). No place is taken."""
        return Counted(
            {
                wish.position: self._refused(request, caps, wish, stored, now_ms)[0]
                for some in batched(wishes, _SLICE, strict=False)
                for wish, stored in self._read(request, caps, some)
            }
        )

    def give_back(self, outcome: NotificationOutcome) -> None:
        """Give the places of an outcome record's notifications back that have ended unsent. Raises Retry if others
        change them all the time.
        """
        pending = list(_places_of(outcome))
        for _ in range(_ROUNDS):
            if pending:
                pending = self._give_back(pending)
        if pending:
            raise Retry("the places of frequency caps are changed by others all the time")

    def _take(
        self,
        request: RecheckRequested,
        caps: Sequence[Cap],
        wishes: Sequence[Wish],
        refused: dict[int, Mapping[str, Cap]],
    ) -> list[Wish]:
        """Take places, and add the refusals. Return the wishes whose places have changed since they were read."""
        now_ms = self.clock.now_ms()
        # A producer may name a user twice. Their places are read again after those of the first position are written.
        first = {wish.user_id: wish for wish in reversed(wishes)}
        left = [wish for wish in wishes if first[wish.user_id] is not wish]
        taking: list[Wish] = []
        changes: list[list[Change]] = []
        for wish, stored in self._read(request, caps, list(first.values())):
            refused[wish.position], changed = self._refused(request, caps, wish, stored, now_ms)
            if changed:
                taking.append(wish)
                changes.append(changed)
        written = self.store.write(changes, now_ms) if changes else []
        return [wish for wish, is_written in zip(taking, written, strict=True) if not is_written] + left

    def _read(
        self, request: RecheckRequested, caps: Sequence[Cap], wishes: Sequence[Wish]
    ) -> Iterator[tuple[Wish, dict[PlacesKey, StoredPlaces]]]:
        """Yield each wish with the places of its user for all caps."""
        keys = {
            wish.position: [
                PlacesKey(request.club_id, wish.user_id, key) for key in keys_of(caps, request.type, wish.channels)
            ]
            for wish in wishes
        }
        stored = self.store.read([key for each in keys.values() for key in each])
        for wish in wishes:
            yield wish, {key: stored.get(key, StoredPlaces()) for key in keys[wish.position]}

    @staticmethod
    def _refused(
        request: RecheckRequested,
        caps: Sequence[Cap],
        wish: Wish,
        stored: Mapping[PlacesKey, StoredPlaces],
        now_ms: int,
    ) -> tuple[dict[str, Cap], list[Change]]:
        """Return the caps that refuse the user's notifications by channel, and the changes of the user's places."""
        places = {key.cap: dict(before.taken) for key, before in stored.items()}
        damaged = {key.cap for key, before in stored.items() if before.is_damaged}
        # guard: frequency_caps.damaged_item
        unknown = {
            channel: cap for cap in caps for channel in wish.channels if cap.key(request.type, channel) in damaged
        }
        countable = wish._replace(channels=tuple(channel for channel in wish.channels if channel not in unknown))
        refused = take_places(places, caps, countable, category=request.type, send_id=request.send_id, now_ms=now_ms)
        kept_s = {key: cap.kept_s for cap in caps for key in keys_of([cap], request.type, wish.channels)}
        changes = [
            Change(key, before, places[key.cap], kept_s[key.cap])
            for key, before in stored.items()
            # Places that only became free are removed with the next one that is taken.
            if places[key.cap].keys() - before.taken.keys()
        ]
        return unknown | refused, changes

    def _give_back(self, places: Sequence["_Place"]) -> list["_Place"]:
        """Give places back. Return those that have changed since they were read."""
        by_key: dict[PlacesKey, list[_Place]] = {}
        for place in places:
            by_key.setdefault(place.key, []).append(place)
        changes = []
        for key, before in self.store.read(by_key).items():
            ended = {place.entry for place in by_key[key]}
            if ended & before.taken.keys():
                left = {entry: at_ms for entry, at_ms in before.taken.items() if entry not in ended}
                changes.append([Change(key, before, left, by_key[key][0].kept_s)])
        written = self.store.write(changes, self.clock.now_ms()) if changes else []
        return [
            place
            for [change], is_written in zip(changes, written, strict=True)
            if not is_written
            for place in by_key[change.key]
        ]


@dataclass(frozen=True, kw_only=True)
class _Place:
    key: PlacesKey
    entry: str
    kept_s: int


def _places_of(outcome: NotificationOutcome) -> Iterator[_Place]:
    """Yield the places that the notifications of an outcome record may have and need no longer."""
    caps = caps_of(outcome.type, outcome.club_id, outcome.requested_at)
    if not caps:
        return
    # A notification that a cap refuses has no place, and neither has one that is part of a digest.
    unsent = {
        index
        for index, result in enumerate(outcome.results)
        if result.status in TERMINAL - PUBLISHED - {Status.DIGESTED} and result.reason != Reason.FREQUENCY_CAP
    }
    entry = entry_of(outcome.send_id, outcome.channel)
    for user_id, index in zip(outcome.user_ids, outcome.result_index, strict=True):
        if index in unsent:
            for cap in caps:
                key = PlacesKey(outcome.club_id, user_id, cap.key(outcome.type, outcome.channel))
                yield _Place(key=key, entry=entry, kept_s=cap.kept_s)
