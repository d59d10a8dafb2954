"""Measure the cost of a recipient, for sends to a thousand up to a million: `python -m benchmarks.recipients`.

Runs the preference checker and the builder over adapters in memory, fed and drained chunk by chunk as the event source
mapping does, and prints for each size: time, directory round trips, writes of the decision log, records and bytes a
recipient, and the process's peak memory. The columns should be flat (invariant 8); the ratio to the smallest size is
printed with the time. Each size runs several times, each time in a new process; the median is printed.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from functions.builder.build_messages import BuildMessages
from functions.builder.templates import TemplateCache
from functions.preference_checker.check_preferences import CheckPreferences
from masscomm.chain.batch import BatchDriver, UseCase
from masscomm.clock import SystemClock
from masscomm.domain.records import SendRequested
from masscomm.domain.users import Device, DirectoryPosition, Template, User, UserSettings
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.producer import Headers, Report
from masscomm.stores.decision_log import InMemoryDecisionLog
from masscomm.stores.delayed_records import InMemoryDelayStore
from tests.support.harness.chain import entry

CHUNK_SIZE = 5_000
SIZES = (1_000, 10_000, 100_000, 1_000_000)


class EndlessDirectory:
    """Has every requested user; every tenth has opted out of push. Counts its round trips."""

    def __init__(self) -> None:
        self.calls = 0

    def users(self, user_ids: Sequence[int]) -> dict[int, User]:
        self.calls += 1
        return {
            user_id: User(user_id=user_id, club_id=1, first_name=f"Name{user_id}", email=f"{user_id}@example.com")
            for user_id in user_ids
        }

    def user_settings(self, user_ids: Sequence[int]) -> dict[int, UserSettings]:
        self.calls += 1
        return {user_id: UserSettings(user_id=user_id, channels={"push": user_id % 10 != 0}) for user_id in user_ids}

    def users_and_settings(self, user_ids: Sequence[int]) -> tuple[dict[int, User], dict[int, UserSettings]]:
        answer = self.users(user_ids), self.user_settings(user_ids)
        self.calls -= 1  # one look-up answers both
        return answer

    def devices(self, user_ids: Sequence[int]) -> dict[int, list[Device]]:
        return {user_id: [] for user_id in user_ids}

    def suppressed(self, club_id: int, addresses: Sequence[str], now_ms: int) -> set[str]:  # noqa: ARG002
        return set()

    def templates(self, keys: Sequence[tuple[int, str, str]]) -> dict[tuple[int, str, str], list[Template]]:
        self.calls += 1
        return {key: [_template(key)] for key in keys}

    def confirm(self, ts_ms: int) -> DirectoryPosition:
        return DirectoryPosition(lsn=1, ts_ms=ts_ms)

    def is_confirmed(self, ts_ms: int) -> bool:  # noqa: ARG002
        return True

    def position(self) -> DirectoryPosition | None:
        return DirectoryPosition(lsn=1, ts_ms=0)


def _template(key: tuple[int, str, str]) -> Template:
    return Template(
        template_id=1,
        club_id=None,
        type=key[1],
        channel=key[2],
        locale="en",
        title="For you, {{ user.first_name }}",
        body="We won {{ data.score }}.",
    )


class Drain:
    """A broker that counts its records and bytes, and keeps the values of the next step's topics only."""

    def __init__(self, *keep: str) -> None:
        self.kept: dict[str, list[bytes]] = {topic: [] for topic in keep}
        self.records = 0
        self.bytes = 0

    def produce(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, report: Report) -> None:  # noqa: ARG002
        self.records += 1
        self.bytes += len(value or b"")
        if topic in self.kept and value is not None:
            self.kept[topic].append(value)
        report(None)

    def flush(self, timeout_s: float) -> None:  # noqa: ARG002
        return

    def take(self, topic: str) -> list[bytes]:
        """Return and remove the kept values of a topic."""
        taken, self.kept[topic] = self.kept[topic], []
        return taken


class Minute:
    """Lambda's context, with a constant remaining time of one minute."""

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


