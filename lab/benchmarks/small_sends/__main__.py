"""Measure the processor time of each function for a send of one recipient, and compare two checkouts:

    python -m lab.benchmarks.small_sends                            # this checkout
    python -m lab.benchmarks.small_sends --tree ../before           # and another one, in turns

Each handler runs in a process of its own, on real local servers (Kafka, registry, OpenSearch, DynamoDB) and the
provider stand-in. The figures are medians of the rounds: user and system time of the handler's process, in
microseconds a send. The checkouts run in turns and each has the batch sizes of its own functions.yaml, so that the
ratio is meaningful on a machine with other work. The other checkout runs with this one's packages.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab.benchmarks.running_chain import index_users, serve_directory, topic_ends
from lab.benchmarks.small_sends.cases import CASES, Case, tenant_of
from local.devstack.config import ROOT, StackConfig
from local.devstack.provision import provisioning
from local.devstack.service import function_environment
from local.devstack.services import all_services
from local.devstack.sns_process import SnsStandIn
from local.devstack.stack import Stack
from masscomm.kafka.avro import Codec, HttpSchemaRegistry

WORKER = Path(__file__).with_name("worker.py")
_SERVICES = ("kafka", "opensearch", "registry", "localstack")
_TASKS = ("topics", "schemas", "indices", "aws")
_FIRST_USER = 2 * 10**7


@dataclass(frozen=True, kw_only=True)
class Servers:
    """The running servers, and the environment variables with which functions use them."""

    config: StackConfig
    sns: SnsStandIn
    environment: Mapping[str, str]
    users: Sequence[int]

    @classmethod
    @contextmanager
    def start(cls, users: int) -> "Iterator[Servers]":
        """Start the servers for the duration of the block, with this number of users."""
        with ExitStack() as resources:
            folder = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="masscomm-bench-")))
            sns = resources.enter_context(SnsStandIn.start(any_endpoint=True))
            config = StackConfig.on_free_ports(folder)
            resources.enter_context(
                Stack(
                    config,
                    without=all_services(config).keys() - set(_SERVICES),
                    tasks=lambda of: [task for task in provisioning(of) if task.name in _TASKS],
                )
            )
            environment = {
                **function_environment(config),
                "AWS_ENDPOINT_URL_SNS": sns.url,
                "AWS_ENDPOINT_URL_SESV2": sns.url,
                "SMALL_SENDS_BURST": str(10**9),
            }
            chosen = range(_FIRST_USER, _FIRST_USER + users)
            serve_directory(config)
            index_users(config, {user_id: tenant_of(user_id) for user_id in chosen})
            yield cls(config=config, sns=sns, environment=environment, users=chosen)

    def produced(self, topic: str) -> int:
        """Return the number of records that were produced to a topic."""
        return topic_ends(self.config.kafka_bootstrap, lambda name: name == topic)[topic]


class Worker:
    """A process that runs one handler of one checkout."""

    def __init__(self, tree: Path, case: Case, servers: Servers) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER), case.module],
            cwd=tree,
            env={**os.environ, **servers.environment, "PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, events: Path) -> float:
        """Process the events in a file; return the processor time. Raises SystemExit if a record was not processed."""
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("the worker has no pipes")
        self._process.stdin.write(f"{events}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"failed": "all"}')
        if answer["failed"]:
            raise SystemExit(f"{answer['failed']} records failed")
        return float(answer["seconds"])

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def measure(servers: Servers, case: Case, trees: Mapping[str, Path], rounds: int) -> dict[str, list[float]]:
    """Return the processor time in microseconds a send for each round, by checkout."""
    codec = Codec(HttpSchemaRegistry(servers.config.registry_url))
    found: dict[str, list[float]] = {name: [] for name in trees}
    with ExitStack() as resources:
        folder = Path(resources.enter_context(tempfile.TemporaryDirectory()))
        workers = {name: Worker(tree, case, servers) for name, tree in trees.items()}
        for worker in workers.values():
            resources.callback(worker.close)
        for number in range(rounds + 1):
            for name, worker in workers.items():
                file = folder / f"{name}.jsonl"
                events = case.events(trees[name], servers.users, codec)
                file.write_text("".join(f"{json.dumps(event)}\n" for event in events))
                before = servers.produced(case.output), servers.sns.counts().accepted
                seconds = worker.seconds(file)
                _check(case, servers, before)
                if number:  # The first round warms up.
                    found[name].append(seconds / len(servers.users) * 1e6)
    return found


def _check(case: Case, servers: Servers, before: tuple[int, int]) -> None:
    """Raise SystemExit unless there is one derived record, and one provider call, for each record."""
    produced, accepted = servers.produced(case.output) - before[0], servers.sns.counts().accepted - before[1]
    if produced != len(servers.users) or accepted != (len(servers.users) if case.publishes else 0):
        raise SystemExit(f"{case.name}: {produced} records and {accepted} provider calls, not {len(servers.users)}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.small_sends",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tree", type=Path, help="another checkout, to compare with")
    parser.add_argument("--sends", type=int, default=1_200, help="in a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="(default: %(default)s)")
    parser.add_argument("--only", help="a part of the names of the cases")
    chosen = parser.parse_args(arguments)
    trees = {"this checkout": ROOT}
    if chosen.tree is not None:
        trees = {"the other": chosen.tree.resolve(), **trees}
    table = Table("µs of processor time a send", *trees, "ratio")
    with Servers.start(chosen.sends) as servers:
        for case in CASES:
            if (chosen.only or "") not in case.name:
                continue
            found = measure(servers, case, trees, chosen.rounds)
            medians = [statistics.median(times) for times in found.values()]
            ranges = [f"{statistics.median(each):.0f} ({min(each):.0f} to {max(each):.0f})" for each in found.values()]
            table.add_row(case.name, *ranges, f"{medians[-1] / medians[0]:.2f}")
    console = Console(width=120)
    console.print(table)
    console.print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
