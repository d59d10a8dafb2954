"""The results of a demo: comparisons with the oracle, tables for the terminal, JSON for programs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from typing import Any

from rich.table import Table

from cli.terminal import Terminal
from local.devstack.demo.api import SendStatus
from local.devstack.demo.oracle import Expected
from local.devstack.demo.records import Key


@dataclass(frozen=True)
class Percentiles:
    """Latencies in milliseconds; None if nothing was measured."""

    p50: float | None
    p99: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Percentiles":
        """Return the median and the 99th percentile, which is close to the maximum of fewer than a hundred values."""
        if len(values) < 2:
            return cls(*[round(value, 1) for value in values] * 2) if values else cls(None, None)
        hundredths = quantiles(values, n=100, method="inclusive")
        return cls(round(hundredths[49], 1), round(hundredths[98], 1))

    def __str__(self) -> str:
        return "not measured" if self.p50 is None else f"p50 {self.p50:,.0f} ms, p99 {self.p99:,.0f} ms"


class Checks:
    """Compares expected with found values. Both values of a mismatch are kept."""

    def __init__(self) -> None:
        self.made = 0
        self.mismatches: list[str] = []

    def equal(self, label: str, *, expected: object, got: object) -> bool:
        """Return whether both values are equal; if not, the demo has failed. For mappings, only the differing keys
        are kept.
        """
        self.made += 1
        if expected == got:
            return True
        if isinstance(expected, Mapping) and isinstance(got, Mapping):
            differing = [key for key in expected.keys() | got.keys() if expected.get(key, 0) != got.get(key, 0)]
            expected = {key: expected.get(key, 0) for key in differing}
            got = {key: got.get(key, 0) for key in differing}
        self.mismatches.append(f"{label}: expected {expected}, got {got}")
        return False


@dataclass(frozen=True)
class SendRow:
    """The status of a send in the metrics API, with the number of provider calls for it."""

    send_id: str
    source: str  # How the send was requested: kafka or rest.
    label: str  # The description of the send in the printed table.
    status: SendStatus
    expected: Expected
    calls: int
    duplicates: int  # The number of provider calls beyond one per device or e-mail.

    def as_json(self) -> dict[str, Any]:
        """Return the row in the form of out/demo.json."""
        status = self.status
        return {
            "send_id": self.send_id,
            "source": self.source,
            "requested": status.requested,
            "suppressed": status.suppressed,
            "sent": status.sent,
            "failed": status.failed,
            "in_flight": status.in_flight,
        }


@dataclass
class Report:
    """All results of a demo."""

    sends: list[SendRow] = field(default_factory=list)
    metrics: Mapping[Key, int] = field(default_factory=dict)  # The rows by minute from the metrics API.
    metrics_equal: bool = False
    push_ms: Percentiles = field(default_factory=lambda: Percentiles(None, None))
    cdc_ms: Percentiles = field(default_factory=lambda: Percentiles(None, None))
    start_s: float = 0.0
    peak_rss_mb: float = 0.0
    ok: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the content of out/demo.json."""
        calls = sum(row.calls for row in self.sends)
        return {
            "ok": self.ok,
            "sends": [row.as_json() for row in self.sends],
            "provider": {"calls": calls, "distinct": calls - sum(row.duplicates for row in self.sends)},
            "metrics": {"equal": self.metrics_equal, "rows": len(self.metrics)},
            "push_ms": asdict(self.push_ms),
            "cdc_ms": asdict(self.cdc_ms),
            "start_s": round(self.start_s, 1),
            "peak_rss_mb": round(self.peak_rss_mb),
        }

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n")

    def show(self, console: Terminal) -> None:
        console.print(self._sends_table())
        console.print(
            "Not each requested notification is sent: users opt out, have no device, or belong to another club. A user"
            " with several devices gets a push on each, so the provider has more calls than notifications were sent.",
            style="dim",
        )
        console.print(self._metrics_table())
        console.print(
            "These count the steps of notifications, not their ends: a held notification is queued and sent later.",
            style="dim",
        )
        console.print(f"one push, from request to the provider's answer (the outcome record's time): {self.push_ms}")
        console.print(f"a setting, from commit in the monolith's database to OpenSearch: {self.cdc_ms}")
        console.print(f"start of the stack {self.start_s:.1f} s, its most memory {self.peak_rss_mb:,.0f} MB")

    def _sends_table(self) -> Table:
        table = Table(title="Sends: the metrics API, and the provider's own count", title_justify="left")
        table.add_column("send", min_width=28)
        table.add_column("by")
        for name in ("requested", "suppressed", "sent", "failed", "in flight", "at provider", "duplicates"):
            table.add_column(name, justify="right")
        for label, rows in self._grouped().items():
            suppressed: Counter[str] = Counter()
            for row in rows:
                suppressed.update(row.status.suppressed)
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in suppressed.most_common())
            table.add_row(
                label if len(rows) == 1 else f"{label} ({len(rows)} sends)",
                rows[0].source,
                f"{sum(row.status.requested for row in rows):,}",
                reasons or "0",
                f"{sum(row.status.sent for row in rows):,}",
                f"{sum(row.status.failed for row in rows):,}",
                f"{sum(row.status.in_flight for row in rows):,}",
                f"{sum(row.calls for row in rows):,}",
                f"{sum(row.duplicates for row in rows):,}",
            )
        return table

    def _grouped(self) -> dict[str, list[SendRow]]:
        groups: dict[str, list[SendRow]] = {}
        for row in self.sends:
            groups.setdefault(row.label, []).append(row)
        return groups

    def _metrics_table(self) -> Table:
        table = Table(title="Metrics by minute, from the metrics API", title_justify="left")
        measures = ("requested", "held", "queued", "suppressed", "sent", "failed")
        for name in ("minute (UTC)", "club", "type", "channel"):
            table.add_column(name)
        for name in measures:
            table.add_column(name, justify="right")
        cells: dict[tuple[int, int, str, str], Counter[str]] = {}
        for (minute, club_id, category, channel, measure), count in self.metrics.items():
            cells.setdefault((minute, club_id, category, channel), Counter())[measure] += count
        for (minute, club_id, category, channel), counts in sorted(cells.items()):
            when = f"{datetime.fromtimestamp(minute / 1000, UTC):%H:%M}"
            numbers = [f"{counts[name]:,}" if counts[name] else "" for name in measures]
            table.add_row(when, str(club_id), category, channel, *numbers)
        return table
