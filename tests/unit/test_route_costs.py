"""The costs of routes: which requests hold slots, and each night the processor time of the worst requests.

masscomm/operations/route_costs.py has the figures; tests/unit/infra/test_concurrency.py compares them with the
reservations of functions.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import count
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest

from functions.metrics_handler import handler as metrics_handler
from functions.operations_handler import handler as operations_handler
from functions.send_handler import previews
from functions.sends_api import handler as sends_api
from masscomm.domain.grains import Grain
from masscomm.domain.limits import LARGE_BODY, MAX_RECIPIENTS
from masscomm.domain.users import Device, Template, User
from masscomm.http.rest import WITH_LARGE_BODIES
from masscomm.http.scopes import PUBLIC_ROUTES
from masscomm.operations.route_costs import PLAIN_S, ROUTE_COSTS
from masscomm.stores.metrics.in_memory import StoredCount
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from masscomm.stores.request_slots.port import Kind
from tests.support.harness import operations_api, rest_api
from tests.support.harness.chain import send
from tests.support.harness.rest_api import NOON
from tests.support.inputs.api_gateway_events import get

type Route = tuple[str, str]

# The largest body that Lambda accepts, and one of LARGE_BODY characters: the JSON that takes longest to read.
OBJECTS = ['{"a":1}'] * 620_000
LARGEST, LARGE = "[" + ",".join(OBJECTS) + "]", "[" + ",".join(OBJECTS[: LARGE_BODY // 8 - 1]) + "]"
SEND = {"type": "news", "club_id": 1, "to_users": [42]}
NAMES = {
    "{send_id}": "3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f39",
    "{user_id}": "42",
    "{notification}": "3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f39.42.push",
    "{suppression}": f"1-{operations_api.ADDRESS_ID}",
    "{position}": "0@17",
    "{device_id}": "420",
    "{key_id}": operations_api.KEY_ID,
    "{endpoint_id}": operations_api.endpoint_id(1),
    "{delivery_id}": operations_api.EVENT_ID,
    "{token}": "token",
}


_KEYS = count()


class Ask(NamedTuple):
    """A request."""

    method: str
    path: str
    body: str | None = None
    accept: str = "application/json"
    parameters: Mapping[str, Any] = {}

    def event(self) -> str:
        path = self.path
        for name, value in NAMES.items():
            path = path.replace(name, value)
        event = get(path, **{name: [str(value)] for name, value in self.parameters.items()})
        event["httpMethod"] = event["requestContext"]["httpMethod"] = self.method
        event["multiValueHeaders"] = {"Accept": [self.accept], "Idempotency-Key": [str(next(_KEYS))]}
        return json.dumps(event | {"body": self.body})

    def answer(self, event: str | None = None) -> dict[str, Any]:
        """Return the response. The runtime of Lambda decodes the event and encodes the response, too."""
        answer = rest_api.answer(json.loads(event or self.event()))
        json.dumps(answer)
        return answer


def post(path: str, body: Any, **given: Any) -> Ask:
    return Ask("POST", path, body if isinstance(body, str) else json.dumps(body), **given)


@pytest.fixture(autouse=True)
def _functions(monkeypatch: pytest.MonkeyPatch) -> None:
    rest_api.build(monkeypatch)


# Requests with slots, of which the route also has others.
WITH_SLOTS = {
    Kind.LARGE_BODY: [post("/v1/sends", LARGE + " " * 100), post("/v1/sends/batch", LARGE + " " * 100)],
}
COUNTED = {"granularity": "minute", "start": "2026-11-20T12:00:00Z", "end": "2026-11-21T12:01:00Z"}


@pytest.mark.kills(guard="costly_requests.slot_of_a_route")
@pytest.mark.guarantee("costly_requests.a_caller_has_half")
@pytest.mark.parametrize("route", sorted(ROUTE_COSTS), ids=" ".join)
def test_requests_hold_the_slots_of_their_route(route: Route, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all slots taken, requests with slots are refused, before their body is read, and no others are."""
    monkeypatch.setattr(InMemoryRequestSlots, "take", Mock(return_value=None))
    costs, small = ROUTE_COSTS[route], Ask(*route, body="{}" if route[0] != "GET" else None)
    assert (small.answer()["statusCode"] == 429) == (None not in {cost.slots for cost in costs})
    asked = [each for several in WITH_SLOTS.values() for each in several if (each.method, each.path) == route]
    assert {each.answer()["statusCode"] for each in asked} <= {429}


@pytest.mark.kills(guard="rest.large_body")
@pytest.mark.guarantee("costly_requests.a_caller_has_half")
@pytest.mark.parametrize("route", sorted(ROUTE_COSTS.keys() - PUBLIC_ROUTES), ids=" ".join)
def test_large_body_is_refused_unless_it_holds_a_slot(route: Route) -> None:
    status = Ask(*route, body="{" + " " * LARGE_BODY).answer()["statusCode"]
    assert (status == 413) == (route not in WITH_LARGE_BODIES)
    assert route not in WITH_LARGE_BODIES or {cost.slots for cost in ROUTE_COSTS[route]} != {None}


