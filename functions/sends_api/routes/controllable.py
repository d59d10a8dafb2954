"""The common part of the routes that control sends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from functions.sends_api.routes.known_sends import KnownSend, KnownSends
from functions.sends_api.routes.results_at_once import ResultsAtOnce
from functions.sends_api.routes.send import published
from masscomm.clock import Clock
from masscomm.domain.audit import Action, audit_entry
from masscomm.domain.send_states import FINAL
from masscomm.domain.sends import Send, SendKey
from masscomm.http.parameters import Reader
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.observability import logs
from masscomm.stores.audit_log.port import AuditLog, record_or_log
from masscomm.stores.delayed_records.port import ControlledSend, DelayStore
from masscomm.stores.metrics.port import MetricsStore
from masscomm.stores.sends.port import Sends, change
from masscomm.texts import Text

logger = logs.logger("sends_api")


@dataclass(frozen=True)
class Control:
    """The common part of the routes that control sends."""

    store: MetricsStore
    sends: Sends
    delay_store: DelayStore
    clock: Clock
    audit_log: AuditLog
    # None: only counts tell whether a send has ended.
    results: ResultsAtOnce | None = None

    def send(self, send_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> KnownSend:
        """Return a send of the caller's clubs. Raises Problem (400 for any parameter, 404) or Retry."""
        Reader(parameters).check()
        return KnownSends(self.store, self.sends, self.clock).find(send_id, clubs)

    def has_ended(self, known: KnownSend) -> bool:
        """Return whether no notification of a send can be published any more, as far as it is known."""
        known = known if self.results is None else self.results.added_to(known)
        # A send with an invalid id was dead-lettered.
        return not known.key.is_valid or known.state(self.clock.now_ms()) in FINAL

    def change(self, known: KnownSend, make: Callable[[Send], Send]) -> Send:
        """Store the changed control of a send. Raises the errors of `make`, and Retry."""
        return change(self.sends, known.send, make)

    def release_records(self, key: SendKey) -> None:
        """Make the scheduler release the send's delayed records under the control that is stored next.

        It is called before the control is stored: after a crash in between, sweeps look for the send's records in vain,
        whereas a control without a sweep would leave records in the store.
        """
        self.delay_store.put_controlled(ControlledSend(key, self.clock.now_ms()))

    def audit(self, action: Action, key: SendKey, principal: str, detail: str = "") -> None:
        """Record an action on a send in the audit log."""
        entry = audit_entry(
            action,
            club_id=key.club_id,
            at_ms=self.clock.now_ms(),
            principal=principal,
            subject=key.send_id,
            detail=detail,
        )
        record_or_log(self.audit_log, entry, logger)  # guard: audit.controlled_send

    def check_not_cancelled(self, send: Send) -> None:
        if send.control.is_cancelled(self.clock.now_ms()):
            raise Problem(409, Text.SEND_CANCELLED.filled())


def published_so_far(known: KnownSend) -> int | None:
    """Return the number of notifications that are counted as published; None if the counts are unknown."""
    if not known.counts_known:
        return None
    return 0 if known.counted is None else published(known.counted)
