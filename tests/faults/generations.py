"""A snapshot generation of the directory is replaced while sends are under way and functions and connectors are killed.

The steps are the runbook's (docs/deploying.md): topics and functions for both generations, indices, the connector, and,
once the aliases have moved, the functions without the old generation. `infra.provision` and a deployment take these
steps in AWS; the same functions take them in the local stack.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import httpx
import psycopg
from confluent_kafka.admin import AdminClient

from examples.monolith.rows import TABLES
from local.devstack.config import ROOT, connector_name
from local.devstack.provision import create_indices, create_topics, put_connector
from local.emulators.sns_stand_in.script import Rule
from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.debezium import debezium_config
from masscomm.directory.device_states import some_state, states_in
from masscomm.errors import Retry
from masscomm.kafka.topics import cdc_topics
from tests.faults.moments import path
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.population import FIRST_USER
from tests.support.fault_stack.proxy import Answer, Delay, Hold
from tests.support.fault_stack.proxy.faults import Request
from tests.support.fault_stack.proxy.tcp import CHUNK, TcpProxy
from tests.support.until import until

_FOUR = {"device_registrar": {"concurrency": 4}, "cdc_consumer": {"concurrency": 4}}
_TIMEOUT_S = 60
_RAISE = """
def states = [ctx._source];
if (ctx._source.others != null) states.addAll(ctx._source.others);
for (state in states) if (state.generation == params.generation) state.row_version += params.by;
"""


def replaced(bench: Bench, _: Send) -> None:
    """The first new generation fails; then the old one loses its slot, and the second new generation replaces it."""
    old = bench.stack.generation
    bench.population.remove_invalid_devices()
    broken, new = _next(old, 1), _next(old, 2)
    generations = Generations(bench)
    try:
        _breaks_off(bench, generations, old, broken)
        _takes_over(bench, generations, old, new)
    except BaseException:
        # Later cells need a complete directory that this tree's code has built, not a mutant's.
        bench.stack.sns.clear()
        bench.stack.code = ROOT
        generations.replace(_next(old, 3), ends=(old, broken, new))
        raise


def _breaks_off(bench: Bench, generations: "Generations", old: str, broken: str) -> None:
    """Connect is killed in the middle of a snapshot; meanwhile the old generation is updated and serves look-ups."""
    users = bench.population.grow(60)
    bench.stack.sns.answer(Rule(code="slow", delay_s=0.1))
    bench.emit(users)
    generations.prepare(broken, current=old)
    with generations.held_snapshot(broken) as killed:
        arrivals = bench.population.insert(20)
        for function in ("cdc_consumer", "device_registrar"):
            bench.kill(function)
        bench.population.opt_out(users[:20])
        generations.raise_positions(broken)
        bench.population.change_tokens(users[20:40])
        bench.population.await_directory(arrivals)
        bench.stack.sns.clear()
        bench.population.refresh()
        bench.emit([*users, *arrivals])
        bench.settle()
        generations.await_state(broken, "snapshot_id")
        bench.stack.stack.kill("connect")
        killed()
    bench.stack.stack.restart("connect")
    generations.await_state(broken, "rebuild_reason")
    assert generations.answering() == {old}
    generations.remove(broken)


def _takes_over(bench: Bench, generations: "Generations", old: str, new: str) -> None:
    """The old generation's slot is lost: only the new snapshot has the changes since then."""
    known = bench.population.grow(60)
    generations.drop_connector(old)
    generations.raise_positions(old)
    arrivals = bench.population.insert(20)
    bench.population.opt_out(known[:20], wait=False)
    bench.population.change_tokens(known[20:40])
    bench.emit(arrivals)
    generations.prepare(new, current=old)
    with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=path("/_aliases")):
        generations.capture(new)
        for function in ("cdc_consumer", "device_registrar"):
            bench.kill(function)
        generations.await_state(new, "complete")
        sent = bench.emit(arrivals)
        with bench.stack.opensearch.fault(Delay(0), when=path("/_mget")) as asked:
            asked.await_hits(5)
        assert not bench.ended(sent), "the answering generation cannot have these users"
    generations.await_answering(new)
    bench.emit([*known, *arrivals])
    bench.settle()
    generations.use(new)
    generations.remove(old)
    generations.assert_alone(new)
    later = bench.population.grow(20)
    bench.population.opt_out(later[:10])
    bench.population.refresh()
    bench.emit([*known, *arrivals, *later])
    bench.settle()
    bench.population.await_directory(())