def measure(recipients: int) -> dict[str, float]:
    """Run once in this process. Returns seconds, round trips, total records and bytes, peak memory in MB."""
    registry, directory, clock = InMemorySchemaRegistry(), EndlessDirectory(), SystemClock()
    log = InMemoryDecisionLog()
    for topic in topics.chain_topics():
        if topic.schema is not None:
            registry.register(topic.subject, own_schema(topic.schema))
    codec = Codec(registry)
    checker = CheckPreferences(directory=directory, clock=clock, delay_store=InMemoryDelayStore(), decision_log=log)
    builder = BuildMessages(
        directory=directory,
        templates=TemplateCache(directory, clock),
        clock=clock,
        decision_log=log,
    )
    # One tenant's: its queue is the first.
    to_build, to_deliver = Drain(topics.RECHECK, topics.BUILD), Drain()
    hand_on = _step("preference_checker", codec, to_build, checker, topics.SEND_API)
    check = _step("preference_checker", codec, to_build, checker, topics.RECHECK)
    build = _step("builder", codec, to_deliver, builder, topics.BUILD)
    begun = time.perf_counter()
    for index, start in enumerate(range(0, recipients, CHUNK_SIZE)):
        send = SendRequested(
            type="news",
            club_id=1,
            timestamp=clock.now_ms(),
            to_users=list(range(start + 1, min(start + CHUNK_SIZE, recipients) + 1)),
            send_id="8a6e0804-2bd0-4672-b79d-d97027f9071a",
            chunk_index=index,
            chunk_count=-(-recipients // CHUNK_SIZE),
            data={"score": "3:1"},
        )
        hand_on([codec.encode(topics.SEND_API, "SendRequested", send.to_avro())])
        check(to_build.take(topics.RECHECK))
        built = to_build.take(topics.BUILD)
        if not built:
            raise SystemExit("nobody was passed on")
        build(built)
    return {
        "seconds": time.perf_counter() - begun,
        "round_trips": directory.calls,
        "log_writes": log.calls,
        "records": to_build.records + to_deliver.records,
        "bytes": to_build.bytes + to_deliver.bytes,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _step(
    name: str, codec: Codec, producer: Drain, use_case: UseCase[Any], topic: str
) -> Callable[[list[bytes]], None]:
    driver = BatchDriver(function=name, codec=codec, producer=producer)

    def invoke(values: list[bytes]) -> None:
        now_ms = SystemClock().now_ms()
        entries = [entry(value, topic=topic, offset=at, timestamp=now_ms) for at, value in enumerate(values)]
        answer = driver.run({"records": {f"{topic}-0": entries}}, Minute(), use_case)
        if answer["batchItemFailures"]:
            raise SystemExit(f"{name} failed: {answer}")

    return invoke


def main() -> None:
    """Measure each size in processes of its own and print the medians."""
    arguments = argparse.ArgumentParser(description="What a recipient costs, from a thousand to a million of them.")
    arguments.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--one", type=int, help="measure one size here and print it as JSON")
    chosen = arguments.parse_args()
    if chosen.one is not None:
        print(json.dumps(measure(chosen.one)))
        return
    table = Table(
        "recipients",
        "µs each",
        "ratio",
        "round trips /1000",
        "log writes /1000",
        "records /1000",
        "bytes each",
        "peak MB",
    )
    smallest = 0.0
    for size in chosen.sizes:
        runs = [_in_a_process(size) for _ in range(chosen.runs)]
        middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        each = middle["seconds"] / size
        smallest = smallest or each
        table.add_row(
            f"{size:,}",
            f"{each * 1e6:.1f}",
            f"{each / smallest:.2f}",
            f"{middle['round_trips'] / size * 1000:.2f}",
            f"{middle['log_writes'] / size * 1000:.2f}",
            f"{middle['records'] / size * 1000:.2f}",
            f"{middle['bytes'] / size:.1f}",
            f"{middle['peak_mb']:.0f}",
        )
    Console().print(table)


def _in_a_process(size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.recipients", "--one", str(size)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
