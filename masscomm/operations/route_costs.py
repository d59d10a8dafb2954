"""The processor time of each route's worst requests, and the slots that they hold.

A caller occupies at most half of a function's environments: with as many requests as it has slots, and with the other
requests of its usage plan, each for its processor time. So each environment's reservations suffice
(tests/unit/infra/test_concurrency.py). A figure is a budget of the code, or the measurement of
tests/unit/test_route_costs.py, which also has the worst requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from masscomm.domain.limits import PAGE_STEPS, RECORD_STEPS, STEP_S, WARNING_STEPS
from masscomm.domain.time_limits import (
    COUNT_RESERVE_S,
    DRY_RUN_RESERVE_S,
    GATEWAY_TIMEOUT_S,
    STREAM_WAIT_S,
)
from masscomm.stores.request_slots.port import Kind

# The processor time of a send to three users by REST, on one core of 2024: the unit of the measurement.
PLAIN_S = 0.0004


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of a route's requests."""

    # The processor time of the worst one, in seconds on one core of 2024.
    worst_s: float
    # The slots that these requests hold; None: the rate of the usage plan alone limits them.
    slots: Kind | None = None


# A request that a function does not read (6 MB, which Lambda's runtime decodes), one with LARGE_BODY characters of
# hostile JSON, or a page of a list.
_SMALL = Cost(worst_s=0.05)
# A body of 6 MB that is read, and refused or produced.
_LARGE = Cost(worst_s=1.0, slots=Kind.LARGE_BODY)
# The search for the first time of a rule that never fires.
_SCHEDULE = Cost(worst_s=_SMALL.worst_s + 0.1)
# A page of 10,000 counts.
_COUNTS = Cost(worst_s=0.17)

