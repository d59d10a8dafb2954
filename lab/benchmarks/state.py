"""Measure the directory's state in memory beside OpenSearch: `python -m lab.benchmarks.state [--users 50000]`. --write
stores the ratios of processor times in lab/capacity/state_times.json, from which docs/internals/capacity.md is
calculated.

The benchmark needs `make setup`; it starts and stops its own broker, registry and OpenSearch. Users with settings and
two devices are produced to the topics of a snapshot, as Debezium does. Measured are

- starts: a new task that begins with the snapshot and reads the changes after it, and one that reads all topics;
  a restart with the own store. `--only starts` measures these alone: `--users 1000000 --only starts`
- feeding: changes a second from the filled topics into the store, with one feeder and with two, until the service
  has caught up; the feeders' processor time a change; bytes of the store a user
- look-ups: users, settings and changed preferences of 500 users, and their devices, through the adapters of both
  directories, in turns: wall time and the processor time of the servers
- audiences: a count of the users that match conditions about their rows and settings, and by channel of those that it
  reaches, among all users in one club; and look-ups while directory_state counts without a pause
- freshness: from a change's production until a look-up sees it, while changes are produced at each rate
"""

import argparse
import json
import platform
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import boto3
import psutil
from moto import mock_aws
from rich.console import Console
from rich.table import Table

from directory_state.snapshots import Snapshots
from directory_state.store import Store
from lab.benchmarks.processor_time import of_process
from lab.capacity.directories import FILE
from local.devstack.config import GENERATION, StackConfig
from local.devstack.provision import create_indices
from local.devstack.stack import Stack
from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.change_events import ChangeDecoder, rows_of
from masscomm.cdc.progress import InMemoryCdcProgress
from masscomm.clock import SystemClock
from masscomm.directory.bulk_writes import connect, write
from masscomm.directory.changed_documents import document_of
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.directory.port import Directory
from masscomm.domain.audiences import read_audience
from masscomm.domain.channels import CHANNELS
from masscomm.errors import Retry
from masscomm.kafka.event import KafkaRecord
from tests.support.inputs.debezium_records import heartbeat, notification, row
from tests.support.servers.directory_state_process import Changelogs, StateProcess, free_port
from tests.support.servers.moto import served_by_moto
from tests.support.until import until

BATCH = 500
ROUNDS, LOOK_UPS = 7, 40
# The rounds of counts, and the least duration of one.
COUNTS, COUNTED_S = 3, 0.5
CLUB = 1
RATES = (100, 1_000, 5_000)
FRESH_S = 8.0
# The database's time of the snapshot, in seconds since the epoch.
AT_S = 1_700_000_000
# The changes after a snapshot as a share of the users, and the feeders of a task that starts.
TAIL, FEEDERS = 0.1, 2
_BUCKET = "snapshots"
_REGION: Final = "eu-central-1"
_STAMP = "2026-01-01T00:00:00.000000Z"

AUDIENCE, _ = read_audience(
    {"where": {"all": [{"field": "locale", "is": "de"}, {"field": "settings.channels.email", "is": True}]}}
)

console = Console()


def snapshot(users: int) -> Iterator[KafkaRecord]:
    """Yield the records of a snapshot: four rows a user."""
    yield notification("STARTED")
    for number in range(users):
        yield user_row("r", 10, number)
        yield row("user_settings", "r", 10, _settings(number), key="user_id")
        for device in (2 * number, 2 * number + 1):
            yield row("devices", "r", 10, _device(device, number))
    yield notification("COMPLETED")
    yield heartbeat(20, str(AT_S))


def user_row(op: str, lsn: int, number: int, name: str = "Ada") -> KafkaRecord:
    columns = {
        "id": number,
        "club_id": CLUB,
        "first_name": name,
        "last_name": "Lovelace",
        "email": f"user{number}@club.example",
        "phone": "+4915112345678",
        "locale": "de",
        "time_zone": "Europe/Berlin",
        "created_at": _STAMP,
        "updated_at": _STAMP,
    }
    return row("users", op, lsn, columns)


