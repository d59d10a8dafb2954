"""Measure the cost of smaller slices of the delivery ledger: messages a second at the provider, by slice size.

    python -m benchmarks.slice_size [--recipients 8000] [--runs 3] [--sizes 100 40]

The whole stack runs, with the fast SNS stand-in. Each run is one broadcast, and each round has each size, so that other
load on the machine affects all sizes equally. The first size is the baseline.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.stack import FaultStack


def rate(bench: Bench, users: range) -> float:
    """Return the messages a second, between the first and the last that the provider took."""
    before = len(bench.stack.sns.received())
    bench.sends = []
    bench.emit(users)
    bench.settle(300)
    times = [each.time for each in bench.stack.sns.received()[before:]]
    return (len(times) - 1) / (times[-1] - times[0])


def main() -> None:
    parser = argparse.ArgumentParser(description="Messages a second by slice size.")
    parser.add_argument("--recipients", type=int, default=8_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 40])
    arguments = parser.parse_args()
    found: dict[int, list[float]] = {size: [] for size in arguments.sizes}
    with (
        tempfile.TemporaryDirectory(prefix="masscomm-slices-") as folder,
        FaultStack(Path(folder)) as stack,
        Bench.on(stack, shared=0) as bench,
    ):
        users = bench.population.grow_uniform(arguments.recipients)
        for _ in range(arguments.runs):
            for size in arguments.sizes:
                stack.reconfigure({"delivery": {"environment": {"DELIVERY_SLICE_SIZE": str(size)}}})
                rate(bench, users[:500])  # warm
                found[size].append(rate(bench, users))
    baseline = statistics.median(found[arguments.sizes[0]])
    for size, rates in found.items():
        median = statistics.median(rates)
        runs = ", ".join(f"{each:,.0f}" for each in rates)
        print(f"slices of {size:4}: {median:6,.0f} messages/s, {median / baseline:.2f} of the first ({runs})")


if __name__ == "__main__":
    main()
