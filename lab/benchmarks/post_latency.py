"""Measures the time from a POST of a send to one recipient to its response, without and with an Idempotency-Key.

    python -m lab.benchmarks.post_latency --requests 500

The local stack must run (`masscomm up`); each request is a send to the same user. Requests of both kinds take turns, so
that other work on the machine slows both.
"""

import argparse
import time
from collections.abc import Sequence
from uuid import uuid4

import httpx

from local.devstack.config import StackConfig
from local.devstack.handle import RunningStack
from local.devstack.state import NotRunningError

_WARM = 20
_BODY = {"type": "announcement", "club_id": 1, "data": {"title": "Hello", "body": "It works."}}


def measured(api: httpx.Client, user_id: int, requests: int) -> dict[str, list[float]]:
    """Return the milliseconds of each request, in ascending order, by kind."""
    found: dict[str, list[float]] = {"without a key": [], "with a key": []}
    for number in range(_WARM + requests):
        for kind, values in found.items():
            headers = {"Idempotency-Key": str(uuid4())} if kind == "with a key" else {}
            began = time.perf_counter()
            api.post("/v1/sends", json={**_BODY, "to_users": [user_id]}, headers=headers).raise_for_status()
            if number >= _WARM:
                values.append((time.perf_counter() - began) * 1_000)
    return {kind: sorted(values) for kind, values in found.items()}


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of the sorted values is."""
    return values[min(len(values) - 1, int(len(values) * share))]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure POST /v1/sends of one recipient at the local gateway.")
    parser.add_argument("--requests", type=int, default=500, help="requests of each kind")
    parser.add_argument("--user", type=int, default=42, help="the recipient, a user of club 1")
    arguments = parser.parse_args()
    try:
        config = RunningStack.of(StackConfig.from_environment()).config
    except NotRunningError as error:
        raise SystemExit(str(error)) from None
    with httpx.Client(base_url=config.gateway_url, headers={"x-api-key": config.api_key}, timeout=30) as api:
        for kind, values in measured(api, arguments.user, arguments.requests).items():
            print(f"{kind:15} p50 {quantile(values, 0.5):6.1f} ms   p99 {quantile(values, 0.99):6.1f} ms")


if __name__ == "__main__":
    main()