# (method, path) → the costs of its requests: of those without a slot, and of each kind with slots.
ROUTE_COSTS: Mapping[tuple[str, str], tuple[Cost, ...]] = MappingProxyType(
    {
        ("POST", "/v1/sends"): (
            Cost(worst_s=_SMALL.worst_s + WARNING_STEPS * STEP_S),
            _LARGE,
        ),
        ("POST", "/v1/sends/batch"): (_SMALL, _LARGE),
        ("POST", "/v1/previews"): (Cost(worst_s=_LARGE.worst_s + RECORD_STEPS * STEP_S, slots=Kind.PREVIEW),),
        ("POST", "/v1/dry-runs"): (Cost(worst_s=GATEWAY_TIMEOUT_S - DRY_RUN_RESERVE_S, slots=Kind.DRY_RUN),),
        ("POST", "/v1/audiences/count"): (Cost(worst_s=GATEWAY_TIMEOUT_S - COUNT_RESERVE_S, slots=Kind.COUNT),),
        ("GET", "/v1/audiences"): (_SMALL,),
        ("GET", "/v1/audiences/{name}"): (_SMALL,),
        ("PUT", "/v1/audiences/{name}"): (_SMALL,),
        ("DELETE", "/v1/audiences/{name}"): (_SMALL,),
        ("GET", "/v1/schedules"): (_SMALL,),
        ("GET", "/v1/schedules/{schedule}"): (_SMALL,),
        ("PUT", "/v1/schedules/{schedule}"): (_SCHEDULE,),
        ("DELETE", "/v1/schedules/{schedule}"): (_SMALL,),
        ("POST", "/v1/schedules/{schedule}/pause"): (_SMALL,),
        ("POST", "/v1/schedules/{schedule}/resume"): (_SCHEDULE,),
        ("GET", "/v1/users"): (_SMALL,),
        ("GET", "/v1/users/{user_id}"): (_SMALL,),
        ("GET", "/v1/users/{user_id}/stream"): (_SMALL, Cost(worst_s=STREAM_WAIT_S, slots=Kind.POLL)),
        ("GET", "/v1/users/{user_id}/preferences"): (_SMALL,),
        ("PUT", "/v1/users/{user_id}/preferences"): (_SMALL,),
        ("GET", "/v1/tenants/{tenant}/preferences"): (_SMALL,),
        ("PUT", "/v1/tenants/{tenant}/preferences"): (_SMALL,),
        ("DELETE", "/v1/tenants/{tenant}/preferences"): (_SMALL,),
        ("GET", "/v1/unsubscribe/{token}"): (_SMALL,),
        ("POST", "/v1/unsubscribe/{token}"): (_SMALL,),
        ("GET", "/v1/metrics"): (_COUNTS,),
        ("GET", "/v1/metrics/trending"): (_SMALL,),
        ("GET", "/v1/metrics/latency"): (_COUNTS,),
        ("GET", "/v1/metrics/stream"): (_COUNTS, Cost(worst_s=STREAM_WAIT_S, slots=Kind.POLL)),
        ("GET", "/v1/sends/{send_id}/events"): (_SMALL, Cost(worst_s=STREAM_WAIT_S, slots=Kind.POLL)),
        ("GET", "/v1/sends"): (_SMALL,),
        ("GET", "/v1/sends/{send_id}"): (_SMALL,),
        ("POST", "/v1/sends/{send_id}/cancel"): (_SMALL,),
        ("POST", "/v1/sends/{send_id}/pause"): (_SMALL,),
        ("POST", "/v1/sends/{send_id}/resume"): (_SMALL,),
        ("PATCH", "/v1/sends/{send_id}"): (_SMALL,),
        ("GET", "/v1/sends/{send_id}/message"): (_SMALL,),
        ("GET", "/v1/sends/{send_id}/recipients"): (_SMALL,),
        ("GET", "/v1/notifications/{notification}"): (_SMALL,),
        ("GET", "/v1/users/{user_id}/notifications"): (_SMALL,),
        ("GET", "/v1/audit"): (_SMALL,),
        ("GET", "/v1/templates"): (Cost(worst_s=PAGE_STEPS * STEP_S, slots=Kind.TEMPLATES),),
        ("GET", "/v1/categories"): (_SMALL,),
        ("GET", "/v1/categories/{category}"): (_SMALL,),
        ("PUT", "/v1/categories/{category}"): (_SMALL,),
        ("GET", "/v1/health"): (_SMALL,),
        ("GET", "/v1/alarms"): (_SMALL,),
        # With slots, it decodes up to 100 dead letters.
        ("GET", "/v1/overview"): (_SMALL, Cost(worst_s=GATEWAY_TIMEOUT_S, slots=Kind.DEAD_LETTERS)),
        # It reads up to 2,000 records of up to 1 MB, until the function's time limit.
        ("GET", "/v1/dead-letters"): (Cost(worst_s=GATEWAY_TIMEOUT_S, slots=Kind.DEAD_LETTERS),),
        ("GET", "/v1/dead-letters/{position}"): (Cost(worst_s=0.4, slots=Kind.DEAD_LETTERS),),
        ("POST", "/v1/dead-letters/{position}/replay"): (Cost(worst_s=0.06),),
        ("POST", "/v1/dead-letters/{position}/discard"): (Cost(worst_s=0.06),),
        ("GET", "/v1/devices"): (_SMALL,),
        ("GET", "/v1/devices/counts"): (_SMALL,),
        ("POST", "/v1/devices/{device_id}/enable"): (_SMALL,),
        ("GET", "/v1/suppressions"): (_SMALL,),
        ("DELETE", "/v1/suppressions/{suppression}"): (_SMALL,),
        ("POST", "/v1/events"): (_SMALL, _LARGE),
        ("GET", "/v1/event-types"): (_SMALL,),
        ("GET", "/v1/event-types/{event_type}"): (_SMALL,),
        ("PUT", "/v1/event-types/{event_type}"): (_SMALL,),
        ("DELETE", "/v1/event-types/{event_type}"): (_SMALL,),
        ("GET", "/v1/sources"): (_SMALL,),
        ("POST", "/v1/sources"): (_SMALL,),
        ("GET", "/v1/sources/{source_id}"): (_SMALL,),
        ("PUT", "/v1/sources/{source_id}"): (_SMALL,),
        ("DELETE", "/v1/sources/{source_id}"): (_SMALL,),
        ("GET", "/v1/subscriptions"): (_SMALL,),
        ("POST", "/v1/subscriptions"): (_SMALL,),
        # It matches the subscriptions of 16 endpoints and the rules, each with the most combinations.
        ("POST", "/v1/subscriptions/matches"): (Cost(worst_s=0.8, slots=Kind.LARGE_BODY),),
        ("GET", "/v1/subscriptions/{subscription_id}"): (_SMALL,),
        ("DELETE", "/v1/subscriptions/{subscription_id}"): (_SMALL,),
        ("GET", "/v1/keys"): (_SMALL,),
        # Each writes an entry of the audit log for each of a key's 1,000 clubs, at a millisecond of the processor.
        ("POST", "/v1/keys"): (Cost(worst_s=1.1, slots=Kind.KEYS),),
        ("POST", "/v1/keys/{key_id}/rotate"): (Cost(worst_s=1.1, slots=Kind.KEYS),),
        ("POST", "/v1/keys/{key_id}/revoke"): (Cost(worst_s=1.1, slots=Kind.REVOCATION),),
        ("GET", "/v1/webhooks"): (_SMALL,),
        ("POST", "/v1/webhooks"): (_SMALL,),
        ("GET", "/v1/webhooks/{endpoint_id}"): (_SMALL,),
        ("PATCH", "/v1/webhooks/{endpoint_id}"): (_SMALL,),
        ("DELETE", "/v1/webhooks/{endpoint_id}"): (_SMALL,),
        ("POST", "/v1/webhooks/{endpoint_id}/rotate"): (_SMALL,),
        ("POST", "/v1/webhooks/{endpoint_id}/test"): (_SMALL,),
        ("POST", "/v1/webhooks/{endpoint_id}/test/{event_type}"): (_SMALL,),
        ("GET", "/v1/webhooks/{endpoint_id}/deliveries"): (_SMALL,),
        ("POST", "/v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/resend"): (_SMALL,),
        ("GET", "/v1/webhooks/{endpoint_id}/dead-letters"): (_SMALL,),
        ("POST", "/v1/webhooks/{endpoint_id}/dead-letters/ack"): (_SMALL,),
        ("POST", "/v1/webhooks/{endpoint_id}/dead-letters/replay"): (_SMALL,),
        ("GET", "/v1/webhooks/{endpoint_id}/log"): (_SMALL,),
        ("GET", "/v1/webhooks/{endpoint_id}/metrics"): (_SMALL,),
    }
)
