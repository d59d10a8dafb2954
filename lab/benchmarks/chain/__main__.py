"""Measure the whole chain on the local servers, from the producer of a send to the provider's socket.

    python -m lab.benchmarks.chain                                       # everything, into out/chain.json and .html
    python -m lab.benchmarks.chain --only small_sends --sends 500        # one scenario, in minutes
    python -m lab.benchmarks.chain --only broadcast --sizes 1000000      # one broadcast to a million
    python -m lab.benchmarks.chain --flames 10000                       # flame graphs only (by py-spy), in out/flames

Scenarios:
    broadcast     one send of each of --sizes recipients; the small sizes several times in turn
    small_sends   --sends sends of one recipient over --tenants tenants, by Kafka
    rest          --rest-sends sends of one recipient by REST, on eight connections
    idle          one push at a time in the critical and in the small lane
    email         one send of --emails e-mails
    latency       one send of --slow-recipients, with each of --latencies as the provider's latency
    naive         --naive-recipients through the naive chain (lab/benchmarks/naive)
    hops          --hop-messages through three bare Kafka hops
    counts        requests to DynamoDB by operation, through a proxy that counts them

Functions, servers and emulation share the processors of this machine. Emulation is everything that AWS would run or
that only the measurement needs: the Lambda host with its pollers and gateway, the provider stand-in, the emitter of
sends. Processor times are read from /proc for each process, and include the servers' work at rest, which is also
measured separately. JVMs run with the options of the local stack (local/devstack/service.py), which disable the second
compiler; MASSCOMM_JVM_OPTIONS adds options.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lab.benchmarks.chain import flames, loads, scenarios, usage
from lab.benchmarks.chain.measure import Measured, at_rest, measure
from lab.benchmarks.chain.page import page
from lab.benchmarks.running_chain import RunningChain, running_chain
from local.devstack.config import ROOT

OUT = ROOT / "out" / "chain.json"
FLAMES = ROOT / "out" / "flames"
CHAIN = ("preference_checker", "builder", "delivery")
_WARM_UP_RECIPIENTS, _WARM_UP_SENDS = 500, 200
_REST_S = 5.0


def prepare(chain: RunningChain, chosen: argparse.Namespace) -> None:
    """Index all users once, and run each function a few times."""
    largest = max(
        _WARM_UP_RECIPIENTS,
        *chosen.sizes,
        chosen.emails,
        chosen.slow_recipients,
        chosen.naive_recipients,
        chosen.flames or 0,
    )
    chain.people(loads.BROADCASTER, range(1, largest + 1))
    last = loads.FIRST_USER_OF_TENANTS + max(_WARM_UP_SENDS, chosen.sends, chosen.rest_sends)
    for index in range(chosen.tenants):
        users = range(loads.FIRST_USER_OF_TENANTS + index, last, chosen.tenants)
        chain.people(loads.FIRST_TENANT + index, users)
    warm_up(chain, chosen)


def warm_up(chain: RunningChain, chosen: argparse.Namespace) -> None:
    """Run each function a few times."""
    measure(chain, loads.broadcast(_WARM_UP_RECIPIENTS))
    measure(chain, loads.small_sends(_WARM_UP_SENDS, chosen.tenants))
    measure(chain, loads.in_turn(5, 1, critical=True))


def run(chosen: argparse.Namespace) -> tuple[dict[str, list[Measured]], dict[str, float]]:
    """Return the runs of each scenario, and the processor time at rest.

    Each round runs every scenario, so that other load on the machine affects all scenarios alike.
    """
    found: dict[str, list[Measured]] = {}
    with running_chain({"LOG_LEVEL": "INFO", "POWERTOOLS_LOG_LEVEL": "INFO"}) as chain:
        _report("the stack runs")
        prepare(chain, chosen)
        if chosen.flames:
            write_flames(chain, chosen)
            return {}, {}
        at_rest(chain)
        rest = usage.rest(chain, _REST_S)
        for number in range(1, chosen.runs + 1):
            for scenario in scenarios.chosen_scenarios(chosen):
                measured = scenario.run(chain)
                found.setdefault(scenario.name, []).append(measured)
                each_us = measured.group_us.get("functions", 0.0)
                _report(f"run {number}: {scenario.name}: {measured.per_s:,.0f}/s, functions {each_us:,.0f} µs")
        if "counts" in chosen.only:
            found |= {name: [measured] for name, measured in scenarios.counts(chain, chosen).items()}
    return found, rest


def write_flames(chain: RunningChain, chosen: argparse.Namespace) -> None:
    """Sample a broadcast and write a flame graph of each function of the chain."""
    functions = usage.status(chain.stack)["functions"]
    FLAMES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        with flames.sampled({name: functions[name]["pids"][0] for name in CHAIN}, Path(folder)):
            measured = measure(chain, loads.broadcast(chosen.flames))
        for name in CHAIN:
            each_us = measured.processor_us[name]
            title = f"{name}: broadcast of {chosen.flames:,}, {each_us:,.0f} µs of processor time a recipient"
            graph = flames.flame_graph(flames.read_samples(Path(folder) / f"{name}.txt"), title)
            (FLAMES / f"{name}.svg").write_text(graph)
            _report(title)


def summary(runs: Sequence[Measured]) -> dict[str, Any]:
    """Return median, minimum and maximum of each number."""
    documents = [each.as_json() for each in runs]
    return {name: _spread([document[name] for document in documents]) for name in documents[0]}


def _spread(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Mapping):
        names = sorted({name for value in values for name in value})
        return {name: _spread([value.get(name, 0.0) for value in values]) for name in names}
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    made = Table("scenario", "/s (min to max)", "p50 ms", "p99 ms", "functions", "servers", "emulation, µs", "missed")
    for name, one in results.items():
        rate, groups = one["per_s"], one["group_us"]
        made.add_row(
            name,
            f"{rate['median']:,.0f} ({rate['min']:,.0f} to {rate['max']:,.0f})",
            *(f"{one[key]['median']:,.0f}" for key in ("p50_ms", "p99_ms")),
            *(f"{groups[group]['median']:,.0f}" for group in ("functions", "servers", "emulation")),
            f"{one['missed']['max']}",
        )
    return made


def _report(text: str) -> None:
    Console(stderr=True).print(f"[dim]{text}[/]", highlight=False)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.chain", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add("--only", nargs="+", choices=scenarios.NAMES, default=scenarios.NAMES, help="scenarios; default: all")
    add("--runs", type=int, default=3, help="of each scenario (default: %(default)s)")
    add("--sizes", type=int, nargs="+", default=[1, 100, 10_000, 100_000], help="of broadcasts")
    add("--sends", type=int, default=5_000, help="of one recipient, by Kafka (default: %(default)s)")
    add("--rest-sends", type=int, default=5_000, help="of one recipient, by REST (default: %(default)s)")
    add("--tenants", type=int, default=20, help="of the sends of one recipient (default: %(default)s)")
    add("--pushes", type=int, default=40, help="at idle, in each lane (default: %(default)s)")
    add("--emails", type=int, default=10_000, help="(default: %(default)s)")
    add("--latencies", type=float, nargs="+", default=[0, 25, 100], metavar="MS", help="of the provider")
    add("--slow-recipients", type=int, default=20_000, help="of these broadcasts (default: %(default)s)")
    add("--naive-recipients", type=int, default=2_000, help="(default: %(default)s)")
    add("--hop-messages", type=int, default=100_000, help="(default: %(default)s)")
    add("--flames", type=int, metavar="N", help="only flame graphs, of a broadcast of N recipients")
    add("--out", type=Path, default=OUT, help="the file for the results; the page is next to it (out/chain.json)")
    return made


def main() -> int:
    """Write the results. Returns 1 if a recipient was missed."""
    chosen = parser().parse_args()
    if chosen.flames:
        flames.sampler()
    found, rest = run(chosen)
    if not found:
        return 0
    results = {name: summary(runs) for name, runs in found.items()}
    document = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} shared cores ({platform.machine()}), Python {platform.python_version()}",
        "runs": chosen.runs,
        # The processor time without load in milliseconds per second.
        "at_rest_ms": {role: round(value * 1000, 1) for role, value in sorted(rest.items())},
        "scenarios": results,
    }
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(document, indent=2) + "\n")
    chosen.out.with_suffix(".html").write_text(page(document))
    Console(width=160).print(table(results))
    return 1 if any(run.missed for runs in found.values() for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