class Replaying:
    """A store that computes each answer once: its own time is that of a server."""

    def __init__(self, store: Any) -> None:
        self._store, self._kept = store, dict[str, Any]()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        def kept(*given: Any, **named: Any) -> Any:
            if name not in self._kept:
                self._kept[name] = found(*given, **named)
            return self._kept[name]

        return kept if callable(found) else found


def _metrics() -> Iterator[Ask]:
    """Yield pages of the greatest length."""
    metrics_route, cases = metrics_handler.bootstrap().metrics_route, sends_api.bootstrap()
    store: Any = cases.sends_route.store
    store.stored = [
        StoredCount(
            granularity=Grain.MINUTE,
            bucket=NOON - timedelta(minutes=number % 1_000),
            club_id=1 + number // 1_000,
            type="t" * 120,
            channel="push",
            measure="sent",
            count_total=2**60,
        )
        for number in range(10_000)
    ]
    (found,) = store.sends.values()
    ids = [f"{found.send_id[:-4]}{number:04}" for number in range(1_200)]
    store.sends |= {each: replace(found, send_id=each, type="t" * 120) for each in ids[:250]}
    ((user_id, row),) = store.recipients
    store.recipients += [(user_id, replace(row, key=replace(row.key, send_id=each))) for each in ids]
    store.recipients += [(user_id + 1 + number, row) for number in range(1_200)]
    log: Any = operations_handler.audit_route().audit_log
    log.entries = [replace(log.entries[0], id=str(number), detail="d" * 200) for number in range(250)]
    for route in (metrics_route, cases.sends_route, cases.recipients_route, cases.user_notifications_route):
        object.__setattr__(route, "store", Replaying(store))
    object.__setattr__(operations_handler.audit_route(), "audit_log", Replaying(log))
    counts = COUNTED | {"limit": 10_000, "dimensions": "club_id,type,channel,measure"}
    for accept in ("application/json", "text/csv"):
        yield Ask("GET", "/v1/metrics", accept=accept, parameters=counts)
    yield Ask("GET", "/v1/metrics/stream", parameters=counts)
    yield Ask("GET", "/v1/sends", parameters={"limit": 200, "club_id": 1})
    yield Ask("GET", "/v1/sends/{send_id}/recipients", parameters={"limit": 1_000})
    yield Ask("GET", "/v1/users/{user_id}/notifications", parameters={"limit": 1_000})
    yield Ask("GET", "/v1/audit", parameters={"limit": 200, "club_id": 1})
    directory: Any = previews.dry_runs().directory
    slow = "{{ ('" + "a " * 9_000 + "') | title | length }}"
    directory.put(*(Template(2_000 + number, 1, f"t{number}", "push", "en", slow, slow) for number in range(100)))
    directory.list_templates = Replaying(directory).list_templates
    yield Ask("GET", "/v1/templates", parameters={"limit": 100})


def _operations() -> Iterator[Ask]:
    """Yield pages of the greatest length, and dead letters of the greatest size."""
    cases = operations_handler.bootstrap()
    letters: Any = cases.dead_letters.store
    codec = cases.dead_letters.codec
    large = replace(send([1]), club_id=1, to_users=list(range(10**9, 10**9 + 190_000)))
    value = codec.encode("send.api", "SendRequested", large.to_avro())
    at_ms = metrics_handler.bootstrap().metrics_route.clock.now_ms()
    letters._letters[17] = operations_api.letter(codec, at_ms=at_ms, value=value)
    yield Ask("GET", "/v1/dead-letters/{position}")
    yield post("/v1/dead-letters/{position}/discard", {"reason": "r" * 500})
    yield post("/v1/dead-letters/{position}/replay", "")
    value = b'{"a":[' + b"1," * 490_000 + b"1]}"
    letters._letters[17] = operations_api.letter(codec, at_ms=at_ms, value=value, topic="cdc.g1.public.users")
    yield Ask("GET", "/v1/dead-letters/{position}")
    keys: Any = operations_handler.keys()
    clubs = list(range(10**18, 10**18 + 1_000))
    for number in range(200):
        keys.keys.put(operations_api.key(key_id=f"{number:016}", clubs=" ".join(map(str, clubs))))
    object.__setattr__(keys, "keys", Replaying(keys.keys))
    yield Ask("GET", "/v1/keys", parameters={"limit": 200})
    yield post("/v1/keys", {"name": "x" * 100, "clubs": clubs})
    log: Any = cases.webhooks.log
    log.webhook_rows = [row for number in range(200) for row in operations_api.attempts(1, f"evt_{number:032}")]
    object.__setattr__(cases.webhooks, "log", Replaying(log))
    yield Ask("GET", "/v1/webhooks/{endpoint_id}/deliveries", parameters={"limit": 200})
    for path, attribute, rows, name in (
        ("/v1/suppressions", "suppressions", "_rows", "id"),
        ("/v1/devices", "devices", "_devices", "device_id"),
    ):
        store: Any = getattr(getattr(cases, attribute), attribute)
        (row,) = getattr(store, rows)
        ids = [f"1-{number:064}" if name == "id" else 1_000 + number for number in range(200)]
        getattr(store, rows).extend(replace(row, **{name: each}) for each in ids)
        object.__setattr__(getattr(cases, attribute), attribute, Replaying(store))
        yield Ask("GET", path, parameters={"limit": 200})


