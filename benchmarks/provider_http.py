"""Measure the processor time of a push with our client and boto3: `python -m benchmarks.provider_http`.

This process publishes to the SNS stand-in, which is a separate process. The
clients run several times in turns, and the benchmark prints the median processor time in microseconds per publish.
"""

import argparse
import asyncio
import json
import logging
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

import boto3

from devstack.service import AWS_CREDENTIALS
from devstack.sns_process import SnsStandIn
from masscomm.channels.push import push_message
from masscomm.channels.sns_push import SnsPush

ARN = "arn:aws:sns:us-east-1:000000000000:endpoint/GCM/app/00000000-0000-0000-0000-000000000000"
MESSAGE = push_message(
    "gcm",
    ARN,
    title="For you",
    body="There is news for you today.",
    notification_id="00000000-0000-0000-0000-000000000000",
    send_id="00000000-0000-0000-0000-000000000000",
    collapse_id=None,
)


async def publish_all(publish: Callable[[], Awaitable[str]], count: int, workers: int) -> None:
    """Publish `count` times, with `workers` concurrent calls."""
    pending = iter(range(count))

    async def work() -> None:
        for _ in pending:
            await publish()

    await asyncio.gather(*(work() for _ in range(workers)))


def measure(run: Callable[[], None], count: int) -> float:
    """Return the processor time of this process in microseconds per publish."""
    began = time.process_time()
    run()
    return (time.process_time() - began) / count * 1e6


def clients(loop: asyncio.AbstractEventLoop, count: int, workers: int) -> dict[str, Callable[[], None]]:
    """Return, for each HTTP client, a function that publishes `count` times."""

    push = SnsPush()

    def publish() -> Awaitable[str]:
        return push.publish(endpoint_arn=ARN, message=MESSAGE, attributes={})

    def by_own_client() -> None:
        loop.run_until_complete(publish_all(publish, count, workers))

    sns = boto3.client("sns")

    def by_boto3() -> None:
        for _ in range(count):
            sns.publish(TargetArn=ARN, Message=MESSAGE, MessageStructure="json")

    return {"own": by_own_client, "boto3": by_boto3}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure the processor time of a publish.")
    parser.add_argument("--publishes", type=int, default=4_000, help="a run (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="of each client (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=40, help="calls at once (default: %(default)s)")
    options = parser.parse_args(arguments)
    with SnsStandIn.start(any_endpoint=True) as sns:
        os.environ |= {
            **AWS_CREDENTIALS,
            "AWS_ENDPOINT_URL_SNS": sns.url,
        }
        loop, logged = asyncio.new_event_loop(), logging.getLogger("asyncio")
        logged.disabled = True  # asyncio would warn about connections that end with the process.
        runs = clients(loop, options.publishes, options.workers)
        found: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(options.runs):
            for name, run in runs.items():
                found[name].append(measure(run, options.publishes))
    medians = {name: round(statistics.median(values), 1) for name, values in found.items()}
    print(json.dumps({"processor_us_a_publish": medians, "runs": found}, indent=2))


if __name__ == "__main__":
    main()
