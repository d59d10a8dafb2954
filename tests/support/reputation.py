"""The reputation of e-mails on stores in memory."""

from masscomm.chain.email_reputation import EmailReputation
from masscomm.clock import Clock
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.email_counts.in_memory import InMemoryEmailCounter
from masscomm.stores.sends.in_memory import InMemorySends


def reputation(clock: Clock) -> EmailReputation:
    """Return the counts and pauses of e-mails without any."""
    return EmailReputation(
        counter=InMemoryEmailCounter(), sends=InMemorySends(clock), audit_log=InMemoryAuditLog(), clock=clock
    )
