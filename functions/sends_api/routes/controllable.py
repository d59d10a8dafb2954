"""The common part of the routes that control sends."""

from collections.abc import Mapping
from dataclasses import dataclass

from functions.sends_api.routes.known_sends import KnownSend, KnownSends
from functions.sends_api.routes.send import published
from masscomm.clock import Clock
from masscomm.domain.audit import Action, audit_entry
from masscomm.domain.send_controls import SendControl, SendKey
from masscomm.domain.send_states import FINAL, counted_state
from masscomm.http.parameters import Reader
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.observability import logs
from masscomm.stores.audit_log.port import AuditLog, record_or_log
from masscomm.stores.changed_sends import ChangedSend, ChangedSends
from masscomm.stores.delayed_records.port import ControlledSend, DelayStore
from masscomm.stores.metrics.port import MetricsStore
from masscomm.stores.send_controls import SendControls
from masscomm.texts import Text

logger = logs.logger("sends_api")


@dataclass(frozen=True, kw_only=True)
class ControllableSend(KnownSend):
    @property
    def has_ended(self) -> bool:
        # A send with an invalid id was dead-lettered, so that no notification of it can be published.
        return not self.key.is_valid or (self.counted is not None and counted_state(self.counted.counts) in FINAL)

    @property
    def published(self) -> int:
        return 0 if self.counted is None else published(self.counted)


@dataclass(frozen=True)
class Control:
    """The common part of the routes that control sends."""

    store: MetricsStore
    controls: SendControls
    delay_store: DelayStore
    clock: Clock
    audit_log: AuditLog
    # None: no change is recorded for webhooks.
    changed: ChangedSends | None = None

    def send(self, send_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> ControllableSend:
        """Return a send of the caller's clubs. Raises Problem (400 for any parameter, 404) or Retry."""
        read = Reader(parameters, ())
        if read.errors:
            raise read.problem()
        found = KnownSends(self.store, self.controls).find(send_id, clubs)
        return ControllableSend(key=found.key, counted=found.counted, accepted=found.accepted)

    def release_records(self, key: SendKey) -> None:
        """Make the scheduler release the send's delayed records under the control that is stored next.

        It is called before the control is stored: after a crash in between, sweeps look for the send's records in vain,
        whereas a control without a sweep would leave records in the store.
        """
        self.announce_change(key)
        self.delay_store.put_controlled(ControlledSend(key, self.clock.now_ms()))

    def announce_change(self, key: SendKey) -> None:
        """Record for webhooks that the control of a send is stored next."""
        if self.changed is not None:
            self.changed.put(ChangedSend(send=key, changed_at_ms=self.clock.now_ms()))

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
            raise Problem(409, Text.SEND_CANCELLED.filled())
