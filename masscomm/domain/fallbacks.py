"""Fallbacks: a channel of a send that is used only if the notification on the channel before it was not sent.

The notification of a fallback waits. It goes at once when the earlier one ended unsent or bounced, and otherwise some
minutes after the earlier one was let through, unless that was sent by then. A waiting record covers a range of at most
500 recipients. The statuses of their earlier notifications, and the decisions about the waiting ones, are one item
(FallbackState). All functions are pure.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from masscomm.domain.limits import FIELDS_OF_SEND
from masscomm.domain.pace import PaceError, spread_ms_in, spread_text
from masscomm.domain.records import NotificationOutcome
from masscomm.domain.statuses import PUBLISHED, TERMINAL, Reason, Status, merge

# The delay reason of the waiting recipients, and the layer of their decisions.
DELAY_REASON = "fallback"
NOT_SENT, NOT_DELIVERED = "not_sent", "not_delivered"
CONDITIONS = (NOT_SENT, NOT_DELIVERED)
_FIELDS = {"channel", "if", "after"}


class FallbackError(ValueError):
    """The fallbacks of a send are not valid."""


@dataclass(frozen=True, kw_only=True)
class Fallback:
    """A channel that waits for the one before it."""

    channel: str
    # One of CONDITIONS.
    condition: str
    # How long it waits after the earlier notification was let through.
    after_ms: int

    def words(self, earlier: str) -> str:
        """Return the fallback as part of a decision."""
        return f"if {earlier} is {self.condition} after {spread_text(self.after_ms)}"


@lru_cache(maxsize=1024)
def fallbacks_in(text: str | None) -> tuple[Fallback, ...]:
    """Return the fallbacks in the JSON of a record. Raises FallbackError."""
    if text is None:
        return ()
    if len(text.encode()) > FIELDS_OF_SEND["fallbacks"].max_bytes:
        raise FallbackError("fallbacks are too long")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise FallbackError("fallbacks are not JSON") from error
    if not isinstance(found, list) or not found:
        raise FallbackError("fallbacks must be a list of at least one object")
    return tuple(map(_read, found))


def _read(given: Any) -> Fallback:
    if not isinstance(given, dict) or given.keys() != _FIELDS or not isinstance(given["channel"], str):
        raise FallbackError("a fallback has channel, if and after")
    if given["if"] not in CONDITIONS:
        raise FallbackError(f"if must be one of {', '.join(CONDITIONS)}")
    try:
        after_ms = spread_ms_in(given["after"])
    except PaceError as error:
        raise FallbackError("after must be minutes, hours or days such as 10m, 2h or 1d, at most 7d") from error
    return Fallback(channel=given["channel"], condition=given["if"], after_ms=after_ms)


def fallbacks_text(fallbacks: Iterable[Fallback]) -> str | None:
    """Return fallbacks as the JSON of a record; None if there are none."""
    found = [{"channel": each.channel, "if": each.condition, "after": spread_text(each.after_ms)} for each in fallbacks]
    return json.dumps(found, separators=(",", ":")) if found else None


def channels_of(entries: Iterable[Any]) -> tuple[list[str], list[Fallback]]:
    """Return the names of the channels in a valid request, and their fallbacks."""
    named = [each if isinstance(each, dict) else {"channel": each} for each in entries]
    return [each["channel"] for each in named], [_read(each) for each in named if "if" in each]


def check_fallbacks(text: str | None, channels: Sequence[str]) -> None:
    """Check the fallbacks of a send with these channels. Raises FallbackError."""
    found = fallbacks_in(text)
    if not found:
        return
    if len(set(channels)) < len(channels):
        raise FallbackError("a send with fallbacks names a channel twice")
    names = [each.channel for each in found]
    if len(set(names)) < len(names) or not set(names) <= set(channels[1:]):
        raise FallbackError("a fallback is a channel of the send other than the first one, and has one condition")


def ends_before(fallbacks: Iterable[Fallback], start_ms: int, expires_at: int | None) -> bool:
    """Return whether a send expires before its last fallback has waited."""
    waited_ms = sum(each.after_ms for each in fallbacks)
    return expires_at is not None and start_ms + waited_ms >= expires_at


def unreported(text: str | None, channels: Sequence[str], complete: Collection[str]) -> str | None:
    """Return a channel whose fallback needs receipts that are not complete; None if there is none."""
    waiting = waiting_for(text, channels).values()
    # guard: fallbacks.complete_receipts
    return next((name for name, each in waiting if each.condition == NOT_DELIVERED and name not in complete), None)


def waiting_for(text: str | None, channels: Sequence[str]) -> dict[str, tuple[str, Fallback]]:
    """Return the channels that wait for another one of a record: channel → (earlier channel, fallback)."""
    known = {each.channel: each for each in fallbacks_in(text)}
    return {channel: (earlier, known[channel]) for earlier, channel in pairwise(channels) if channel in known}


def first_waits(text: str | None, channels: Sequence[str]) -> Fallback | None:
    """Return the fallback of the first channel of a record, which waits for one of an earlier record; None if it does
    not wait.
    """
    return next((each for each in fallbacks_in(text) if channels and each.channel == channels[0]), None)


def chain_of(text: str | None, channels: Sequence[str], channel: str) -> list[tuple[str, Fallback | None]]:
    """Return a channel with those that wait for it and for which it waits, in their order; empty if there are none."""
    waiting = waiting_for(text, channels)
    chains: list[list[tuple[str, Fallback | None]]] = []
    for name in channels:
        fallback = waiting[name][1] if name in waiting else None
        if fallback is None:
            chains.append([])
        chains[-1].append((name, fallback))
    return next((each for each in chains if len(each) > 1 and channel in dict(each)), [])


def without(text: str | None, channel: str) -> str | None:
    """Return fallbacks without that of a channel, which waits no longer."""
    return fallbacks_text(each for each in fallbacks_in(text) if each.channel != channel)


class Verdict(StrEnum):
    """The decision about a waiting notification."""

    GOES = "goes"
    NOT_NEEDED = "not_needed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Decided(NamedTuple):
    """A decision about some waiting notifications."""

    # The id of the record: that of the waiting one, or of the outcome that ended an earlier notification.
    by: str
    verdict: Verdict
    positions: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class FallbackState:
    """The state of the recipients of a waiting record."""

    # Position → the final status of the earlier notification.
    statuses: Mapping[int, Status]
    decided: tuple[Decided, ...] = ()
    # The number of changes.
    revision: int = 0

    @property
    def verdicts(self) -> dict[int, Verdict]:
        """Return the decisions by position."""
        return {position: each.verdict for each in self.decided for position in each.positions}

    def with_statuses(self, found: Mapping[int, Status]) -> "FallbackState":
        """Return the state with further final statuses, in any order and repeated."""
        merged = dict(self.statuses)
        for position, status in found.items():
            merged[position] = merge(status, merged.get(position, status))
        return replace(self, statuses=merged)

    def deciding(self, by: str, verdicts: Mapping[int, Verdict]) -> "FallbackState":
        """Return the state with decisions about the notifications that have none."""
        known = self.verdicts
        new: dict[Verdict, list[int]] = {}
        for position, verdict in sorted(verdicts.items()):
            if position not in known:  # guard: fallbacks.decided_once
                new.setdefault(verdict, []).append(position)
        entries = [Decided(by, verdict, tuple(positions)) for verdict, positions in new.items()]
        return replace(self, decided=(*self.decided, *entries))


NO_STATE = FallbackState(statuses={})


def final_statuses(outcome: NotificationOutcome) -> dict[int, Status]:
    """Return the final statuses in an outcome record by position. A complaint is about a message that arrived."""
    found = {}
    for position, index in zip(outcome.positions, outcome.result_index, strict=True):
        result = outcome.results[index]
        if result.status in TERMINAL:
            status = Status(result.status)
            complained = result.reason == Reason.COMPLAINED
            found[position] = Status.DELIVERED if complained else status  # guard: fallbacks.complaint
    return found


def failed(status: Status | None) -> bool:
    """Return whether an earlier notification ended unsent, or its message was returned. A cancelled one did not."""
    if status is None or status is Status.CANCELLED:  # guard: fallbacks.cancelled
        return False
    return status is Status.BOUNCED or status in TERMINAL - PUBLISHED


def verdict_at_end(status: Status | None, condition: str) -> Verdict:
    """Return the decision about a waiting notification at the end of its wait.

    Args:
        status: The final status of the earlier notification; None: it has none.
        condition: The condition of the fallback.
    """
    if status is Status.CANCELLED:
        return Verdict.CANCELLED
    enough = {Status.DELIVERED} if condition == NOT_DELIVERED else {Status.SENT, Status.DELIVERED}
    return Verdict.NOT_NEEDED if status in enough else Verdict.GOES


def silent(state: FallbackState, positions: Collection[int]) -> list[int]:
    """Return the positions about which nothing is decided, and whose earlier notification has no final status."""
    known = state.verdicts
    return [each for each in positions if each not in known and each not in state.statuses]
