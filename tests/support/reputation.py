"""The reputation of e-mails on stores in memory."""

from aws_lambda_powertools import Logger

from masscomm.chain.email_pauses import EmailPauses
from masscomm.chain.email_reputation import EmailReputation
from masscomm.clock import Clock
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.audit_log.port import AuditLog
from masscomm.stores.email_counts.in_memory import InMemoryEmailCounter
from masscomm.stores.sends.in_memory import InMemorySends
from masscomm.stores.sends.port import Sends


def reputation(clock: Clock) -> EmailReputation:
    """Return the counts and pauses of e-mails without any."""
    return EmailReputation(counter=InMemoryEmailCounter(), pauses=email_pauses(InMemorySends(clock), clock))


def email_pauses(sends: Sends, clock: Clock, audit_log: AuditLog | None = None) -> EmailPauses:
    """Return the pauses in a register of sends."""
    return EmailPauses(sends=sends, audit_log=audit_log or InMemoryAuditLog(), clock=clock, logger=Logger())
