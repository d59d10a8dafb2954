"""Builds the adapters that several HTTP functions have. Their modules are imported at the first use: few are needed for
the first answer after a cold start.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger

from masscomm.clock import SystemClock
from masscomm.http.rate_limits import RateLimiter
from masscomm.http.rest import Api, Request, RouteKey
from masscomm.operations.costly_requests import CostlyRequests
from masscomm.operations.route_costs import ROUTE_COSTS
from masscomm.stores.request_slots.port import Kind

if TYPE_CHECKING:
    from masscomm.stores.audit_log.port import AuditLog


def rest_api(logger: Logger, *, retry_after_s: int, offered: str | None = None) -> Api:
    """Return an API without routes, with the limits of API keys and the slots of costly requests."""
    return Api(logger, retry_after_s=retry_after_s, limiter=limiter, slot=slot_of, offered=offered)


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


def slot_of(route: RouteKey, request: Request) -> AbstractContextManager[None]:
    """Return the slot that a request holds while it is answered: of a route whose requests all have one of a kind, and
    of a large body.
    """
    kinds = {cost.slots for cost in ROUTE_COSTS[route]}
    if request.has_large_body and Kind.LARGE_BODY in kinds:
        kinds = {Kind.LARGE_BODY}
    kind = kinds.pop() if len(kinds) == 1 else None
    return nullcontext() if kind is None else costly().one(kind, request)


@cache
def audit_log() -> "AuditLog":
    """Return the audit log."""
    from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog

    return DynamoDbAuditLog.from_environment()