def truncated(bench: Bench, _: Send) -> None:
    """A table is truncated, and most of its rows are inserted again in the same transaction. No event names the others.

    Neither directory answers until a new generation has the rows: the old one still has the deleted devices.
    """
    old = bench.stack.generation
    new = _next(old, 1)
    bench.population.remove_invalid_devices()
    users = bench.population.grow(60)
    generations = Generations(bench)
    try:
        bench.population.truncate_devices(lost_by=users[:20])
        until("no look-up is answered", generations.are_refused, every_s=0.1)
        failures = bench.failures()
        sent = bench.emit(users)
        until("the send is redelivered", lambda: bench.failures() > failures, every_s=0.1)
        assert not bench.ended(sent), "a directory with deleted rows has answered"
        generations.replace(new, ends=[old])
        bench.settle()
    except BaseException:
        generations.replace(_next(old, 2), ends=[old, new])
        raise


class Generations:
    """The operator's steps, and the state of the generations in OpenSearch."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._config = bench.stack.config
        self._proxy = _SqlProxy(bench.stack.loop, self._config.ports.postgres)

    def prepare(self, name: str, *, current: str) -> None:
        """Create topics and indices; configure the functions to read both generations."""
        create_topics(self._config.kafka_bootstrap, cdc_topics(name))
        self._bench.stack.reconfigure(_FOUR, generation=f"{current},{name}")
        create_indices(self._config.opensearch_url, name)

    def capture(self, name: str) -> None:
        ports = self._config.ports
        url = self._config.database_url("monolith").replace(f":{ports.postgres}/", f":{self._proxy.port}/")
        put_connector(self._config.connect_url, name, url)

    @contextmanager
    def held_snapshot(self, name: str) -> Iterator[Callable[[], None]]:
        """Start the snapshot and hold its read of a table until the block ends.

        Yields:
            A function that cuts the held read.
        """
        with self._proxy.fault(Hold(), when=_reads("notification_templates")) as held:
            self.capture(name)
            held.await_hits()
            yield held.discard

    def use(self, name: str) -> None:
        self._bench.stack.reconfigure({}, generation=name)
        self._bench.population.generation = name

    def replace(self, name: str, *, ends: Iterable[str]) -> None:
        """Create a generation that replaces all others, whatever their state."""
        create_topics(self._config.kafka_bootstrap, cdc_topics(name))
        self._bench.stack.reconfigure({}, generation=name)
        create_indices(self._config.opensearch_url, name)
        self.capture(name)
        self.await_answering(name)
        self._bench.population.generation = name
        for each in ends:
            self.remove(each)

    def raise_positions(self, name: str) -> None:
        """Raise the stored positions of a generation's devices, so that the positions of other generations are lower,
        as in a database that was moved or restored.
        """
        raised = {
            "query": some_state(("term", "generation", name)),
            "script": {"source": _RAISE, "params": {"generation": name, "by": 1 << 50}},
        }
        # The device registrar may change a document meanwhile; the others suffice.
        once = {"conflicts": "proceed", "refresh": "true"}
        with self._search() as client:

            def any_raised() -> bool:
                client.post("/device_state/_refresh").raise_for_status()
                answer = client.post("/device_state/_update_by_query", params=once, json=raised).raise_for_status()
                return bool(answer.json()["updated"])

            until(f"device states of {name}", any_raised, every_s=0.2)

    def drop_connector(self, name: str) -> None:
        """Remove the generation's connector, slot and publication, as far as they exist."""
        with httpx.Client(base_url=self._config.connect_url, timeout=_TIMEOUT_S, trust_env=False) as client:
            client.delete(f"/connectors/{connector_name(name)}")
        slot = debezium_config(name)["slot.name"]
        with psycopg.connect(self._config.database_url("monolith"), autocommit=True) as connection:

            def dropped() -> bool:
                query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
                try:
                    connection.execute(query, (slot,))
                except psycopg.errors.ObjectInUse:
                    return False
                return True

            until(f"the slot of {name} is free", dropped, every_s=0.2)
            connection.execute(f"DROP PUBLICATION IF EXISTS {slot}")

    def remove(self, name: str) -> None:
        self.drop_connector(name)
        with self._search() as client:
            indices = ",".join(f"{table}-{name}" for table in captured_tables())
            client.delete(f"/{indices}", params={"ignore_unavailable": "true"}).raise_for_status()
        with AdminClient({"bootstrap.servers": self._config.kafka_bootstrap}) as admin:
            known = admin.list_topics(timeout=10).topics
            existing = [topic.name for topic in cdc_topics(name) if topic.name in known]
            for future in (admin.delete_topics(existing, operation_timeout=10) if existing else {}).values():
                future.result(10)

    def answering(self) -> set[str]:
        """Return the generations to which the aliases point."""
        with self._search() as client:
            found = client.get(f"/_alias/{','.join(captured_tables())}").json()
        return {
            index.rpartition("-")[2]
            for index, entry in found.items()
            if isinstance(entry, dict) and entry.get("aliases")
        }

    def are_refused(self) -> bool:
        """Return whether neither OpenSearch nor the directory's state answers look-ups."""
        try:
            self._bench.state_directory().devices([FIRST_USER])
        except Retry:
            return not self.answering()
        return False

    def await_answering(self, name: str) -> None:
        until(f"look-ups see {name}", lambda: self.answering() == {name}, every_s=0.1)

    def await_state(self, name: str, field: str) -> None:
        with self._search() as client:

            def reached() -> bool:
                answer = client.get(f"/directory_state/_doc/generation-{name}")
                return answer.status_code == httpx.codes.OK and bool(answer.json()["_source"].get(field))

            until(f"{field} of {name}", reached, every_s=0.1)

    def assert_alone(self, name: str) -> None:
        """Check that only this generation has indices and that each device has a state in it."""
        with psycopg.connect(self._config.database_url("monolith")) as connection:
            devices = [str(number) for (number,) in connection.execute("SELECT id FROM devices WHERE token <> ''")]
        with self._search() as client:
            indices = client.get("/_cat/indices", params={"h": "index"}).text.split()
            documents = client.post("/device_state/_mget", json={"ids": devices}).json()["docs"]
        assert {index for index in indices if index.partition("-")[0] in TABLES} == {
            f"{table}-{name}" for table in TABLES
        }
        missing = [
            each["_id"]
            for each in documents
            if each["found"] and name not in {state.get("generation") for state in states_in(each["_source"])}
        ]
        assert not missing, f"devices without a state in {name}: {missing[:10]}"

    def _search(self) -> httpx.Client:
        return httpx.Client(base_url=self._config.opensearch_url, timeout=_TIMEOUT_S, trust_env=False)


class _SqlProxy(TcpProxy):
    """A proxy of Postgres that can hold a client's queries."""

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            fault = self._fault_for(Request(operation="", target="", body=data))
            if fault is not None:
                await fault.held()
            writer.write(data)
            await writer.drain()


def _reads(table: str) -> Callable[[Request], bool]:
    query = re.compile(rb'SELECT .* FROM "public"\."%b"' % table.encode(), re.DOTALL)
    return lambda request: query.search(request.body) is not None


def _next(name: str, steps: int) -> str:
    return f"g{int(name.removeprefix('g')) + steps}"
