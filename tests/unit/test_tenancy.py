"""Every route of every function rejects a caller without a known tenant, and returns no data."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from functions.audiences import handler as audiences
from functions.audiences.count_audience import CountAudience
from functions.events_api import handler as events_api
from functions.metrics_handler import handler as metrics_handler
from functions.operations_handler import handler as operations_handler
from functions.preferences_handler import handler as preferences_handler
from functions.send_handler import handler as send_handler
from functions.send_handler import previews
from functions.sends_api import handler as sends_api
from masscomm.clock import FixedClock
from masscomm.directory.document_publisher import InMemoryDocumentPublisher
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.audit import Action, audit_entry
from masscomm.domain.grains import Grain
from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.users import Template, User
from masscomm.http import single_users
from masscomm.http.parameters import rfc3339
from masscomm.http.scopes import ALL_SCOPES, PUBLIC_ROUTES, ROUTE_SCOPES, Scope
from masscomm.operations.waiting import Waiting
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.idempotency_keys.in_memory import InMemoryIdempotencyKeys
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore, StoredCount
from masscomm.stores.metrics.port import ChannelTotals, LogKey, LogRow, SendTotals
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from masscomm.stores.saved_audiences.in_memory import InMemorySavedAudiences
from masscomm.stores.schedules.in_memory import InMemorySchedules
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.contracts import schedules
from tests.support.contracts.webhook_results import results_of
from tests.support.harness import operations_api
from tests.support.harness.chain import Chain
from tests.support.harness.events_api import endpoint_key, events_use_cases, source_id, subscription_id
from tests.support.harness.preferences_api import read_users, tenant_route
from tests.support.harness.preferences_api import use_case as change_preferences
from tests.support.harness.send_api import dry_runs
from tests.support.harness.send_api import use_cases as send_api_use_cases
from tests.support.inputs.api_gateway_events import EVERY_CLUB, EVERY_SCOPE, get, lambda_context
from tests.support.inputs.document_calls import concerns_every_club
from tests.support.inputs.unusable_tenants import UNUSABLE

FUNCTIONS = Path(__file__).parents[2] / "functions" / "functions.yaml"
HANDLERS: tuple[ModuleType, ...] = (
    metrics_handler,
    send_handler,
    previews,
    sends_api,
    preferences_handler,
    operations_handler,
    audiences,
    events_api,
)
ROUTES = [
    (module, method, path)
    for module in HANDLERS
    for method, path in module.api.routes
    if (method, path) not in PUBLIC_ROUTES
]
CLUB, OTHER = 8_471, 8_472
SENT_AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
COUNTED = {"granularity": ["hour"], "start": ["2026-11-21T12:00:00Z"], "end": ["2026-11-21T13:00:00Z"]}
PARAMETERS = {
    ("GET", "/v1/metrics"): COUNTED,
    ("GET", "/v1/metrics/latency"): COUNTED,
    ("GET", f"/v1/webhooks/{operations_api.endpoint_id(CLUB)}/metrics"): COUNTED,
    ("GET", "/v1/audiences"): {"club_id": [str(CLUB)]},
    **{
        (method, f"/v1/audiences/{operations_api.AUDIENCE}"): {"club_id": [str(CLUB)]}
        for method in ("GET", "PUT", "DELETE")
    },
    ("GET", "/v1/schedules"): {"club_id": [str(CLUB)]},
    **{
        (method, f"/v1/schedules/{schedules.WEEKLY.name}{action}"): {"club_id": [str(CLUB)]}
        for method, action in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"))
    },
    ("GET", "/v1/sends"): {"club_id": [str(CLUB)]},
    ("GET", "/v1/users"): {"club_id": [str(CLUB)]},
    ("GET", "/v1/webhooks"): {"club_id": [str(CLUB)]},
    ("GET", "/v1/sources"): {"club_id": [str(CLUB)]},
    ("GET", "/v1/subscriptions"): {"endpoint_id": [endpoint_key(CLUB).id]},
}
SOURCE = {
    "scheme": "github",
    "secret": "a secret of the sender",
    "mapping": {"type": {"value": "match.finished"}, "club_id": {"path": "club"}},
}
TOMORROW = rfc3339(datetime.fromtimestamp(FixedClock().now_ms() / 1000 + 86_400, UTC))
SECRETS = (str(CLUB), "canary")


@pytest.fixture(autouse=True)
def chain(monkeypatch: pytest.MonkeyPatch) -> Chain:
    """The functions of the API over stores that hold a club's send, user and counts."""
    chain = Chain()
    clock = FixedClock()
    count = StoredCount(
        granularity=Grain.HOUR,
        bucket=SENT_AT,
        club_id=CLUB,
        type="canary",
        channel="push",
        measure="sent",
        count_total=3,
    )
    send = SendTotals(
        send_id="s",
        club_id=CLUB,
        type="canary",
        requested_at=SENT_AT,
        chunk_count=1,
        chunks=1,
        channels={"push": ChannelTotals(4, 0, 4, {"suppressed": {"unknown_user": 3}})},
        watermark=None,
    )
    rows = [(7, LogRow(LogKey(SENT_AT, "s", "push"), CLUB, "canary", "suppressed", "unknown_user"))]
    store = InMemoryMetricsStore([count], sends={"s": send}, watermark=SENT_AT, recipients=rows, **results_of(CLUB))
    audit_log = InMemoryAuditLog()
    for club_id in (CLUB, None):
        audit_log.record(
            audit_entry(Action.SEND_REQUESTED, club_id=club_id, at_ms=1, principal="canary", subject=f"{CLUB}")
        )
    controls, key = InMemorySends(), SendKey(CLUB, "s")
    # The send can be moved and resumed.
    send_at_ms = clock.now_ms() + 3_600_000
    controls.control(SendControl(send=key, paused_at_ms=clock.now_ms(), send_at_ms=send_at_ms))
    waiting = Waiting(clock, InMemoryRequestSlots())
    counted = metrics_handler.use_cases(store, clock, timedelta(), waiting)
    monkeypatch.setattr(metrics_handler, "bootstrap", lambda: counted)
    cases = sends_api.use_cases(store, clock, timedelta(), waiting, controls, InMemoryDelayStore(), audit_log)
    monkeypatch.setattr(sends_api, "bootstrap", lambda: cases)
    operations_api.build(monkeypatch, clock=clock, audit_log=audit_log, club_id=CLUB)
    directory = InMemoryDirectory()
    directory.put(
        User(user_id=7, club_id=CLUB, first_name="canary"),
        Template(1, CLUB, "canary", "push", "en", "canary", "{{ user.first_name }}"),
        Template(2, None, "news", "push", "en", "News", "Hello"),
    )
    monkeypatch.setattr(previews, "directory", lambda: directory)
    stored = InMemorySchedules()
    stored.put(replace(schedules.WEEKLY, club_id=CLUB, send={"type": "canary", "club_id": CLUB, "to_users": [7]}), None)
    requests = send_api_use_cases(chain, InMemoryIdempotencyKeys(), directory=directory, schedules=stored)
    monkeypatch.setattr(send_handler, "bootstrap", lambda: requests)
    forecasts = dry_runs(clock, directory)
    monkeypatch.setattr(previews, "dry_runs", lambda: forecasts)
    people = InMemoryDirectory()
    people.put(User(user_id=7, club_id=CLUB))
    preferences = change_preferences(chain, people, InMemoryDocumentPublisher())
    monkeypatch.setattr(preferences_handler, "bootstrap", lambda: preferences)
    reading = read_users(clock, people, InMemoryAuditLog(), InMemoryRequestSlots())
    monkeypatch.setattr(preferences_handler, "reading", lambda: reading)
    rules = tenant_route(clock, people)
    monkeypatch.setattr(preferences_handler, "tenant_preferences", lambda: rules)
    events = events_use_cases(chain, clock, InMemoryAuditLog(), CLUB)
    monkeypatch.setattr(events_api, "bootstrap", lambda: events)
    counts = CountAudience(directory=directory, saved=InMemorySavedAudiences())
    monkeypatch.setattr(audiences, "bootstrap", lambda: counts)
    return chain