def _settings(number: int) -> dict[str, Any]:
    return {
        "user_id": number,
        "club_id": CLUB,
        "channels": json.dumps({"push": True, "email": number % 3 > 0}),
        "categories": json.dumps({"news": {"push": False}, "offers": True}),
        "quiet_hours": json.dumps({"start": "22:00", "end": "07:00"}),
        "preference_version": None,
        "updated_at": _STAMP,
    }


def _device(device: int, number: int) -> dict[str, Any]:
    return {
        "id": device,
        "user_id": number,
        "platform": "ios" if device % 2 else "android",
        "token": f"{device:0140d}",
        "active": True,
        "updated_at": _STAMP,
    }


class Bench:
    """Servers, and topics with a snapshot."""

    def __init__(self, config: StackConfig, folder: Path, users: int) -> None:
        self.config = config
        self.folder = folder
        self.users = users
        self.changelogs = Changelogs(config.kafka_bootstrap)
        self.changelogs.produce(snapshot(users))
        self.changelogs.acknowledge(20)
        self._lsn = 100

    def feed(self, feeders: int) -> StateProcess:
        """Feed an empty store until the service has caught up; print the rate. Return the service."""
        service = StateProcess(
            self.config, self.changelogs, self.folder / f"state{feeders}", port=free_port(), feeders=feeders
        )
        begun = time.monotonic()
        service.start()
        started = time.monotonic()
        directory = service.directory()
        until("the service has caught up", lambda: _answers(lambda: directory.users([1])), 600, every_s=0.05)
        elapsed = time.monotonic() - started
        changes = 4 * self.users
        spent = sum(of_process(process) for process in service.processes()[1 : 1 + feeders])
        size = Path(service.folder, "data.mdb").stat().st_blocks * 512
        console.print(
            f"{feeders} feeders: {changes / elapsed:,.0f} changes/s ({changes:,} in {elapsed:.1f} s, after "
            f"{started - begun:.1f} s of start), {spent / changes * 1e6:.0f} µs of the feeders' processors a change, "
            f"{size / self.users:,.0f} bytes a user"
        )
        return service

    def starts(self, service: StateProcess) -> None:
        """Print how long a new task takes until it answers: with its store, with a snapshot of it and the changes after
        it, and from all topics. S3 is moto in this process.
        """
        service.stop()
        with mock_aws(), served_by_moto("s3", _REGION) as s3:
            client = boto3.client("s3", _REGION)
            client.create_bucket(Bucket=_BUCKET, CreateBucketConfiguration={"LocationConstraint": _REGION})
            store = Store(service.folder, writes=False)
            assert Snapshots(client, _BUCKET).keep(store, self.folder / "copy")
            store.close()
            tail = int(self.users * TAIL)
            self._lsn += tail
            self.changelogs.produce(user_row("u", self._lsn - each, each) for each in range(tail))
            variables = {
                "DIRECTORY_STATE_SNAPSHOTS": _BUCKET,
                "AWS_ENDPOINT_URL_S3": s3,
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_DEFAULT_REGION": _REGION,
            }
            by_snapshot = self._start(self._task("snapshot", snapshots=variables))
        by_topics = self._start(self._task("topics"))
        console.print(
            f"a new task with {self.users:,} users: {by_snapshot:.1f} s by the snapshot and {tail:,} changes after it, "
            f"{by_topics:.1f} s by the topics, which is {by_topics / by_snapshot:.1f} times as long"
        )
        elapsed = self._start(service, keep=True)
        console.print(f"the former task with its store and {tail:,} changes: {elapsed:.1f} s")

    def _task(self, name: str, snapshots: Mapping[str, str] | None = None) -> StateProcess:
        folder = self.folder / name
        return StateProcess(
            self.config, self.changelogs, folder, port=free_port(), feeders=FEEDERS, snapshots=snapshots
        )

    def _start(self, service: StateProcess, *, keep: bool = False) -> float:
        """Start a task; return the seconds until it answers. Unless it is kept, it ends then."""
        begun = time.monotonic()
        service.start()
        directory = service.directory()
        until("the service answers", lambda: _answers(lambda: directory.users([1])), 3_600, every_s=0.02)
        elapsed = time.monotonic() - begun
        if not keep:
            service.stop()
        return elapsed

    def opensearch(self) -> OpenSearchDirectory:
        """Write the same documents to OpenSearch, and return the directory over it."""
        create_indices(self.config.opensearch_url, GENERATION)
        client = connect(self.config.opensearch_url)
        decoder = ChangeDecoder(GENERATION)
        documents = []
        for record in snapshot(self.users):
            documents += [document_of(each) for each in rows_of(decoder.decode(record))]
            if len(documents) >= 5_000:
                assert not any(write(client, documents))
                documents = []
        assert not any(write(client, documents))
        actions = [{"add": {"index": f"{table}-{GENERATION}", "alias": table}} for table in captured_tables()]
        client.indices.update_aliases(body={"actions": actions})
        client.indices.refresh()
        return OpenSearchDirectory(client, progress=lambda _: InMemoryCdcProgress(), clock=SystemClock())

    def compare(
        self,
        title: str,
        look_up: Callable[[Directory, list[int]], int],
        directories: Sequence[tuple[str, Directory, Sequence[psutil.Process]]],
    ) -> float:
        """Look up batches of 500 users in each directory, in turns; print the medians. Return the processor time of the
        last one's servers as a share of the first one's.

        Args:
            look_up: Looks up, and returns the number of users that were found.
        """
        chance = random.Random(1)
        found: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name, *_ in directories}
        for _ in range(ROUNDS):
            for name, directory, servers in directories:
                before, me = sum(map(of_process, servers)), time.process_time()
                times = []
                for _ in range(LOOK_UPS):
                    ids = chance.sample(range(self.users), BATCH)
                    at = time.perf_counter()
                    number = look_up(directory, ids)
                    times.append((time.perf_counter() - at) * 1e3)
                    assert number == BATCH
                spent = (sum(map(of_process, servers)) - before) / LOOK_UPS * 1e3
                mine = (time.process_time() - me) / LOOK_UPS * 1e3
                found[name].append((statistics.median(times), max(times), spent, mine))
        table = Table(title, "p50 ms", "longest ms", "servers' processor ms", "client's processor ms")
        spent_by: list[float] = []
        for name, rounds in found.items():
            medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
            table.add_row(name, *(f"{median:.2f}" for median in medians))
            spent_by.append(medians[2])
        console.print(table)
        return spent_by[-1] / spent_by[0]

    def count(self, directories: Sequence[tuple[str, Directory, Sequence[psutil.Process]]]) -> None:
        """Count an audience among all users in each directory, in turns; print the medians."""
        members = sum(number % 3 > 0 for number in range(1, self.users))
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name, *_ in directories}
        for _ in range(COUNTS):
            for name, directory, servers in directories:
                before, me, at = sum(map(of_process, servers)), time.process_time(), time.perf_counter()
                number, elapsed = 0, 0.0
                while elapsed < COUNTED_S:
                    counts = list(directory.count_members(CLUB, AUDIENCE, list(CHANNELS)))
                    # An audience has no user 0.
                    assert sum(count.examined for count in counts) == self.users - 1
                    assert sum(count.users for count in counts) == members
                    number, elapsed = number + 1, time.perf_counter() - at
                spent, mine = sum(map(of_process, servers)) - before, time.process_time() - me
                found[name].append((elapsed / number, spent / number, mine / number))
        title = f"count of an audience among {self.users:,} users"
        table = Table(title, "ms", "ns a user", "servers' processor ns a user", "caller's processor ns a user")
        for name, rounds in found.items():
            elapsed, *shares = (statistics.median(column) for column in zip(*rounds, strict=True))
            shares = [f"{each / self.users * 1e9:,.0f}" for each in (elapsed, *shares)]
            table.add_row(name, f"{elapsed * 1e3:,.0f}", *shares)
        console.print(table)

    def look_up_beside_counts(self, service: StateProcess) -> None:
        """Print how long look-ups of 500 users take without counts, and while audiences are counted."""
        chance, ended = random.Random(3), threading.Event()
        directory = service.directory()

        def look_ups(title: str) -> None:
            times = []
            for _ in range(ROUNDS * LOOK_UPS):
                ids = chance.sample(range(self.users), BATCH)
                at = time.perf_counter()
                assert _users(directory, ids) == BATCH
                times.append((time.perf_counter() - at) * 1e3)
            console.print(f"look-ups {title}: p50 {statistics.median(times):.1f} ms, p99 {_p99(times):.1f} ms")

        def count() -> None:
            counting = service.directory()
            while not ended.is_set():
                assert list(counting.count_members(CLUB, AUDIENCE, list(CHANNELS)))

        look_ups("without counts")
        thread = threading.Thread(target=count)
        thread.start()
        try:
            look_ups("while audiences are counted")
        finally:
            ended.set()
            thread.join()

    def freshness(self, directory: Directory, rate: int) -> None:
        """Produce changes at a rate; print how long single ones take until a look-up sees them."""
        ended, chance = threading.Event(), random.Random(2)

        def load() -> None:
            begun, produced = time.monotonic(), 0
            while not ended.is_set():
                due = int((time.monotonic() - begun) * rate) - produced
                if due > 0:
                    self._lsn += due
                    self.changelogs.produce(
                        user_row("u", self._lsn - each, chance.randrange(1, self.users)) for each in range(due)
                    )
                    produced += due
                ended.wait(0.02)

        thread = threading.Thread(target=load)
        thread.start()
        times: list[float] = []
        deadline = time.monotonic() + FRESH_S
        try:
            while time.monotonic() < deadline:
                name = f"n{len(times)}"
                at = time.perf_counter()
                self._lsn += 1_000_000
                self.changelogs.produce([user_row("u", self._lsn, 0, name)])
                until("the change is seen", partial(_is_named, directory, name), every_s=0.001)
                times.append((time.perf_counter() - at) * 1e3)
        finally:
            ended.set()
            thread.join()
        console.print(
            f"fresh at {rate:,} changes/s: p50 {statistics.median(times):.0f} ms, "
            f"p99 {_p99(times):.0f} ms ({len(times)} changes)"
        )


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * 0.99))]


