"""Measure the delay until a row is served: `python -m lab.benchmarks.metrics_freshness [--seconds 90] [--rate 1000]`.

The benchmark needs `make setup`. It starts and stops a broker, a registry, a database and the metrics job, which is a
separate process with its defaults and the devstack's (archive and log of recipients on). Outcome records of three
recipients are produced at an even rate. A record is served once a committed transaction has counted it: the benchmark
reads the offsets that the job commits with its counts every few milliseconds. Finally it compares the counts with the
number of records produced.

It prints the time from just before a record is produced until it is served, and asserts only the counts.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Producer

from lab.benchmarks.metrics_records import Load as Records
from lab.benchmarks.metrics_records import encoded, event, metrics_servers
from local.devstack.config import StackConfig
from local.devstack.provision import register_schemas
from masscomm.kafka.topics import chain_topics
from tests.support.servers.metrics_database import metrics_database
from tests.support.spark.metrics_job import launch

RECIPIENTS, SENDS = 3, 20
LOOK_EVERY_S = 0.02
END_WAIT_S = 60.0


@contextmanager
def running_job(stack: StackConfig, database: str, folder: Path) -> Iterator[Path]:
    """Start the job as a process; yield the path of its log once it is ready. Terminate the job afterwards."""
    log, ready = folder / "job.log", folder / "ready"
    process = launch(stack, database, folder, log, SPARK_READY_FILE=str(ready)).process
    try:
        while not ready.exists():
            if process.poll() is not None:
                sys.exit(f"the job ended with status {process.returncode}:\n{log.read_text()[-3000:]}")
            time.sleep(0.1)
        yield log
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


class Load:
    """Produces at an even rate, and stores the offset and the production time of each record."""

    def __init__(self, stack: StackConfig, schema_id: int) -> None:
        self._producer = Producer({"bootstrap.servers": stack.kafka_bootstrap, "linger.ms": 5})
        self._schema_id = schema_id
        self._lock = threading.Lock()
        # Maps a partition to (offset, production time) of its unserved records, in the order of offsets.
        self._waiting: dict[int, deque[tuple[int, float]]] = defaultdict(deque)
        self.produced = 0

    def run(self, rate: int, seconds: float) -> None:
        """Produce records at this rate, in ticks of 10 ms."""
        rng = random.Random(20261121)
        records = Records(name="freshness", events=0, recipients=RECIPIENTS, sends=SENDS, outcomes_only=True)
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            while self.produced < passed * rate:
                now = time.time()
                made = event(records, "outcome", rng, self.produced, int(now * 1000))
                value = encoded("outcome", self._schema_id, made)
                self._producer.produce("outcome", value, on_delivery=self._delivered(now))
                self.produced += 1
            self._producer.poll(0)
            time.sleep(0.01)
        assert self._producer.flush(30) == 0
        # An open producer would log connection errors when the broker stops, so it is closed.
        self._producer.close()

    def _delivered(self, at: float) -> Any:
        def report(error: Any, message: Any) -> None:
            assert error is None, error
            with self._lock:
                self._waiting[message.partition()].append((message.offset(), at))

        return report

    def served(self, offsets: dict[int, int]) -> list[float]:
        """Return the production times of the records below these offsets. Each record is returned once."""
        found = []
        with self._lock:
            for partition, end in offsets.items():
                waiting = self._waiting[partition]
                while waiting and waiting[0][0] < end:
                    found.append(waiting.popleft()[1])
        return found


def measure(stack: StackConfig, schema_id: int, database: str, rate: int, seconds: float) -> list[tuple[float, float]]:
    """Return (seconds since the load began, seconds until the record was served) of each record."""
    load = Load(stack, schema_id)
    began = time.time()
    thread = threading.Thread(target=load.run, args=(rate, seconds))
    thread.start()
    times: list[tuple[float, float]] = []
    with psycopg.connect(database, autocommit=True) as connection:
        deadline = time.monotonic() + seconds + END_WAIT_S
        while (thread.is_alive() or len(times) < load.produced) and time.monotonic() < deadline:
            rows = connection.execute("select partition, next_offset from stream_offsets where topic = 'outcome'")
            offsets: dict[int, int] = dict(rows.fetchall())
            now = time.time()
            times += [(at - began, now - at) for at in load.served(offsets)]
            time.sleep(LOOK_EVERY_S)
        thread.join()
        row = connection.execute("select sum(count_total) from counts_minute").fetchone()
    assert row is not None
    assert row[0] == load.produced * RECIPIENTS, f"{row[0]} notifications served, {load.produced * RECIPIENTS} produced"
    assert len(times) == load.produced
    return times


def percentiles(times: list[float]) -> dict[str, float]:
    """Return p50, p95, p99 and the maximum, in seconds."""
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return {name: round(value, 3) for name, value in (("p50", cuts[49]), ("p95", cuts[94]), ("p99", cuts[98]))} | {
        "max": round(max(times), 3)
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--rate", type=int, default=1_000, help="records a second")
    chosen = parser.parse_args()
    with metrics_servers() as (stack, folder):
        schema_id = register_schemas(stack.registry_url, chain_topics())["outcome-value"]
        with metrics_database(stack) as database, running_job(stack, database, folder) as log:
            times = measure(stack, schema_id, database, chosen.rate, chosen.seconds)
            batches = [
                json.loads(line.partition(" counted ")[2])
                for line in log.read_text().splitlines()
                if " counted {" in line
            ]
    steps = [{step: ms for step, ms in b.items() if step.endswith("_ms")} for b in batches if b["records"]]
    medians = {step: statistics.median(each.get(step, 0) for each in steps) for step in dict.fromkeys(chain(*steps))}
    print(f"{len(times)} records of {RECIPIENTS} recipients at {chosen.rate}/s, produced until served, in seconds:")
    print(f"  all                    {percentiles([s for _, s in times])}")
    half = chosen.seconds / 2
    print(f"  of the second half     {percentiles([s for at, s in times if at >= half])}")
    print(f"{len(steps)} batches, {statistics.median(sum(each.values()) for each in steps):.0f} ms each (median)")
    print(f"  its steps              {medians}")
    print(f"  the first              {steps[0]}")


if __name__ == "__main__":
    main()
