"""The demo itself, with fewer users: it judges every figure by its oracle."""

import io
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from devstack.demo import run_demo
from devstack.stack import Stack

USERS = 1_500
FIELDS = {"requested", "suppressed", "sent", "failed", "in_flight", "send_id", "source"}


def test_everything_is_as_the_oracle_says_and_again_on_the_running_stack(stack: Stack, tmp_path: Path) -> None:
    first = demo(stack, tmp_path / "first.json")
    second = demo(stack, tmp_path / "second.json")

    for figures in (first, second):
        assert figures["metrics"]["equal"]
        assert figures["provider"]["calls"] == figures["provider"]["distinct"] > USERS / 2
        assert 0 < figures["push_ms"]["p50"] <= figures["push_ms"]["p99"]
        assert 0 < figures["cdc_ms"]["p50"] <= figures["cdc_ms"]["p99"]
        assert all(set(send) == FIELDS and send["in_flight"] == 0 for send in figures["sends"])
        assert {send["source"] for send in figures["sends"]} == {"kafka", "rest"}
        assert max(send["requested"] for send in figures["sends"]) == USERS
    ids = [{send["send_id"] for send in figures["sends"]} for figures in (first, second)]
    assert not ids[0] & ids[1]
    assert 0 < first["peak_rss_mb"] < 4_096


def demo(stack: Stack, out: Path) -> dict[str, Any]:
    """The figures of one run, which must have ended well; what it said is the message if it has not."""
    said = io.StringIO()
    ok = run_demo(stack, users=USERS, out=out, console=Console(file=said, width=140))
    figures: dict[str, Any] = json.loads(out.read_text())
    assert ok, said.getvalue()
    assert figures["ok"]
    return figures
