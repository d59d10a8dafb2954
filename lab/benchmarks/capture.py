"""Measures the first capture: from the start of the connector until the directory serves the rows of the monolith.

    python -m lab.benchmarks.capture [--users 100000] [--runs 3] [--without-registrar]
    python -m lab.benchmarks.capture --settings max.batch.size=8192 --settings producer.linger.ms=0

The rows are in Postgres before the connector starts. They go through Kafka Connect with Debezium, the broker, the event
source mapping and cdc_consumer to OpenSearch; device_registrar registers the devices with the stand-in of SNS
concurrently. A capture ends when the generation is marked as complete and a search finds all rows.

With `--settings`, captures with the settings of the installation and captures with these settings take turns, each on a
stack of its own: compare figures of one command. Names that begin with `producer.` are properties of Kafka Connect's
worker, the others are the connector's.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from json import dumps, loads
from pathlib import Path

import psutil
import psycopg
import yaml
from rich.console import Console
from rich.table import Table

from examples.monolith import rows
from examples.monolith.seed import seed
from functions.catalogue import FILE
from lab.benchmarks.chain import usage
from lab.benchmarks.processor_time import of_process
from local.devstack.config import GENERATION, ROOT, StackConfig
from local.devstack.demo.directory import Directory
from local.devstack.provision import provisioning, put_connector
from local.devstack.service import Service, Task, local_client
from local.devstack.services import all_services
from local.devstack.sns_process import SnsStandIn
from local.devstack.stack import Stack

CDC_CONSUMER, DEVICE_REGISTRAR = "cdc_consumer", "device_registrar"
_UNUSED = ("spark", "example_monolith")
_TIMEOUT_S = 900.0
_POLL_S = 0.1
_WORKER = "producer."


@dataclass(frozen=True, kw_only=True)
class Case:
    """A way to capture the rows."""

    name: str
    # Settings of the connector, and of Kafka Connect's worker, in place of those of the installation.
    settings: Mapping[str, str]
    functions: Collection[str] = (CDC_CONSUMER, DEVICE_REGISTRAR)

    def services(self, config: StackConfig, sns: SnsStandIn) -> dict[str, Service]:
        """Return the services of the stack, with the functions and the worker of this case."""
        known = all_services(config)
        worker = "".join(f"{name}={value}\n" for name, value in self.settings.items() if name.startswith(_WORKER))
        connect = known["connect"]
        properties, logging = connect.files
        known["connect"] = replace(
            connect, files={properties: connect.files[properties] + worker, logging: connect.files[logging]}
        )
        host = known["lambda_host"]
        [(file, text)] = host.files.items()
        content = loads(text)
        functions = config.config_dir("lambda_host") / "functions.yaml"
        environment = {"AWS_ENDPOINT_URL_SNS": sns.url, "LOG_LEVEL": "ERROR", "POWERTOOLS_LOG_LEVEL": "ERROR"}
        content |= {
            "functions_file": str(functions),
            "task_root": str(ROOT),
            "environment": content["environment"] | environment,
        }
        known["lambda_host"] = replace(host, files={file: dumps(content), functions: self._catalogue()})
        return known

    def connector(self) -> dict[str, str]:
        """Return the settings of the connector in place of those of the installation."""
        return {name: value for name, value in self.settings.items() if not name.startswith(_WORKER)}

    def _catalogue(self) -> str:
        document = yaml.safe_load(FILE.read_text())
        kept = {name: entry for name, entry in document["functions"].items() if name in self.functions}
        return yaml.safe_dump(document | {"functions": kept})


@dataclass(frozen=True, kw_only=True)
class Capture:
    """The results of a capture."""

    rows: int
    # Seconds from the start of the connector until the directory was complete, and until all records were processed.
    complete_s: float
    at_rest_s: float
    # Processor time in seconds by role, until the directory was complete, and until all records were processed.
    complete_processor_s: Mapping[str, float]
    at_rest_processor_s: Mapping[str, float]

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.complete_s


def capture(case: Case, users: int) -> Capture:
    """Capture the rows of a seed's users on a new stack. Raises SystemExit if that takes longer than _TIMEOUT_S."""
    with (
        tempfile.TemporaryDirectory(prefix="masscomm-bench-") as folder,
        SnsStandIn.start(any_endpoint=True) as sns,
        _stack(case, StackConfig.on_free_ports(Path(folder)), sns) as stack,
        closing(Directory(stack.config.opensearch_url, GENERATION)) as directory,
    ):
        _create_applications(stack, sns)
        monolith = stack.config.database_url("monolith")
        with psycopg.connect(monolith) as connection:
            seed(connection, users)
            counts = {table: rows.count(connection, table) for table in rows.TABLES}
        _await("the stack is at rest", lambda: usage.at_rest(usage.status(stack)))
        before, began = _spent(stack), time.monotonic()
        put_connector(stack.config.connect_url, GENERATION, monolith, case.connector())
        _await("the directory is complete", directory.is_complete)
        complete_s, complete = time.monotonic() - began, _spent(stack)
        if missing := directory.progress(counts):
            raise SystemExit(f"the directory is complete without {missing.missing}")
        _await("all records are processed", lambda: usage.at_rest(usage.status(stack)))
        return Capture(
            rows=sum(counts.values()),
            complete_s=complete_s,
            at_rest_s=time.monotonic() - began,
            complete_processor_s=_since(complete, before),
            at_rest_processor_s=_since(_spent(stack), before),
        )


