"""The cancellations of sends. The functions read them once for each batch, before they decide about recipients.

A cancellation is stored under the tenant and the send, so that it has no effect on a send of another tenant. The first
request is recorded; it is never withdrawn.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from masscomm.domain.limits import SEND_ID_PATTERN
from masscomm.domain.records import BuildRequested, DeliveryRequested, RecheckRequested
from masscomm.domain.time_limits import CANCELLATIONS_KEPT_S

_SEND_ID = re.compile(SEND_ID_PATTERN)


class SendKey(NamedTuple):
    """Identifies a send: the tenant and the send's id."""

    club_id: int
    send_id: str

    @property
    def is_valid(self) -> bool:
        """Return whether a send can have this id. Other ids occur only in hostile records, and are not looked up."""
        return _SEND_ID.fullmatch(self.send_id) is not None


def send_of(record: RecheckRequested | BuildRequested | DeliveryRequested) -> SendKey:
    """Return the identification of the send that a record belongs to."""
    return SendKey(record.club_id, record.send_id)


@dataclass(frozen=True, kw_only=True)
class Cancellation:
    send: SendKey
    # The time of the first request to cancel the send, in milliseconds since the epoch.
    requested_at_ms: int
    # The number of notifications that were counted as published at that time.
    published_before: int

    @property
    def expires_at(self) -> int:
        """Return the time at which the cancellation is no longer needed, in seconds since the epoch."""
        return self.requested_at_ms // 1000 + CANCELLATIONS_KEPT_S


class Cancellations(Protocol):
    """The interface of the store of cancellations. Methods raise Retry (down, slow) or Stop (no table, no
    permission).
    """

    def cancelled(self, sends: Iterable[SendKey]) -> Collection[SendKey]:
        """Return those of the given sends that are cancelled, in one consistent read for up to 100 sends."""
        ...

    def find(self, send: SendKey) -> Cancellation | None:
        """Return the cancellation of a send; None if it is not cancelled."""
        ...

    def record(self, cancellation: Cancellation) -> Cancellation:
        """Record a cancellation unless the send already has one. Return the recorded one."""
        ...


class InMemoryCancellations:
    """A store of cancellations in a dictionary, for unit tests."""

    def __init__(self) -> None:
        self.recorded: dict[SendKey, Cancellation] = {}
        # An error that every call raises; None: calls succeed.
        self.failing: Exception | None = None
        # The sends of each call of `cancelled`.
        self.reads: list[frozenset[SendKey]] = []

    def cancelled(self, sends: Iterable[SendKey]) -> Collection[SendKey]:
        asked = frozenset(sends)
        self.reads.append(asked)
        self._answer()
        return asked & self.recorded.keys()

    def find(self, send: SendKey) -> Cancellation | None:
        self._answer()
        return self.recorded.get(send)

    def record(self, cancellation: Cancellation) -> Cancellation:
        self._answer()
        return self.recorded.setdefault(cancellation.send, cancellation)

    def _answer(self) -> None:
        if self.failing is not None:
            raise self.failing
