"""The new version's functions and job finish the work that an earlier version has stored.

The servers keep running, as in a deployment that replaces functions and the job.
"""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import sql

from examples.monolith.templates import TEMPLATES
from local.devstack.config import ROOT, StackConfig
from local.devstack.demo.directory import next_minute
from local.devstack.erase import erase_person
from local.devstack.recompute import run_recompute
from local.devstack.upgrade import upgrade
from local.emulators.sns_stand_in import Rule
from masscomm.domain.grains import Grain
from masscomm.domain.statuses import Reason, Status
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm_client import Client
from ops.provisioning.database import job_runs
from tests.support.fault_stack.bench import Bench, Sent
from tests.support.fault_stack.cell import Cell, Load, Send
from tests.support.fault_stack.population import CLUB, address
from tests.support.harness.webhook_receiver import receiving
from tests.support.servers.localstack_client import localstack_client
from tests.support.servers.opensearch_client import TestClient
from tests.support.until import until
from tests.upgrade.dumps import dumps
from tests.upgrade.earlier import FIRST_VERSION, EarlierStack, tree_of

PEOPLE = 600
# The delay of scheduled work in seconds: the earlier version must have stored the work and ended before it is due.
LATER_S = 60.0
TIMEOUT_S = 300.0


@pytest.fixture(scope="module")
def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, one_stack_at_a_time: None
) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("upgrade")
    # The monolith is as old as the earlier version, which refuses templates of digests.
    templates = tuple(each for each in TEMPLATES if "digest." not in each.title)
    with (
        pytest.MonkeyPatch.context() as patched,
        tree_of(request.config.getoption("--upgrade-from") or FIRST_VERSION, folder / "earlier") as earlier,
        EarlierStack(folder / "state", earlier) as stack,
    ):
        patched.setattr("examples.monolith.seed.TEMPLATES", templates)
        patched.setattr("examples.monolith.emit.SCHEMA_FILE", earlier / "schemas" / "SendRequested.avsc")
        with Bench.on(stack, shared=PEOPLE) as made:
            made.timeout_s = TIMEOUT_S
            yield made


def test_upgrade_amid_sends_keeps_all_guarantees(bench: Bench) -> None:
    """Counted and scheduled sends, held recipients and half a broadcast of the earlier version all end once. A webhook
    endpoint of the earlier version gets the event of an end, although nobody changes it.
    """
    config, ends = bench.stack.config, list[str]()
    with receiving() as receiver:
        with Client(config.gateway_url, key=config.api_key) as api:
            created = api.create_webhook(club_id=CLUB, url=receiver.url, event_types=["send.completed"])

        def fault(bench: Bench, _: Send) -> None:
            ends.append(_upgrade(bench).send_id)

        result = bench.run(Cell(name="upgrade", fault=fault, load=Load()))
        assert result.ok, result.describe()
        until("the end of a send arrives", lambda: receiver.types(ends[0]) == ["send.completed"], TIMEOUT_S)
        assert receiver.received[-1].is_signed(created["secret"])
    assert run_recompute(config) == 0


def test_erased_person_is_in_no_store_and_counts_stay(bench: Bench) -> None:
    """Both versions have stored data of the person, and an e-mail to several users is delayed."""
    erasure = _Erasure()
    result = bench.run(Cell(name="erasure", fault=erasure, load=Load()))
    assert result.ok, result.describe()
    assert erasure.secrets
    assert erasure.found == []
    assert run_recompute(bench.stack.config) == 0


class _Erasure:
    """Erases one person while an e-mail to this person and other users is delayed by its provider.

    Attributes:
        secrets: Values that no store may have after the erasure.
        found: (store, secret) of the values that a store still has.
    """

    def __init__(self) -> None:
        self.secrets: list[str] = []
        self.found: list[tuple[str, str]] = []

    def __call__(self, bench: Bench, _: Send) -> None:
        users = bench.population.grow(20)
        person = next(user_id for user_id in users if user_id % 10 == 5)  # users with this digit have two devices
        self.secrets = [address(person), f"token-{person}-0", f"token-{person}-1", *bench.population.endpoints[person]]
        config = bench.stack.config
        bench.await_counted(_ended(bench, bench.emit(users)))
        with bench.stack.mail.down():
            mailed = bench.emit(users, channel="email")
            until("the e-mail waits for long", partial(_waits, config, mailed, 10.0), TIMEOUT_S, every_s=0.1)
            _delete(config, person)
            until("the directory has no such user", partial(_is_unknown, config, person), every_s=0.1)
            bench.stack.stack.kill("lambda_host")
            assert _waits(config, mailed, 0), "it was released before the person was erased"
            held = dumps(config)
            assert address(person) in held["DynamoDB"]
            before = _counts(config)
            assert erase_person(config, person, CLUB, [], even_if_known=False) == 0
            held = dumps(config)
            self.found = [(store, secret) for store, text in held.items() for secret in self.secrets if secret in text]
            assert _counts(config) == before
        bench.killed += 1
        mailed.fates[person] = frozenset({Reason.UNKNOWN_USER})
        mailed.calls.pop(person)
        bench.stack.stack.restart("lambda_host")