def asked(module: ModuleType, method: str, path: str, authorizer: object) -> tuple[int, dict[str, Any], str]:
    """(status, headers, body) of a request that succeeds if the caller may see the club."""
    names = {
        "{send_id}": "s",
        "{user_id}": "7",
        "{notification}": "s.7.push",
        "{suppression}": f"{CLUB}-{operations_api.ADDRESS_ID}",
        "{position}": "0@17",
        "{device_id}": "420",
        "{key_id}": operations_api.KEY_ID,
        "{endpoint_id}": operations_api.endpoint_id(CLUB),
        "{delivery_id}": operations_api.EVENT_ID,
        "{category}": "news",
        "{name}": operations_api.AUDIENCE,
        "{tenant}": str(CLUB),
        "{schedule}": schedules.WEEKLY.name,
        "{event_type}": "match.finished",
        "{source_id}": source_id(CLUB),
        "{subscription_id}": subscription_id(CLUB),
    }
    for name, value in names.items():
        path = path.replace(name, value)
    event = get(path, **PARAMETERS.get((method, path), {}))
    event["httpMethod"] = event["requestContext"]["httpMethod"] = method
    send = {"type": "news", "club_id": CLUB, "to_users": [7]}
    bodies = {
        ("POST", "/v1/sends"): send,
        ("POST", "/v1/audiences/count"): {"club_id": CLUB, "audience": {"all_users": True}},
        ("POST", "/v1/sends/batch"): {"sends": [send]},
        ("PATCH", "/v1/sends/s"): {"send_at": TOMORROW},
        ("POST", "/v1/dry-runs"): send,
        ("POST", "/v1/previews"): {"type": "news", "club_id": CLUB},
        ("POST", "/v1/dead-letters/0@17/discard"): {"reason": "over"},
        ("POST", "/v1/webhooks"): {"club_id": CLUB, "url": "https://hooks.example.org/"},
        ("PATCH", f"/v1/webhooks/{operations_api.endpoint_id(CLUB)}"): {"enabled": True},
        ("POST", f"/v1/webhooks/{operations_api.endpoint_id(CLUB)}/dead-letters/ack"): {
            "up_to": operations_api.undelivered_id(FixedClock())
        },
        ("POST", f"/v1/webhooks/{operations_api.endpoint_id(CLUB)}/dead-letters/replay"): {
            "ids": [operations_api.undelivered_id(FixedClock())]
        },
        ("POST", "/v1/keys"): {"name": "shop", "clubs": [CLUB], "scopes": ["admin"]},
        ("POST", "/v1/events"): {
            "events": [{"event_id": "e1", "type": "match.finished", "club_id": CLUB, "data": {"goals": []}}]
        },
        ("PUT", f"/v1/audiences/{operations_api.AUDIENCE}"): {"audience": {"all_users": True}},
        ("PUT", f"/v1/schedules/{schedules.WEEKLY.name}"): {
            "rule": schedules.WEEKLY.rule,
            "time_zone": "Europe/Zurich",
            "starts_at_local": schedules.WEEKLY.starts_at_local,
            "send": send,
        },
        ("PUT", "/v1/categories/news"): {"channels": ["push"]},
        ("PUT", "/v1/event-types/match.finished"): {"description": "A match has finished", "example": {"goals": []}},
        ("POST", "/v1/sources"): SOURCE | {"club_id": CLUB},
        ("PUT", path if path.startswith("/v1/sources/") else ""): SOURCE | {"club_id": CLUB},
        ("POST", "/v1/subscriptions/matches"): {
            "event_id": "e1",
            "type": "match.finished",
            "club_id": CLUB,
            "data": {"goals": []},
        },
        ("POST", "/v1/subscriptions"): {"endpoint_id": endpoint_key(CLUB).id, "types": ["*"]},
        ("PUT", "/v1/users/7/preferences"): {"channels": {"push": False}},
        ("PUT", f"/v1/tenants/{CLUB}/preferences"): {"channels": {"push": False}},
    }
    event["body"] = json.dumps(bodies[method, path]) if (method, path) in bodies else None
    event["multiValueHeaders"] = {"Idempotency-Key": ["key"]}
    event["requestContext"]["authorizer"] = authorizer
    if authorizer is ABSENT:
        del event["requestContext"]["authorizer"]
    answer = module.handler(event, lambda_context())
    return answer["statusCode"], answer["multiValueHeaders"], answer["body"]