def _sends() -> Iterator[Ask]:
    """Yield sends of the greatest size, and messages that take all of their steps."""
    yield post("/v1/sends", SEND | {"to_users": list(range(10**9, 10**9 + MAX_RECIPIENTS))})
    own = {str(user): {f"k{number}": "" for number in range(25)} for user in range(1, 10_001)}
    yield post("/v1/sends", SEND | {"to_users": list(range(1, 10_001)), "recipient_data": own})
    batch = [SEND | {"to_users": list(range(10**9, 10**9 + 100))} for _ in range(1_000)]
    yield post("/v1/sends/batch", {"sends": batch})
    yield post("/v1/sends/batch", {"sends": batch[:1] * 900})
    for path in ("/v1/sends", "/v1/sends/batch", "/v1/previews"):
        yield post(path, LARGEST)
        yield post(path, '{"type":"news","club_id":1,"sends":' + LARGEST + ',"to_users":' + LARGEST[:60] + "]}")
    slow = "{{ (data.x | title | length) if user.locale }}"
    draft = dict.fromkeys(("title", "body", "html"), slow * 50)
    yield post("/v1/previews", {"type": "news", "club_id": 1, "draft": draft, "data": {"x": "a " * 40_000}})
    directory: Any = previews.dry_runs().directory
    directory.put(*(User(user_id=user, club_id=1, email=f"{user}@a.example") for user in range(1, 1_001)))
    directory.put(
        *(
            Device(device_id=user, user_id=user, platform="gcm", endpoint_arn="arn:app/GCM/a/1")
            for user in range(1, 1_001)
        )
    )
    directory.put(
        *(
            Template(3_000 + number, 1, "slow", name, "en", slow * 3, slow * 3, slow * 3)
            for number, name in enumerate(("push", "email"))
        )
    )
    slow_send = SEND | {"type": "news", "template": "slow", "channels": ["push", "email"], "data": {"x": "a " * 4_000}}
    yield post("/v1/sends", slow_send)


def _bodies() -> Iterator[Ask]:
    """Yield the largest body that is not read, and the worst one that is, of each route."""
    for method, path in ROUTE_COSTS:
        if (method, path) not in WITH_LARGE_BODIES:
            yield Ask(method, path, body='"' + '\\"' * 1_500_000)
        if method != "GET":
            yield Ask(method, path, body=LARGE)


def _kind(ask: Ask) -> Kind | None:
    """Return the kind of the slots of a request; None if it holds none."""
    kinds = [cost.slots for cost in ROUTE_COSTS[ask.method, ask.path]]
    if len(kinds) == 1:
        return kinds[0]
    if '"dry_run"' in (ask.body or "")[-100:]:
        return Kind.DRY_RUN
    return Kind.LARGE_BODY if Kind.LARGE_BODY in kinds and len(ask.body or "") > LARGE_BODY else None


def _processor_s(ask: Ask, runs: int) -> float:
    """Return the processor time of a request; the first one, which fills caches, does not count."""
    assert ask.answer()["statusCode"] != 500, ask[:2]
    found = []
    for event in [ask.event() for _ in range(runs)]:
        begin = time.process_time()
        ask.answer(event)
        found.append(time.process_time() - begin)
    return median(found)


@pytest.mark.nightly
@pytest.mark.guarantee("costly_requests.worst_requests_are_measured")
@pytest.mark.parametrize("asks", [_metrics, _operations, _sends, _bodies], ids=lambda each: each.__name__)
def test_worst_requests_take_no_more_than_their_costs(asks: Callable[[], Iterator[Ask]]) -> None:
    """In processor time of a plain send in the same run, so that the machine does not matter."""
    plain = post("/v1/sends", SEND | {"to_users": [1, 2, 3]})
    too_long = []
    for ask in asks():
        ratio = _processor_s(ask, 3) / _processor_s(plain, 20)
        kind = _kind(ask)
        (cost,) = (each for each in ROUTE_COSTS[ask.method, ask.path] if each.slots is kind)
        row = (ask.method, ask.path, kind, len(ask.body or ""), round(ratio * PLAIN_S, 4), cost.worst_s)
        too_long += [row] if ratio * PLAIN_S > cost.worst_s else []
    assert too_long == []