def _ended(bench: Bench, sent: Sent) -> Sent:
    until("it has ended", lambda: bench.ended(sent), TIMEOUT_S, every_s=0.2)
    return sent


def _waits(config: StackConfig, sent: Sent, seconds: float) -> bool:
    """Return whether the send's delivery records are delayed by more than this many seconds."""
    found = [item for item in _store(config).scan() if sent.send_id.encode() in item.value]
    return bool(found) and min(item.due_ms for item in found) > (time.time() + seconds) * 1000


def _store(config: StackConfig) -> DynamoDbDelayStore:
    return DynamoDbDelayStore(client=localstack_client(config.aws_url, "dynamodb"))


def _delete(config: StackConfig, user_id: int) -> None:
    with psycopg.connect(config.database_url("monolith")) as connection:
        for statement in (
            "delete from devices where user_id = %s",
            "delete from user_settings where user_id = %s",
            "delete from users where id = %s",
        ):
            connection.execute(statement, [user_id])


def _is_unknown(config: StackConfig, user_id: int) -> bool:
    """Return whether cdc_consumer and device_registrar have processed the deletion of the user."""
    client = TestClient(config.opensearch_url)
    row = client.get(index="users", id=str(user_id))["_source"]
    states = client.mget(index="device_state", body={"ids": [f"{user_id * 10 + place}" for place in (0, 1)]})["docs"]
    client.close()
    return bool(row.get("deleted")) and not any(state["_source"]["enabled"] for state in states)


def _counts(config: StackConfig) -> list[Any]:
    # Rows of several lanes become one row meanwhile.
    columns = "bucket, club_id, type, channel, measure"
    counts = f"select {columns}, sum(count_total) from {{}} group by {columns} order by {columns}"  # noqa: S608
    tables = {grain.table: counts for grain in Grain}
    tables |= dict.fromkeys(("sends", "send_channels", "send_totals"), "select * from {} order by 1, 2, 3, 4")
    with psycopg.connect(config.database_url("metrics")) as connection:
        return [
            connection.execute(sql.SQL(query).format(sql.Identifier(table))).fetchall()
            for table, query in tables.items()
        ]


def _upgrade(bench: Bench) -> Sent:
    """Upgrade amid sends. Return one that is scheduled before, and ends afterwards."""
    bench.await_counted(_ended(bench, bench.emit(bench.shared[:200])))

    sleepers = [user_id for user_id in bench.population.grow(60) if user_id % 10 >= 6]
    due = next_minute(LATER_S)
    bench.population.sleep(sleepers, due)
    held = bench.emit(sleepers)
    mailed = bench.emit(bench.shared[:50], channel="email", send_at=round(due.timestamp() * 1000))
    scheduled = bench.emit(bench.shared[50:150], send_at=round(due.timestamp() * 1000))
    until("recipients are held", partial(_all_are, bench, held, Status.HELD))
    for sent in (mailed, scheduled):
        until("a send is scheduled", partial(_all_are, bench, sent, Status.SCHEDULED))

    bench.stack.sns.answer(Rule(code="reset_before", after=250))
    broadcast = bench.emit(bench.shared, chunk=200)
    until(
        "some of a broadcast wait",
        lambda: bool(_recipients_with(bench, broadcast, Status.SENDING)),
        TIMEOUT_S,
        every_s=0.1,
    )
    assert not bench.ended(broadcast)
    assert time.time() < due.timestamp(), "it took so long that what was put off is due: nothing was tried"
    bench.kill("delivery")

    config = bench.stack.config
    bench.stack.stack.kill("spark")
    until("the sessions of the metrics job end", lambda: not job_runs(config.database_url("metrics")), every_s=0.1)
    assert upgrade(config, check=False) == 0
    assert upgrade(config, check=True) == 0
    bench.stack.use(ROOT)
    bench.stack.sns.clear()
    until("what was put off is due", lambda: time.time() >= due.timestamp(), 2 * LATER_S, every_s=0.5)
    return scheduled


def _all_are(bench: Bench, sent: Sent, status: Status) -> bool:
    return _recipients_with(bench, sent, status) == set(sent.fates)


def _recipients_with(bench: Bench, sent: Sent, status: Status) -> set[int]:
    return {
        user_id
        for record in bench.outcomes.of(sent.send_id)
        for user_id, place in zip(record["user_ids"], record["result_index"], strict=True)
        if record["results"][place]["status"] == status
    }
