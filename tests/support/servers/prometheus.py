"""Starts Debian's Prometheus, which scrapes a gateway, and queries it."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

_CONFIG = """\
global: {{scrape_interval: {interval}, scrape_timeout: {interval}}}
scrape_configs:
  - job_name: masscomm
    static_configs: [{{targets: ["127.0.0.1:{gateway}"]}}]
"""


@contextmanager
def scraping(gateway: int, *, port: int, folder: Path, interval: str) -> Iterator[str]:
    """Start a Prometheus and yield its URL; it ends with the block.

    Args:
        gateway: The port of the gateway, whose /metrics is scraped.
        port: The port of Prometheus.
        folder: A folder for its configuration and its data.
        interval: The time between two scrapes, in Prometheus' form.
    """
    binary = shutil.which("prometheus")
    assert binary, "Prometheus is needed: install Debian's package `prometheus` (make browser)"
    config = folder / "prometheus.yml"
    config.write_text(_CONFIG.format(gateway=gateway, interval=interval))
    process = subprocess.Popen(
        [
            binary,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def values(url: str, expression: str) -> list[float]:
    """Return the values of a query that are numbers; none while Prometheus starts."""
    try:
        response = httpx.get(f"{url}/api/v1/query", params={"query": expression}, timeout=10, trust_env=False)
    except httpx.TransportError:
        return []
    if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        return []
    answer = response.json()
    assert answer["status"] == "success", answer
    found = [float(each["value"][1]) for each in answer["data"]["result"]]
    return [value for value in found if value == value]
