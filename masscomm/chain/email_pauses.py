"""Pauses the e-mails of a club (tenant): its bounces or complaints pass a limit, or SES has paused it."""

from dataclasses import dataclass, replace

from aws_lambda_powertools import Logger

from masscomm.clock import Clock
from masscomm.domain.audit import Action, audit_entry
from masscomm.domain.email_pauses import EMAIL, pause_key
from masscomm.domain.sends import Send, SendControl, controlled
from masscomm.observability import metrics
from masscomm.observability.metric_names import EMAIL_PAUSES
from masscomm.stores.audit_log.port import AuditLog, record_or_log
from masscomm.stores.sends.port import Sends, change


@dataclass(frozen=True, kw_only=True)
class EmailPauses:
    """The pauses in the register of sends."""

    sends: Sends
    audit_log: AuditLog
    clock: Clock
    # The logger of the function.
    logger: Logger

    def pause(self, club_id: int, reason: str) -> SendControl:
        """Pause the e-mails of a club, unless they are paused. Return the control. Raises Retry or Stop."""
        key, now_ms = pause_key(club_id), self.clock.now_ms()

        def paused(send: Send) -> Send:
            is_paused = send.control.paused_at_ms is not None
            return send if is_paused else controlled(send, paused_at_ms=now_ms)

        known = self.sends.find(key.send_id) or Send(key=key)
        if known.control.paused_at_ms is not None:
            return known.control
        first = replace(known, requested_at_ms=known.requested_at_ms or now_ms, channels=(EMAIL,))
        control = change(self.sends, first, paused).control
        if control.paused_at_ms == now_ms:
            metrics.add(EMAIL_PAUSES)
            self.logger.error("the e-mails of a club wait until they are resumed", club_id=club_id, reason=reason)
            entry = audit_entry(
                Action.SEND_PAUSED, club_id=club_id, at_ms=now_ms, principal="", subject=key.send_id, detail=reason
            )
            record_or_log(self.audit_log, entry, self.logger)
        return control
