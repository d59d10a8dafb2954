"""When the e-mails of a club (tenant) wait: its bounces or complaints pass the limits of SES, or SES has paused it.

The pause is a control in the register of sends, under an id of its own: it is resumed as a send is, and its records
wait in the delay store as those of a paused send. Mandatory e-mails, and those of other clubs, go on.
"""

from typing import NamedTuple

from masscomm.domain.categories import category
from masscomm.domain.sends import SendKey

EMAIL = "email"
# The prefix of the ids. A caller of the REST API can choose no such id for a send: it would have to be a UUID.
_IDS = "email-"
# Above these shares SES pauses an account: docs.aws.amazon.com/ses/latest/dg, "Amazon SES Sending review process FAQs".
MAX_BOUNCED, MAX_COMPLAINED = 0.10, 0.005
# Fewer e-mails than these say nothing about a club's list.
LEAST_SENT = 500
MS_AN_HOUR = 3_600_000
# The hours in which e-mails are counted, the present one included.
HOURS = 24


class EmailCounts(NamedTuple):
    """The e-mails of a club that are not mandatory."""

    sent: int = 0
    # Permanent bounces.
    bounced: int = 0
    complained: int = 0

    def plus(self, other: "EmailCounts") -> "EmailCounts":
        return EmailCounts(*(own + more for own, more in zip(self, other, strict=True)))


def pause_key(club_id: int) -> SendKey:
    """Return the key of the control of a club's e-mails."""
    return SendKey(club_id, f"{_IDS}{club_id}")


def is_pause(key: SendKey) -> bool:
    """Return whether a key is that of the control of a club's e-mails."""
    return key == pause_key(key.club_id)


def waits_for_pause(channel: str, category_name: str, club_id: int, at_ms: int | None) -> bool:
    """Return whether messages of a channel and category wait while the e-mails of their club are paused."""
    # guard: email_pauses.mandatory
    return channel == EMAIL and not category(category_name, club_id, at_ms).mandatory


def limit_passed(counts: EmailCounts) -> str:
    """Return the limit that a club's e-mails pass, with the counts; "" if they pass none."""
    if counts.sent < LEAST_SENT:  # guard: email_pauses.least_sent
        return ""
    for noun, count, limit in (
        ("permanent bounces", counts.bounced, MAX_BOUNCED),
        ("complaints", counts.complained, MAX_COMPLAINED),
    ):
        if count > limit * counts.sent:  # guard: email_pauses.limit
            return f"{count} {noun} of {counts.sent} e-mails in {HOURS} hours, more than {limit:.1%}"
    return ""


def hours_since(now_ms: int, resumed_at_ms: int | None) -> range:
    """Return the hours since the epoch that count: the last ones, those before the end of a pause left out, because
    their bounces would pause the club again.
    """
    last = now_ms // MS_AN_HOUR
    first = last - HOURS + 1
    return range(first if resumed_at_ms is None else max(first, resumed_at_ms // MS_AN_HOUR + 1), last + 1)
