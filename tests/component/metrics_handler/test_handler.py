"""Over a real Postgres, the function does not connect at import, and recovers when the database does."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from functions.metrics_handler import handler as module
from local.devstack import process
from local.devstack.config import ROOT, StackConfig
from local.devstack.stack import Stack
from masscomm.domain.time_limits import METRICS_ANSWER_S, METRICS_CONNECT_S
from masscomm.stores.metrics.postgres import PostgresMetricsStore
from tests.support.inputs.api_gateway_events import get, lambda_context
from tests.support.servers.metrics_database import metrics_database

ASKED = {"granularity": ["minute"], "start": ["2026-11-21T12:00:00Z"], "end": ["2026-11-21T12:05:00Z"]}


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Import the handler's module anew, as a cold start does; close its pool at the end."""
    module.bootstrap.cache_clear()
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    yield monkeypatch
    if module.bootstrap.cache_info().currsize:
        store = module.bootstrap().metrics_route.store
        assert isinstance(store, PostgresMetricsStore)
        store.close()
    module.bootstrap.cache_clear()


def ask(event: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    found = module.handler(event, lambda_context())
    return found["statusCode"], json.loads(found["body"])


def test_importing_connects_to_nothing() -> None:
    code = (
        "import socket\n"
        "def refuse(*_): raise SystemExit('connected')\n"
        "socket.socket.connect = refuse\n"
        "import functions.metrics_handler.handler\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_rows_and_watermark_come_from_the_tables(handler: pytest.MonkeyPatch, postgres: StackConfig) -> None:
    with metrics_database(postgres) as url:
        with psycopg.connect(url) as connection:
            connection.execute("insert into counts_minute values ('2026-11-21T12:01Z', 7, 'news', 'push', 'sent', 3)")
            connection.execute("insert into stream_watermark values ('metrics', '2026-11-21T12:05:05Z', now())")
        handler.setenv("METRICS_DATABASE_URL", url)
        status, body = ask(get("/v1/metrics", **ASKED))
        assert status == 200
        assert body["rows"] == [
            {
                "bucket": "2026-11-21T12:01:00Z",
                "club_id": 7,
                "type": "news",
                "channel": "push",
                "measure": "sent",
                "count_total": 3,
            }
        ]
        assert (body["watermark"], body["complete"]) == ("2026-11-21T12:05:05Z", True)


@pytest.mark.guarantee("metrics_api_answer.no_database")
def test_a_database_without_tables_is_503(handler: pytest.MonkeyPatch, postgres: StackConfig) -> None:
    handler.setenv("METRICS_DATABASE_URL", postgres.database_url("postgres"))
    assert ask(get("/v1/metrics", **ASKED))[0] == 503
    assert ask(get("/v1/webhooks/ep_7_aaaaaaaaaaaaaaaaaaaa/log"))[0] == 503


def test_database_down_is_503_until_it_restarts(handler: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The pool reconnects with each request, and checks a connection before a request uses it."""
    with (
        Stack(StackConfig.on_free_ports(tmp_path), ["postgres"], discard=True) as stack,
        metrics_database(stack.config) as url,
    ):
        handler.setenv("METRICS_DATABASE_URL", url)
        assert ask(get("/v1/metrics", **ASKED))[0] == 200
        stack.kill("postgres")
        status, body = ask(get("/v1/metrics", **ASKED))
        assert (status, body["title"]) == (503, "Service Unavailable")
        stack.restart("postgres")
        assert ask(get("/v1/metrics", **ASKED))[0] == 200
        # The pool's connection is lost between two requests, as in a frozen environment.
        stack.kill("postgres")
        stack.restart("postgres")
        assert ask(get("/v1/metrics", **ASKED))[0] == 200


@pytest.mark.kills(guard="metrics.hanging_database")
def test_database_that_hangs_is_503_until_it_continues(handler: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It accepts connections and answers none: neither its own limits nor closed connections end a request."""

    def hang(number: signal.Signals) -> None:
        for each in process.family(stack.pid("postgres")):
            each.send_signal(number)

    with (
        Stack(StackConfig.on_free_ports(tmp_path), ["postgres"], discard=True) as stack,
        metrics_database(stack.config) as url,
        ThreadPoolExecutor(1) as one_at_a_time,
    ):
        handler.setenv("METRICS_DATABASE_URL", url)
        assert ask(get("/v1/metrics", **ASKED))[0] == 200
        hang(signal.SIGSTOP)
        try:
            for _ in ("over the open connection", "over a new one"):
                asked = one_at_a_time.submit(ask, get("/v1/metrics", **ASKED))
                assert asked.result(2 * METRICS_CONNECT_S + METRICS_ANSWER_S)[0] == 503
        finally:
            hang(signal.SIGCONT)
        assert ask(get("/v1/metrics", **ASKED))[0] == 200