def _users(directory: Directory, ids: list[int]) -> int:
    users, settings = directory.users_and_settings(ids)
    return len(users.keys() & settings.keys())


def _devices(directory: Directory, ids: list[int]) -> int:
    return sum(len(devices) == 2 for devices in directory.devices(ids).values())


def _is_named(directory: Directory, name: str) -> bool:
    return directory.users([0])[0].first_name == name


def _answers(look_up: Callable[[], object]) -> bool:
    try:
        look_up()
    except Retry:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=50_000)
    parser.add_argument("--only", choices=("starts",), help="measure nothing else; without OpenSearch")
    parser.add_argument("--write", action="store_true", help=f"store the ratios in {FILE.name}")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = StackConfig.on_free_ports(folder / "stack")
        services = ["kafka", "registry", *(["opensearch"] if arguments.only is None else [])]
        running = stack.enter_context(Stack(config, services=services, discard=True))
        bench = Bench(config, folder, arguments.users)
        if arguments.only is None:
            one = bench.feed(1)
            stack.callback(one.stop)
            one.stop()
        two = bench.feed(FEEDERS)
        stack.callback(two.stop)
        bench.starts(two)
        if arguments.only is not None:
            return
        opensearch = bench.opensearch()
        both: list[tuple[str, Directory, Sequence[psutil.Process]]] = [
            ("OpenSearch", opensearch, [psutil.Process(running.pid("opensearch"))]),
            ("directory_state", two.directory(), two.processes()[-1:]),
        ]
        ratios = {
            "documents": bench.compare("500 users with settings", _users, both),
            "devices": bench.compare("devices of 500 users", _devices, both),
        }
        counting = two.directory()
        until("audiences are counted", lambda: _answers(lambda: list(counting.count_members(CLUB, AUDIENCE, []))), 600)
        (*_, server), counts = two.processes(), two.audience_process()
        bench.count([both[0], ("directory_state", counting, [server, counts])])
        bench.look_up_beside_counts(two)
        if arguments.write:
            origin = {
                "command": f"python -m lab.benchmarks.state --users {arguments.users} --write",
                "measured_at": datetime.now(UTC).date().isoformat(),
                "machine": f"{psutil.cpu_count()} shared cores ({platform.machine()}), medians of {ROUNDS}",
            }
            FILE.write_text(json.dumps({**origin, **{k: round(v, 4) for k, v in ratios.items()}}, indent=2) + "\n")
        for rate in RATES:
            bench.freshness(two.directory(), rate)


if __name__ == "__main__":
    main()
