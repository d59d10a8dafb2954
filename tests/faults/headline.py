"""A broadcast to 100,000 users while each process in turn is killed with -9 and restarted.

    python -m tests.faults.headline [--recipients 100000] [--slice 40]

Every user has one device. A thread polls the status of the send, whose terminal statuses must never exceed the
requested notifications. Prints the result and writes out/faults-headline.json; exit status 1 if a recipient is missed,
counted twice, or doubled beyond the bound.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from cli.client_log import clients_log_to
from functions.delivery.publish import UNRECORDED
from local.devstack.config import ROOT
from local.devstack.sns_process import Received
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Cell, Load, Result
from tests.support.fault_stack.stack import FaultStack
from tests.support.until import until

OUT = ROOT / "out" / "faults-headline.json"
CLIENT_LOG = ROOT / "out" / "faults-headline-clients.log"
RECIPIENTS = 100_000
DELIVERY_KILLS = 6
# The part of the expected messages after which each process is killed.
FUNCTIONS = ("preference_checker", "builder", "delivery")
SERVERS = ("opensearch", "registry", "connect", "spark", "postgres", "kafka", "lambda_host")
ASK_S = 0.25
TIMEOUT_S = 900.0


@dataclass
class Watch:
    """Polls the status of the send in its own thread."""

    url: str
    api_key: str
    asked: int = 0
    answered: int = 0
    wrong: list[str] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Watch":
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(timeout=10, trust_env=False, headers={"x-api-key": self.api_key}) as client:
            while not self._over.wait(ASK_S):
                self.asked += 1
                try:
                    answer = client.get(self.url)
                except httpx.HTTPError:
                    continue  # requests fail while the gateway is killed and restarted
                if answer.status_code == httpx.codes.OK:
                    self.answered += 1
                    self._check(answer.json())

    def _check(self, status: dict[str, Any]) -> None:
        requested, conservation, chunks = status["requested"], status["conservation"], status["chunks"]
        terminal, in_flight = conservation["terminal"], conservation["in_flight"]
        if terminal > requested:
            self.wrong.append(f"{terminal} ended of {requested} requested")
        if chunks["counted"] == chunks["expected"] and in_flight + terminal != requested:
            self.wrong.append(f"{in_flight} in flight and {terminal} ended of {requested} requested")
        if self.last and terminal < self.last["conservation"]["terminal"]:
            self.wrong.append(f"{terminal} ended, after {self.last['conservation']['terminal']}")
        self.last = status


def progress(text: str) -> None:
    """Print a line to standard error: standard output is for the result."""
    sys.stderr.write(f"{text}\n")


def fault(bench: Bench, kills: list[dict[str, Any]], recipients: int, delivery_kills: int) -> Callable[[], None]:
    """Kill processes throughout the broadcast; delivery is killed several times to average its duplicates."""

    def at(share: float) -> None:
        until(
            f"{share:.0%} of the messages",
            lambda: bench.stack.sns.counts().accepted >= share * recipients,
            TIMEOUT_S,
            every_s=0.02,
        )

    def run() -> None:
        functions = [name for name in FUNCTIONS if name != "delivery"]
        turns: list[str] = ["delivery"] * delivery_kills
        for place, name in enumerate((*functions, *SERVERS)):
            turns.insert(place * (delivery_kills + 1) // (len(functions) + len(SERVERS)) + place, name)
        for number, name in enumerate(turns):
            at(0.02 + 0.85 * number / len(turns))
            if name in SERVERS:
                bench.stack.stack.kill(name)
                bench.killed += name == "lambda_host"
            else:
                bench.kill(name)
            taken = bench.stack.sns.counts().accepted
            kills.append({"process": name, "at": taken, "time": time.time()})
            progress(f"killed {name}, {number + 1} of {len(turns)}, at {taken:,} of {recipients:,} messages")
            if name in SERVERS:
                bench.stack.stack.restart(name)

    return run


def doubled_a_kill(kills: Sequence[Mapping[str, Any]], received: Iterable[Received]) -> list[int]:
    """Count the duplicates of each kill of delivery: the last kill after a message's previous copy caused its second.

    The duplicate may be published after a later kill, because redelivery waits for the end of the first lease.
    """
    times = [kill["time"] for kill in kills if kill["process"] in ("delivery", "lambda_host")]
    doubled = [0] * len(times)
    last: dict[tuple[str, str], float] = {}
    for each in received:
        before = last.get((each.notification_id, each.endpoint))
        if before is not None:
            doubled[min(bisect_left(times, before), len(times) - 1)] += 1
        last[each.notification_id, each.endpoint] = each.time
    return doubled


def main() -> int:
    parser = argparse.ArgumentParser(description="A broadcast while every process is killed in turn.")
    parser.add_argument("--recipients", type=int, default=RECIPIENTS)
    parser.add_argument("--slice", type=int, default=UNRECORDED, help="recipients a slice (default: %(default)s)")
    parser.add_argument("--delivery-kills", type=int, default=DELIVERY_KILLS)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    clients_log_to(CLIENT_LOG)
    with tempfile.TemporaryDirectory(prefix="masscomm-faults-") as folder, FaultStack(Path(folder)) as stack:
        if arguments.slice != UNRECORDED:
            stack.reconfigure({"delivery": {"environment": {"DELIVERY_UNRECORDED": str(arguments.slice)}}})
        with Bench.on(stack, shared=0) as bench:
            _, document = run(bench, arguments.recipients, arguments.slice, arguments.delivery_kills)
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n")
    sys.stdout.write(json.dumps({name: value for name, value in document.items() if name != "kills"}, indent=2) + "\n")
    return 0 if document["ok"] else 1


def run(bench: Bench, recipients: int, slice_size: int, delivery_kills: int) -> tuple[Result, dict[str, Any]]:
    kills: list[dict[str, Any]] = []
    users = bench.population.grow_uniform(recipients)
    watches: list[Watch] = []
    took: list[float] = []

    def broadcast(bench: Bench, _: Callable[[], None]) -> None:
        began = time.monotonic()
        sent = bench.emit(users)
        config = bench.stack.config
        with Watch(f"{config.gateway_url}/v1/sends/{sent.send_id}", config.api_key) as watch:
            watches.append(watch)
            fault(bench, kills, recipients, delivery_kills)()
            bench.settle(TIMEOUT_S)
            took.append(time.monotonic() - began)
            until("the metrics say so", lambda: watch.last.get("complete") is True, 120)

    cell = Cell(name=f"{recipients:,} recipients while each process is killed", fault=broadcast, load=Load(users=0))
    result = bench.run(cell)
    result.bound = bench.killed * slice_size
    per_kill = doubled_a_kill(kills, bench.stack.sns.received())
    [watch] = watches
    document = result.as_json() | {
        "wrong": result.wrong,
        "slice_size": slice_size,
        "processes_killed": len(kills),
        "of_delivery": bench.killed,
        "duplicates_a_kill": {"mean": round(statistics.mean(per_kill), 1), "most": max(per_kill)} if per_kill else None,
        "seconds_to_the_end": round(took[0], 1) if took else None,
        "status": {"asked": watch.asked, "answered": watch.answered, "wrong": watch.wrong[:10]},
        "kills": kills,
    }
    document["ok"] = bool(result.ok and not watch.wrong)
    return result, document


if __name__ == "__main__":
    raise SystemExit(main())
