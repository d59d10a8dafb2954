"""Builds the adapters that several HTTP functions have. Their modules are imported at the first use: few are needed for
the first answer after a cold start.
"""

from functools import cache
from typing import TYPE_CHECKING

from masscomm.clock import SystemClock
from masscomm.http.rate_limits import RateLimiter
from masscomm.operations.costly_requests import CostlyRequests

if TYPE_CHECKING:
    from masscomm.stores.audit_log.port import AuditLog


@cache
def limiter() -> RateLimiter:
    """Return the limiter of API keys."""
    from masscomm.stores.key_usage.dynamodb import DynamoDbKeyUsage

    return RateLimiter(usage=DynamoDbKeyUsage.from_environment(), clock=SystemClock())


@cache
def costly() -> CostlyRequests:
    """Return the costly requests with their slots in DynamoDB."""
    from masscomm.stores.request_slots.dynamodb import DynamoDbRequestSlots

    return CostlyRequests(slots=DynamoDbRequestSlots.from_environment(), clock=SystemClock())


@cache
def audit_log() -> "AuditLog":
    """Return the audit log."""
    from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog

    return DynamoDbAuditLog.from_environment()
