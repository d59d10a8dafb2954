"""The REST functions in memory, with the send and the user of the examples in the OpenAPI document."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from functions.audiences import handler as audiences
from functions.audiences.count_audience import CountAudience
from functions.events_api import handler as events_api
from functions.metrics_handler import handler as metrics_handler
from functions.operations_handler import handler as operations_handler
from functions.preferences_handler import handler as preferences_handler
from functions.preferences_handler.unsubscribe import Unsubscribe
from functions.send_handler import handler as send_handler
from functions.send_handler import previews
from functions.sends_api import handler as sends_api
from local.devstack.services.lambda_host import DOCS
from local.emulators.gateway import Gateway, Route
from local.emulators.sign_in import SignIn
from masscomm.channels.signing_keys import SigningKeys
from masscomm.channels.unsubscribe_links import UnsubscribeLinks
from masscomm.clock import FixedClock, SystemClock
from masscomm.directory.document_publisher import InMemoryDocumentPublisher
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.audit import Action, audit_entry
from masscomm.domain.grains import Grain
from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.users import Template, User
from masscomm.http.access_tokens import AccessTokens, InvalidToken, bearer_token
from masscomm.http.rate_limits import RateLimiter
from masscomm.observability import logs
from masscomm.operations.send_lists import SendLists
from masscomm.operations.waiting import Waiting
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.idempotency_keys.in_memory import InMemoryIdempotencyKeys
from masscomm.stores.key_usage.in_memory import InMemoryKeyUsage
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore, StoredCount
from masscomm.stores.metrics.port import ChannelTotals, LogKey, LogRow, SendTotals
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from masscomm.stores.schedules.in_memory import InMemorySchedules
from masscomm.stores.sends.in_memory import InMemorySends
from ops.openapi.document import APIS
from tests.support.contracts.schedules import WEEKLY
from tests.support.contracts.webhook_results import results_of
from tests.support.harness import operations_api
from tests.support.harness.chain import Chain
from tests.support.harness.events_api import events_use_cases
from tests.support.harness.preferences_api import read_users, tenant_route
from tests.support.harness.preferences_api import use_case as change_preferences
from tests.support.harness.send_api import dry_runs, use_cases
from tests.support.inputs.api_gateway_events import EVERY_SCOPE, lambda_context


class SleepingClock(FixedClock):
    """A clock whose time only `advance` and `sleep` change, and whose sleep also takes that time."""

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
        super().sleep(seconds)


# The only API key that the gateway of `serving` accepts.
KEY = "mc_test"
# The keys of unsubscribe links.
SIGNING_KEYS = json.dumps({"current": "1", "1": "a key of at least thirty-two bytes"})
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def build(
    monkeypatch: pytest.MonkeyPatch, *, send_id: str = "3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f39", sent: int = 2
) -> Chain:
    """Build the functions in memory. The send and user 42 belong to club 1. The send has ended if `sent` is 3."""
    send = SendTotals(
        send_id=send_id,
        club_id=1,
        type="news",
        requested_at=NOON,
        chunk_count=1,
        chunks=1,
        channels={"push": ChannelTotals(3, 0, 2, {"sent": {"": sent}})},
        watermark=NOON,
    )
    counts = [
        StoredCount(
            granularity=grain, bucket=NOON, club_id=1, type="news", channel="push", measure="sent", count_total=2
        )
        for grain in Grain
    ]
    row = LogRow(LogKey(NOON, send_id, "push"), 1, "news", "sent", "")
    store = InMemoryMetricsStore(counts, sends={send_id: send}, watermark=NOON, recipients=[(42, row)], **results_of(1))
    clock = SleepingClock(int(NOON.timestamp() * 1000))
    audit_log = InMemoryAuditLog()
    audit_log.record(
        audit_entry(
            Action.SEND_REQUESTED, club_id=1, at_ms=clock.now_ms(), principal="7d793037a0760186", subject=send_id
        )
    )
    register, key = InMemorySends(clock), SendKey(1, send_id)
    # The send can be moved and resumed.
    later_ms = clock.now_ms() + 86_400_000
    register.control(SendControl(send=key, paused_at_ms=clock.now_ms(), send_at_ms=later_ms))
    waiting = Waiting(clock, InMemoryRequestSlots())
    counted = metrics_handler.use_cases(store, clock, timedelta(), waiting)
    monkeypatch.setattr(metrics_handler, "bootstrap", lambda: counted)
    stores = (register, InMemoryDelayStore(), audit_log)
    cases = sends_api.use_cases(store, clock, timedelta(), waiting, *stores)
    monkeypatch.setattr(sends_api, "bootstrap", lambda: cases)
    operations_api.build(monkeypatch, clock=clock, audit_log=audit_log, lists=SendLists(store, register))
    chain = Chain()
    directory = InMemoryDirectory()
    directory.put(
        User(user_id=42, club_id=1, first_name="Ada", email="ada@club.example"),
        Template(1001, 1, "match_reminder", "push", "de", "{{ data.opponent }}", "{{ data.kick_off }}"),
    )
    monkeypatch.setattr(previews, "directory", lambda: directory)
    saved = operations_handler.audiences().store
    stored = InMemorySchedules()
    stored.put(replace(WEEKLY, club_id=1, send={**WEEKLY.send, "club_id": 1}), None)
    requests = use_cases(chain, InMemoryIdempotencyKeys(), directory=directory, saved=saved, schedules=stored)
    monkeypatch.setattr(send_handler, "bootstrap", lambda: requests)
    forecasts = dry_runs(chain.clock, directory)
    monkeypatch.setattr(previews, "dry_runs", lambda: forecasts)
    monkeypatch.setattr(previews, "saved_audiences", lambda: saved)
    preferences = change_preferences(chain, directory, InMemoryDocumentPublisher())
    monkeypatch.setattr(preferences_handler, "bootstrap", lambda: preferences)
    reading = read_users(clock, directory, audit_log, InMemoryRequestSlots())
    monkeypatch.setattr(preferences_handler, "reading", lambda: reading)
    rules = tenant_route(clock, directory)
    monkeypatch.setattr(preferences_handler, "tenant_preferences", lambda: rules)
    keys = SigningKeys(read=lambda: SIGNING_KEYS, clock=clock)
    links = UnsubscribeLinks(url="https://example.org", keys=keys, clock=clock)
    limiter = RateLimiter(usage=InMemoryKeyUsage(), clock=clock)
    for api in APIS:
        # People have limits by role.
        monkeypatch.setattr(api, "_limiter", lambda: limiter)
    pages = Unsubscribe(links=links, preferences=preferences, limiter=limiter)
    monkeypatch.setattr(preferences_handler, "unsubscribe", lambda: pages)
    events = events_use_cases(chain, clock, audit_log)
    monkeypatch.setattr(events_api, "bootstrap", lambda: events)
    counting = CountAudience(directory=directory, saved=saved)
    monkeypatch.setattr(audiences, "bootstrap", lambda: counting)
    return chain


def answer(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the proxy response of the function that has the route of the event."""
    api = next(
        api
        for api in APIS
        for method, path in api.routes
        if Route(method=method, path=path, function="").match(event["httpMethod"], event["path"]) is not None
    )
    # The keys that a route adds to log lines end with the request.
    with logs.about():
        return api.answer(event, lambda_context())


