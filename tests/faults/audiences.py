"""Faults during the expansion of an audience in many shares."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx

from masscomm.domain.delays import SCHEDULE
from masscomm.kafka import topics
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from tests.faults.moments import dynamodb
from tests.support.fault_stack.bench import Bench, sources
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.population import CATEGORIES, OTHER_CLUB
from tests.support.fault_stack.proxy import Hold, HoldAnswer, Request, produce_to
from tests.support.fault_stack.proxy.faults import Fault
from tests.support.servers import dynamodb_table
from tests.support.until import until

type Moment = Callable[[], AbstractContextManager[Fault]]

AHEAD_MS = 8_000
USERS, CHUNK_SIZE, CHUNKS_A_SHARE = 200, 5, 3


def expander_killed(bench: Bench, _: Send) -> None:
    """Kill audience_expander around the writes of an audience that is expanded at once, of a scheduled one, and of an
    occurrence of a schedule.
    """
    bench.population.grow(USERS, OTHER_CLUB)
    users = bench.population.world.members(OTHER_CLUB)
    _killed_between_shares(bench, users)
    _killed_around_the_wait(bench, users)
    _killed_around_an_occurrence(bench, users)


def _killed_between_shares(bench: Bench, users: Sequence[int]) -> None:
    """Kill audience_expander before and after each write with which an audience progresses.

    These are a recorded chunk, the end, the record that hands the rest on, the recorded progress, and a flush of
    chunks. After the last one the progress is recorded, and the offset of the present record is not committed.
    """
    kafka, store = bench.stack.kafka, bench.stack.dynamodb
    moments: list[Moment] = [
        lambda: store.fault(HoldAnswer(), when=_puts("chunk#"), after=4),
        lambda: kafka.fault(Hold(), when=produce_to(topics.AUDIENCE), after=2),
        lambda: kafka.fault(HoldAnswer(), when=produce_to(topics.AUDIENCE), after=1),
        lambda: store.fault(Hold(), when=_puts("progress"), after=1),
        lambda: store.fault(HoldAnswer(), when=_puts("progress"), after=1),
        lambda: store.fault(HoldAnswer(), when=_ends),
        lambda: kafka.fault(Hold(), when=produce_to(topics.SEND_API), after=2),
        lambda: kafka.fault(HoldAnswer(), when=produce_to(topics.SEND_API), after=1),
        lambda: store.fault(Hold(), when=_puts("progress"), after=1),
        lambda: store.fault(HoldAnswer(), when=_puts("progress"), after=1),
    ]
    settings = {
        "send_handler": {"environment": {"SEND_CHUNK_SIZE": str(CHUNK_SIZE)}},
        "audience_expander": {"environment": {"EXPANSION_SHARE_CHUNKS": str(CHUNKS_A_SHARE)}},
    }
    with bench.stack.configured(settings):
        chunks, requests = bench.records(topics.SEND_API), bench.records(topics.AUDIENCE)
        send_id = _sent_while_killed(bench, moments, lambda: _send_to_all(bench, {}))
        expected = -(-len(users) // CHUNK_SIZE)
        bench.expect_send(send_id, users, club_id=OTHER_CLUB)
        bench.settle()
        until("the audience is not handed on again", lambda: bench.at_rest(sources("audience_expander")), every_s=0.1)
        produced = bench.records(topics.SEND_API) - chunks
        assert expected <= produced <= expected + len(moments) * CHUNKS_A_SHARE
        shares = 2 * expected // CHUNKS_A_SHARE
        assert shares <= bench.records(topics.AUDIENCE) - requests <= shares + len(moments) + 2


def _killed_around_the_wait(bench: Bench, users: Sequence[int]) -> None:
    """Kill audience_expander before and after it delays a scheduled send, and around writes of its expansion."""
    kafka, store = bench.stack.kafka, bench.stack.dynamodb
    moments: list[Moment] = [
        lambda: store.fault(Hold(), when=_delays),
        lambda: store.fault(HoldAnswer(), when=_delays),
        lambda: store.fault(HoldAnswer(), when=_puts("chunk#"), after=4),
        lambda: store.fault(Hold(), when=_ends),
        lambda: kafka.fault(HoldAnswer(), when=produce_to(topics.SEND_API), after=1),
    ]
    with bench.stack.configured({"send_handler": {"environment": {"SEND_CHUNK_SIZE": str(CHUNK_SIZE)}}}):
        due = datetime.now(UTC) + timedelta(milliseconds=AHEAD_MS)
        send_id = _sent_while_killed(bench, moments, lambda: _send_to_all(bench, {"send_at": due.isoformat()}))
        bench.expect_send(send_id, users, club_id=OTHER_CLUB)
        bench.settle()
        until("the audience is not expanded again", lambda: bench.at_rest(sources("audience_expander")), every_s=0.1)


def _killed_around_an_occurrence(bench: Bench, users: Sequence[int]) -> None:
    """Kill audience_expander before and after each write of an occurrence of a schedule: its record, its send, its end,
    the record of the next one, and the schedule.
    """
    kafka, store = bench.stack.kafka, bench.stack.dynamodb
    records, advances = dynamodb("categories", "PutItem"), dynamodb("categories", "UpdateItem")
    moments: list[Moment] = [
        lambda: store.fault(Hold(), when=lambda request: records(request) and b"recorded_at_ms" in request.body),
        lambda: store.fault(HoldAnswer(), when=lambda request: records(request) and b"recorded_at_ms" in request.body),
        lambda: kafka.fault(HoldAnswer(), when=produce_to(topics.AUDIENCE)),
        lambda: store.fault(HoldAnswer(), when=lambda request: advances(request) and b"content" in request.body),
        lambda: store.fault(HoldAnswer(), when=_delays),
        lambda: store.fault(HoldAnswer(), when=lambda request: advances(request) and b"next_at_ms" in request.body),
    ]
    delayed = DynamoDbDelayStore(client=dynamodb_table.dynamodb(bench.stack.config))
    send_id = _sent_while_killed(bench, moments, lambda: _schedule_to_all(bench, delayed))
    bench.expect_send(send_id, users, club_id=OTHER_CLUB)
    until("the occurrence is not begun again", lambda: bench.at_rest(sources("audience_expander")), every_s=0.1)
    (following,) = [item for item in delayed.scan() if item.delay_reason == SCHEDULE]
    delayed.done(following)
    bench.settle()


def _schedule_to_all(bench: Bench, delayed: DynamoDbDelayStore) -> str:
    """Save a schedule for all users of a club, and let its first record be due. Return the id of its first send."""
    first = datetime.now(UTC) + timedelta(minutes=5)
    body = {
        "rule": "FREQ=DAILY",
        "time_zone": "UTC",
        "starts_at_local": f"{first:%Y-%m-%dT%H:%M}",
        "send": {
            "type": CATEGORIES["push"],
            "club_id": OTHER_CLUB,
            "audience": {"all_users": True},
            "channels": ["push"],
        },
    }
    response = httpx.put(
        f"{bench.stack.config.gateway_url}/v1/schedules/faults",
        params={"club_id": OTHER_CLUB},
        json=body,
        headers={"x-api-key": bench.stack.config.api_key},
        timeout=30,
        trust_env=False,
    )
    assert response.status_code == httpx.codes.OK, response.text
    (item,) = [item for item in delayed.scan() if item.delay_reason == SCHEDULE]
    now_ms = time.time_ns() // 1_000_000
    delayed.put(replace(item, due_ms=now_ms, key=None), now_ms)
    delayed.done(item)
    return item.record_key or ""


def _sent_while_killed(bench: Bench, moments: Sequence[Moment], request: Callable[[], str]) -> str:
    """Request a send, and kill audience_expander at each of these moments. Return the id of the send."""
    with ExitStack() as faults:
        held = faults.enter_context(moments[0]())
        send_id = request()
        for following in [*moments[1:], None]:
            held.await_hits()
            begun = None if following is None else faults.enter_context(following())
            bench.kill("audience_expander")
            held.discard()
            held = begun or held
    return send_id


def _send_to_all(bench: Bench, fields: Mapping[str, str]) -> str:
    """Send to all users of a club. Return the id of the send."""
    response = httpx.post(
        f"{bench.stack.config.gateway_url}/v1/sends",
        json={
            "type": CATEGORIES["push"],
            "club_id": OTHER_CLUB,
            "audience": {"all_users": True},
            "channels": ["push"],
            **fields,
        },
        headers={"x-api-key": bench.stack.config.api_key},
        timeout=30,
        trust_env=False,
    )
    assert response.status_code == httpx.codes.ACCEPTED, response.text
    send_id: str = response.json()["send_id"]
    return send_id


def _delays(request: Request) -> bool:
    """Return whether a request puts a record of an audience into the delay store; it marks the minute before."""
    return dynamodb("waiting", "PutItem")(request) and b'"copy"' in request.body


def _ends(request: Request) -> bool:
    """Return whether a request stores the end of an expansion, which is announced in the same transaction."""
    return dynamodb("sends", "TransactWriteItems")(request) and b'"expansion"' in request.body


def _puts(part: str) -> Callable[[Request], bool]:
    """Return a condition for writes of items of an expansion, by the beginning of their sort key."""
    is_put, name = dynamodb("sends", "PutItem"), f'"{part}'.encode()
    return lambda request: is_put(request) and name in request.body
