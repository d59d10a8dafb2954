"""A real Prometheus scrapes the gateway, and answers each query of the dashboard with data.

Prometheus is Debian's package `prometheus`, which `make browser` installs where it may; without it, the test fails.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.grafana.dashboard import PANELS, RATE
from local.emulators.gateway import Gateway, Route
from local.emulators.prometheus import CONTENT_TYPE, FunctionLines, GatewayMetrics, exposition
from tests.support.inputs.operational_metrics import HOST_STATUS, LATENCIES, SENDS, write_every_metric
from tests.support.servers.prometheus import scraping, values

QUERIES = [(panel.title, query.expression) for panel in PANELS for query in panel.queries]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """The gateway's /metrics; each scrape finds a further line of each metric, as of functions at work."""
    folder, requests = tmp_path / "logs", GatewayMetrics()
    folder.mkdir()
    lines, scrapes = FunctionLines(folder), itertools.count(1)

    async def never(_name: str, _payload: bytes) -> Any:
        pytest.fail("no function is asked")

    def metrics() -> tuple[bytes, str]:
        number = next(scrapes)
        write_every_metric(folder / "delivery.log")
        requests.observe("GET", "/v1/sends", 200, 0.01)
        status = {
            kind: {name: {each: value * number for each, value in counts.items()} for name, counts in found.items()}
            for kind, found in HOST_STATUS.items()
        }
        return exposition(lines, lambda: status, requests, SENDS, LATENCIES), CONTENT_TYPE

    made = Gateway(
        [Route(method="GET", path="/v1/sends", function="f")],
        invoke=never,
        ready=lambda: {"ready": True},
        status=dict,
        authorize=lambda _key: None,
        metrics=metrics,
    )
    await made.start(0)
    yield made
    await made.close()


@pytest.fixture
def prometheus(gateway: Gateway, tmp_path: Path, unused_tcp_port: int) -> Iterator[str]:
    """The URL of a Prometheus that scrapes the gateway."""
    with scraping(gateway.port, port=unused_tcp_port, folder=tmp_path, interval="250ms") as url:
        yield url


@pytest.mark.nightly
async def test_each_query_is_answered_with_data(prometheus: str) -> None:
    for title, query in QUERIES:
        expression = query.replace(RATE, "10s")
        async with asyncio.timeout(60):
            while not (found := await asyncio.to_thread(values, prometheus, expression)):
                await asyncio.sleep(0.1)
        assert all(value >= 0 for value in found), title
        if "rate(" in expression:
            async with asyncio.timeout(60):
                while not any(value > 0 for value in found):
                    found = await asyncio.to_thread(values, prometheus, expression)
                    await asyncio.sleep(0.1)
