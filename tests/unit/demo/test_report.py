import json
from pathlib import Path

from local.devstack.demo.api import SendStatus
from local.devstack.demo.oracle import Expected
from local.devstack.demo.report import Checks, Percentiles, Report, SendRow


def test_percentiles_lie_between_the_smallest_and_the_largest() -> None:
    found = Percentiles.of([float(value) for value in range(1, 31)])

    assert found.p50 == 15.5
    assert found.p99 is not None
    assert 29 < found.p99 <= 30
    assert Percentiles.of([]) == Percentiles(None, None)
    assert Percentiles.of([4.0]) == Percentiles(4.0, 4.0)


def test_a_difference_is_kept_with_its_two_sides() -> None:
    checks = Checks()

    assert checks.equal("sent", expected=2, got=2)
    assert not checks.equal("failed", expected=0, got=1)
    assert checks.made == 2
    assert checks.mismatches == ["failed: expected 0, got 1"]


def test_mismatch_lists_only_differing_keys() -> None:
    checks = Checks()

    checks.equal("suppressed", expected={"opted_out": 2, "no_device": 1}, got={"opted_out": 2})

    assert checks.mismatches == ["suppressed: expected {'no_device': 1}, got {'no_device': 0}"]


def test_report_file_has_its_documented_fields(tmp_path: Path) -> None:
    status = SendStatus(requested=3, suppressed={"opted_out": 1}, sent=2, failed=0, in_flight=0)
    row = SendRow("s1", "kafka", "one push", status, Expected({}, 0), calls=4, duplicates=1)
    report = Report(
        sends=[row],
        metrics={(0, 1, "news", "push", "sent"): 2},
        metrics_equal=True,
        push_ms=Percentiles(1.0, 2.0),
        cdc_ms=Percentiles(3.0, 4.0),
        start_s=12.34,
        peak_rss_mb=2900.4,
        ok=True,
    )

    report.write(tmp_path / "out" / "demo.json")

    assert json.loads((tmp_path / "out" / "demo.json").read_text()) == {
        "ok": True,
        "sends": [
            {
                "send_id": "s1",
                "source": "kafka",
                "requested": 3,
                "suppressed": {"opted_out": 1},
                "sent": 2,
                "failed": 0,
                "in_flight": 0,
            }
        ],
        "provider": {"calls": 4, "distinct": 3},
        "metrics": {"equal": True, "rows": 1},
        "push_ms": {"p50": 1.0, "p99": 2.0},
        "cdc_ms": {"p50": 3.0, "p99": 4.0},
        "start_s": 12.3,
        "peak_rss_mb": 2900,
    }