ABSENT = object()


def names(route: tuple[ModuleType, str, str]) -> str:
    return f"{route[0].__name__.split('.')[1]} {route[1]} {route[2]}"


@pytest.mark.guarantee("tenants.missing_tenant_is_refused")
@pytest.mark.kills(guard="tenancy.caller_without_tenant")
@pytest.mark.kills(guard="tenancy.absent_context")
@pytest.mark.parametrize("route", ROUTES, ids=names)
def test_a_caller_without_a_tenant_is_refused(route: tuple[ModuleType, str, str], chain: Chain) -> None:
    """Every route returns the same response for each context without a usable tenant, even with every scope."""
    scoped = [EVERY_SCOPE | each for each in UNUSABLE if isinstance(each, dict)]
    refusals = {
        (status, json.dumps(headers), body)
        for context in (ABSENT, *UNUSABLE, *scoped)
        for status, headers, body in [asked(*route, context)]
    }
    ((status, headers, body),) = refusals
    assert status == 403
    assert not any(secret in headers + body for secret in SECRETS)
    assert chain.producer.produced == []


@pytest.mark.parametrize("route", ROUTES, ids=names)
def test_the_same_request_is_answered_to_an_operator(route: tuple[ModuleType, str, str]) -> None:
    """An operator's same request succeeds, so the context caused the rejections in the other tests."""
    assert asked(*route, EVERY_CLUB)[0] in (200, 201, 202)


