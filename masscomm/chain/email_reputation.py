"""Counts the e-mails of clubs with their bounces and complaints, and pauses the e-mails of a club beyond the limits."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from masscomm.clock import Clock
from masscomm.domain.audit import Action, audit_entry
from masscomm.domain.email_pauses import (
    EMAIL,
    MS_AN_HOUR,
    EmailCounts,
    hours_since,
    limit_passed,
    pause_key,
    waits_for_pause,
)
from masscomm.domain.records import NotificationOutcome
from masscomm.domain.sends import Send, controlled
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import EMAIL_PAUSES
from masscomm.stores.audit_log.port import AuditLog, record_or_log
from masscomm.stores.email_counts.port import EmailCounter
from masscomm.stores.sends.port import Sends, change

logger = logs.logger("receipts")


@dataclass(frozen=True, kw_only=True)
class EmailReputation:
    """The reputation of the clubs' e-mails that are not mandatory. Methods raise Retry or Stop."""

    counter: EmailCounter
    sends: Sends
    audit_log: AuditLog
    clock: Clock

    def count_sent(self, outcome: NotificationOutcome) -> bool:
        """Count the e-mails that SES has accepted; return whether there are any."""
        sent = sum(map(bool, outcome.provider_message_ids))
        if not sent or not waits_for_pause(outcome.channel, outcome.type, outcome.club_id, None):
            return False
        self._add(outcome.club_id, outcome.timestamp, EmailCounts(sent=sent), once=outcome.record_id)
        return True

    def count_failed(self, club_id: int, category: str, at_ms: int, counts: EmailCounts, *, once: str) -> bool:
        """Count a bounce or complaint; return whether it counts."""
        if not waits_for_pause(EMAIL, category, club_id, None):
            return False
        self._add(club_id, at_ms, counts, once=once)
        return True

    def check(self, club_ids: Iterable[int]) -> None:
        """Pause the e-mails of each club whose bounces or complaints pass a limit."""
        for club_id in club_ids:
            key = pause_key(club_id)
            control = self.sends.controls([key])[key]
            counts = self.counter.total(club_id, hours_since(self.clock.now_ms(), control.resumed_at_ms))
            if reason := limit_passed(counts):
                self.pause(club_id, reason)

    def pause(self, club_id: int, reason: str) -> None:
        """Pause the e-mails of a club, unless they are paused."""
        key, now_ms = pause_key(club_id), self.clock.now_ms()

        def paused(send: Send) -> Send:
            is_paused = send.control.paused_at_ms is not None
            return send if is_paused else controlled(send, paused_at_ms=now_ms)

        known = self.sends.find(key.send_id) or Send(key=key)
        if known.control.paused_at_ms is not None:
            return
        first = replace(known, requested_at_ms=known.requested_at_ms or now_ms, channels=(EMAIL,))
        if change(self.sends, first, paused).control.paused_at_ms == now_ms:
            metrics.add(EMAIL_PAUSES)
            logger.error("the e-mails of a club wait until they are resumed", club_id=club_id, reason=reason)
            entry = audit_entry(
                Action.SEND_PAUSED, club_id=club_id, at_ms=now_ms, principal="", subject=key.send_id, detail=reason
            )
            record_or_log(self.audit_log, entry, logger)

    def _add(self, club_id: int, at_ms: int, counts: EmailCounts, *, once: str) -> None:
        self.counter.add(club_id, at_ms // MS_AN_HOUR, counts, once=once)
