"""Finds the send that a request controls: counted by metrics, or accepted by send_handler and not counted yet."""

from collections.abc import Mapping
from dataclasses import dataclass

from functions.metrics_handler.routes.send import not_found, published
from functions.metrics_handler.store.port import MetricsStore, SendTotals
from masscomm.clock import Clock
from masscomm.domain.audit import Action, audit_entry
from masscomm.domain.send_states import FINAL, counted_state
from masscomm.http.parameters import Reader
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.observability import logs
from masscomm.stores.audit_log import AuditLog, record_or_log
from masscomm.stores.delayed_records import ControlledSend, DelayStore
from masscomm.stores.send_controls import SendControl, SendControls, SendKey

logger = logs.logger("metrics_handler")


@dataclass(frozen=True, kw_only=True)
class ControllableSend:
    key: SendKey
    # What metrics have counted; None if they have not counted a record of the send yet.
    counted: SendTotals | None

    @property
    def has_ended(self) -> bool:
        # A send with an invalid id was dead-lettered, so that no notification of it can be published.
        return not self.key.is_valid or (self.counted is not None and counted_state(self.counted.counts) in FINAL)

    @property
    def published(self) -> int:
        return 0 if self.counted is None else published(self.counted)


@dataclass(frozen=True)
class Control:
    """What the routes that control sends have in common."""

    store: MetricsStore
    controls: SendControls
    delay_store: DelayStore
    clock: Clock
    audit_log: AuditLog

    def send(self, send_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> ControllableSend:
        """Return a send of the caller's clubs. Raises Problem (400 for any parameter, 404) or Retry."""
        read = Reader(parameters, ())
        if read.errors:
            raise read.problem()
        counted = self.store.send(send_id)
        if counted is not None:
            key = SendKey(counted.club_id, send_id)
        elif (accepted := self.controls.accepted(send_id)) is not None:
            key = accepted.send
        else:
            raise not_found()
        # A send of another club and an unknown send have the same response, so that guessed ids reveal nothing.
        if key.club_id not in clubs:  # guard: tenancy.controlled_send
            raise not_found()
        return ControllableSend(key=key, counted=counted)

    def release_records(self, key: SendKey) -> None:
        """Make the scheduler release the send's delayed records under the control that is stored next.

        It is called before the control is stored: after a crash in between, sweeps look for the send's records in vain,
        whereas a control without a sweep would leave records in the store.
        """
        self.delay_store.put_controlled(ControlledSend(key, self.clock.now_ms()))

    def audit(self, action: Action, send: ControllableSend, principal: str, detail: str = "") -> None:
        """Record an action on a send in the audit log."""
        entry = audit_entry(
            action,
            club_id=send.key.club_id,
            at_ms=self.clock.now_ms(),
            principal=principal,
            subject=send.key.send_id,
            detail=detail,
        )
        record_or_log(self.audit_log, entry, logger)  # guard: audit.controlled_send

    def check_not_cancelled(self, control: SendControl) -> None:
        if control.is_cancelled(self.clock.now_ms()):
            raise Problem(409, "The send is cancelled.")