@pytest.mark.parametrize("module", HANDLERS, ids=lambda module: module.__name__)
def test_unknown_path_is_403_unauthorised_and_404_otherwise(module: ModuleType) -> None:
    assert asked(module, "GET", "/v1/none", ABSENT)[0] == 403
    assert asked(module, "GET", "/v1/none", EVERY_CLUB)[0] == 404


def test_every_route_of_the_catalogue_is_tested() -> None:
    catalogue = yaml.safe_load(FUNCTIONS.read_text())
    published = {route for each in catalogue["functions"].values() for route in each.get("routes", [])}
    tested = {f"{method} {path}" for _, method, path in ROUTES}
    assert published - tested == {f"{method} {path}" for method, path in PUBLIC_ROUTES}
    assert tested < published


def test_every_route_of_the_catalogue_has_a_scope() -> None:
    assert set(ROUTE_SCOPES) == {(method, path) for _, method, path in ROUTES}


@pytest.mark.guarantee("api_keys.route_needs_its_scope")
@pytest.mark.kills(guard="tenancy.scope_of_a_route")
@pytest.mark.parametrize("route", ROUTES, ids=names)
def test_a_route_is_open_to_its_scope_alone(
    route: tuple[ModuleType, str, str], chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller with all other scopes is refused before anything is read or produced."""
    monkeypatch.setattr(single_users, "SMALLEST_GROUP", 0)
    scope = ROUTE_SCOPES[route[1], route[2]]
    own = EVERY_SCOPE | ({"all_clubs": "true"} if concerns_every_club(*route[1:]) else {"club_ids": str(CLUB)})
    status, _, body = asked(*route, own | {"scopes": " ".join(ALL_SCOPES - {scope})})
    assert (status, chain.producer.produced) == (403, [])
    assert json.loads(body)["detail"] == f"These credentials do not have the scope {scope}."
    assert not any(secret in body for secret in SECRETS)
    # A dry run shows what the counts of a send show.
    further = Scope.READ if route[2] == "/v1/dry-runs" else scope
    assert asked(*route, own | {"scopes": f"{scope} {further}"})[0] in (200, 201, 202)


@pytest.mark.guarantee("tenants.other_tenants_data_is_unknown")
@pytest.mark.kills(guard="tenancy.other_tenants_send")
def test_another_tenants_send_and_user_are_as_unknown_ones() -> None:
    """Status, headers and body are the same: an id cannot be probed."""
    other = EVERY_SCOPE | {"club_ids": str(OTHER)}
    theirs = asked(sends_api, "GET", "/v1/sends/s", other)
    assert theirs == asked(sends_api, "GET", "/v1/sends/none", other)
    assert theirs[0] == 404
    assert theirs == asked(sends_api, "POST", "/v1/sends/s/cancel", other)
    assert theirs == asked(sends_api, "POST", "/v1/sends/none/cancel", other)
    status, headers, body = asked(sends_api, "GET", "/v1/users/7/notifications", other)
    unknown = asked(sends_api, "GET", "/v1/users/9/notifications", other)
    assert (status, json.loads(body) | {"user_id": 9}) == (200, json.loads(unknown[2]))
    assert headers.keys() == unknown[1].keys()


@pytest.mark.guarantee("simulator.test_key_changes_nothing")
@pytest.mark.kills(guard="simulator.changes")
@pytest.mark.parametrize("route", ROUTES, ids=names)
def test_a_test_key_reads_and_changes_nothing(route: tuple[ModuleType, str, str], chain: Chain) -> None:
    """A test key could otherwise cancel a live send. Its own sends go to simulator recipients only."""
    status, _, body = asked(*route, EVERY_CLUB | {"mode": "test"})
    # The result of each send of a batch is in the body.
    reads = route[1] == "GET" or route[2] == "/v1/previews"
    assert status == (200 if reads or route[2].endswith("/batch") else 403), body
    assert chain.producer.produced == []


@pytest.mark.guarantee("audit.own_tenant_only")
@pytest.mark.kills(guard="tenancy.audit_log")
def test_the_audit_log_of_another_tenant_is_refused() -> None:
    other = EVERY_SCOPE | {"club_ids": str(OTHER)}
    status, _, body = asked(operations_handler, "GET", "/v1/audit", other)
    assert (status, json.loads(body)["rows"]) == (200, [])
    event = get("/v1/audit", club_id=[str(CLUB)])
    event["requestContext"]["authorizer"] = other
    answer = operations_handler.handler(event, lambda_context())
    assert answer["statusCode"] == 403
    assert "canary" not in answer["body"]


def test_templates_of_another_tenant_are_not_listed() -> None:
    other = EVERY_SCOPE | {"club_ids": str(OTHER)}
    status, _, body = asked(previews, "GET", "/v1/templates", other)
    assert (status, [row["id"] for row in json.loads(body)["rows"]]) == (200, [2])
    event = get("/v1/templates", club_id=[str(CLUB)])
    event["requestContext"]["authorizer"] = other
    answer = previews.handler(event, lambda_context())
    assert answer["statusCode"] == 403
    assert "canary" not in answer["body"]


def previewed(club_id: int, authorizer: dict[str, str], **values: object) -> tuple[int, str]:
    event = get("/v1/previews")
    event["httpMethod"] = event["requestContext"]["httpMethod"] = "POST"
    event["body"] = json.dumps({"type": "canary", "club_id": club_id, "channels": ["push"], **values})
    event["requestContext"]["authorizer"] = authorizer
    answer = previews.handler(event, lambda_context())
    return answer["statusCode"], answer["body"]


@pytest.mark.kills(guard="tenancy.previewed_user")
def test_previews_show_nothing_of_another_tenant() -> None:
    """A user of another tenant and an unknown user have the same response, and so do templates."""
    own, other = EVERY_SCOPE | {"club_ids": str(CLUB)}, EVERY_SCOPE | {"club_ids": str(OTHER)}
    assert "canary" in previewed(CLUB, own, user_id=7)[1]
    assert previewed(CLUB, other)[0] == 403
    draft = {"title": "{{ user.first_name }}", "body": "b"}
    theirs = previewed(OTHER, other, user_id=7, draft=draft)
    unknown = previewed(OTHER, other, user_id=9, draft=draft)
    assert theirs == unknown
    assert theirs[0] == 400
    body = json.loads(previewed(OTHER, other)[1])
    assert body["messages"][0]["fields"] is None


def test_preview_of_a_user_needs_the_scope_of_users() -> None:
    context = {"club_ids": str(CLUB), "scopes": "read send admin operate"}
    assert previewed(CLUB, context)[0] == 200
    assert previewed(CLUB, context, user_id=7)[0] == 403
    assert previewed(CLUB, context | {"scopes": "read users:read"}, user_id=7)[0] == 200
