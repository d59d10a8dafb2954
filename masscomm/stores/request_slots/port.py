"""Limits how many requests of one kind a caller has at the same time, over all execution environments.

A long poll, or a request that takes seconds of the processor, occupies an environment; without a limit, one caller
could occupy all environments of a function. Each caller has a number of slots of each kind. A request takes a slot
before its work and frees it afterwards. A slot is a lease: it becomes free when the request that took it can no longer
run, so that a crash costs a slot for less than half a minute and needs no repair.

All environments share one store. If it is unavailable, polls return without waiting, and costly requests get a 503:
both then occupy no environment, and dashboards continue with short polls.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from masscomm.errors import Retry


class Kind(StrEnum):
    """A kind of requests whose number at the same time is limited."""

    POLL = "poll"  # A request that waits for a change.
    COUNT = "count"  # The count of an audience, which reads all users of a tenant.
    DRY_RUN = "dry_run"
    PREVIEW = "preview"
    DEAD_LETTERS = "dead_letters"  # A page of dead letters, which reads 2,000 records at most, or a single one.
    KEYS = "keys"  # A new API key, with an entry of the audit log for each of its 1,000 clubs at most.
    REVOCATION = "revocation"  # The end of an API key, with as many entries.
    TEMPLATES = "templates"  # A page of templates, each of which is rendered.
    LARGE_BODY = "large_body"  # A request with a large body, or one that matches all subscriptions of a tenant.


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A slot that a request has taken."""

    kind: Kind
    # The id of the API key, or the principal of a person.
    caller: str
    # The number of the slot, below the limit.
    number: int
    # A token that is unique to this request.
    token: str

    @property
    def id(self) -> str:
        """Return the id under which the slot is stored. That of a poll is the one of versions with polls alone."""
        prefix = "" if self.kind is Kind.POLL else f"{self.kind}:"  # guard: request_slots.kind
        return f"{prefix}{self.caller}#{self.number}"


class RequestSlots(Protocol):
    """The interface of the store of slots. Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def take(self, kind: Kind, caller: str, limit: int, *, now_ms: int, until_ms: int) -> Slot | None:
        """Take one of the caller's slots of a kind below the limit. Returns None if all are taken.

        Args:
            kind: The kind of the request.
            caller: The id of the API key, or the principal of a person.
            limit: The number of slots of this kind that the caller has.
            now_ms: The current time in milliseconds since the epoch.
            until_ms: The end of the lease in milliseconds since the epoch.
        """
        ...

    def free(self, slot: Slot) -> None:
        """Free the slot. The call has no effect if its lease has expired and another request has taken it."""
        ...


@contextmanager
def holding(
    slots: RequestSlots, kind: Kind, caller: str, limit: int, *, now_ms: int, remaining_s: float
) -> Iterator[bool]:
    """Hold one of a caller's slots of a kind during a request; yield whether one was free. Raises the errors of `take`.

    The lease ends with the invocation, so that the slot becomes free even if the invocation crashes.
    """
    slot = slots.take(kind, caller, limit, now_ms=now_ms, until_ms=now_ms + int(remaining_s * 1000))
    try:
        yield slot is not None
    finally:
        if slot is not None:
            # If releasing the slot fails, its lease expires.
            with suppress(Retry):
                slots.free(slot)  # guard: request_slots.freed