@dataclass(frozen=True)
class Invoked:
    payload: bytes
    function_error: str | None = None


@contextmanager
def serving(
    console: Path | None = None, contexts: Mapping[str, Mapping[str, str]] = MappingProxyType({})
) -> Iterator[str]:
    """Serve the routes of the functions through the local gateway, with the development issuer; yield its URL. `build`
    comes first.

    Args:
        console: The folder of the built console; None: neither it nor the documentation is served.
        contexts: Further API keys, each with the authorizer's context of its requests.
    """

    invocations: set[asyncio.Task[dict[str, Any]]] = set()

    async def invoke(_function: str, payload: bytes) -> Invoked:
        # A request that waits must not delay the others.
        invocation = asyncio.create_task(asyncio.to_thread(answer, json.loads(payload)))
        invocations.add(invocation)
        invocation.add_done_callback(invocations.discard)
        return Invoked(json.dumps(await invocation).encode())

    async def close() -> None:
        # The gateway's end would otherwise wait for long polls, whose clients are gone, for up to 20 s.
        for invocation in invocations:
            invocation.cancel()
        await gateway.close()

    sign_in = SignIn(address="", clock=SystemClock())

    def authorize(headers: Mapping[str, str]) -> Mapping[str, str] | None:
        if headers.get("x-api-key") == KEY:
            return EVERY_SCOPE | {"all_clubs": "true"}
        if (context := contexts.get(headers.get("x-api-key", ""))) is not None:
            return context
        token = bearer_token(headers.get("authorization"))
        try:
            return None if token is None else AccessTokens.of(sign_in.issuer, SystemClock()).context(token)
        except InvalidToken:
            return None

    routes = [Route(method=method, path=path, function="rest") for api in APIS for method, path in api.routes]
    gateway = Gateway(
        routes,
        invoke=invoke,
        ready=lambda: {"ready": True},
        status=dict,
        authorize=authorize,
        console=console,
        docs=None if console is None else DOCS,
        further=sign_in.routes(),
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(gateway.start(0), loop).result(30)
        sign_in.address = f"http://127.0.0.1:{gateway.port}"
        yield sign_in.address
    finally:
        asyncio.run_coroutine_threadsafe(close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
