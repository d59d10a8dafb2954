"""Counts the e-mails of clubs with their bounces and complaints, and pauses the e-mails of a club beyond the limits."""

from collections.abc import Iterable
from dataclasses import dataclass

from masscomm.chain.email_pauses import EmailPauses
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
from masscomm.stores.email_counts.port import EmailCounter


@dataclass(frozen=True, kw_only=True)
class EmailReputation:
    """The reputation of the clubs' e-mails that are not mandatory. Methods raise Retry or Stop."""

    counter: EmailCounter
    pauses: EmailPauses

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
            control = self.pauses.sends.controls([key])[key]
            counts = self.counter.total(club_id, hours_since(self.pauses.clock.now_ms(), control.resumed_at_ms))
            if reason := limit_passed(counts):
                self.pauses.pause(club_id, reason)

    def _add(self, club_id: int, at_ms: int, counts: EmailCounts, *, once: str) -> None:
        self.counter.add(club_id, at_ms // MS_AN_HOUR, counts, once=once)