@contextmanager
def _stack(case: Case, config: StackConfig, sns: SnsStandIn) -> Iterator[Stack]:
    def tasks(config: StackConfig) -> list[Task]:
        return [task for task in provisioning(config) if task.name != "connector"]

    services = partial(case.services, sns=sns)
    with Stack(config, without=_UNUSED, catalogue=services, tasks=tasks, discard=True) as stack:
        yield stack


def _create_applications(stack: Stack, sns: SnsStandIn) -> None:
    for platform in ("GCM", "APNS"):
        name = stack.environment[f"PLATFORM_APPLICATION_ARN_{platform}"].rpartition("/")[2]
        local_client(sns.url, "sns").create_platform_application(Name=name, Platform=platform, Attributes={})


def _await(what: str, is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    deadline = time.monotonic() + _TIMEOUT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {_TIMEOUT_S:.0f} s")
        pause.wait(_POLL_S)


def _spent(stack: Stack) -> Counter[str]:
    """Return the processor time in seconds so far, by role."""
    found: Counter[str] = Counter()
    for role, each in usage.processes(stack):
        try:
            found[role] += of_process(each)  # type: ignore[assignment]  # Counter adds floats, too
        except psutil.NoSuchProcess:
            continue
    return found


def _since(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {role: value - before.get(role, 0) for role, value in after.items()}


def report(captures: Mapping[str, Sequence[Capture]]) -> Table:
    """Return the medians of the captures of each case. Processor times are in microseconds a row, until the directory
    was complete and until all records were processed.
    """
    table = Table("medians", *captures)

    def add(name: str, form: Callable[[Sequence[Capture]], str]) -> None:
        table.add_row(name, *map(form, captures.values()))

    add("rows", lambda some: f"{some[0].rows:,}")
    add("rows/s until complete", lambda some: f"{statistics.median(each.rows_per_s for each in some):,.0f}")
    add("seconds", lambda some: _pair([each.complete_s for each in some], [each.at_rest_s for each in some]))
    for role in sorted({role for each in chain(*captures.values()) for role in each.at_rest_processor_s}):
        add(f"µs, {role}", partial(_of_role, role))
    return table


def _of_role(role: str, captures: Sequence[Capture]) -> str:
    return _pair(
        [each.complete_processor_s.get(role, 0) / each.rows * 1e6 for each in captures],
        [each.at_rest_processor_s.get(role, 0) / each.rows * 1e6 for each in captures],
    )


def _pair(until_complete: Sequence[float], until_at_rest: Sequence[float]) -> str:
    return f"{statistics.median(until_complete):.1f} / {statistics.median(until_at_rest):.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.capture", description="The first capture of the monolith's tables."
    )
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=1, help="captures of each case (default: %(default)s)")
    parser.add_argument("--settings", action="append", default=[], metavar="NAME=VALUE", help="add a case with them")
    parser.add_argument("--without-registrar", action="store_true", help="add a case without device_registrar")
    chosen = parser.parse_args()
    cases = [Case(name="as installed", settings={})]
    if chosen.settings:
        settings = dict(each.split("=", 1) for each in chosen.settings)
        cases.append(Case(name=" ".join(chosen.settings), settings=settings))
    if chosen.without_registrar:
        cases.append(Case(name="without device_registrar", settings={}, functions=(CDC_CONSUMER,)))
    captures: dict[str, list[Capture]] = {each.name: [] for each in cases}
    for number in range(chosen.runs):
        for case in cases:
            made = capture(case, chosen.users)
            captures[case.name].append(made)
            line = (
                f"run {number + 1}, {case.name}: {made.rows_per_s:,.0f} rows/s, complete after {made.complete_s:.1f} s"
            )
            sys.stderr.write(f"{line}, at rest after {made.at_rest_s:.1f} s\n")
    Console().print(report(captures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
