"""The derived figures, the page and the flame graphs of lab.benchmarks.chain."""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from lab.benchmarks.chain import flames
from lab.benchmarks.chain.__main__ import parser, summary
from lab.benchmarks.chain.measure import Measured
from lab.benchmarks.chain.page import page
from lab.benchmarks.chain.scenarios import NAMES, chosen_scenarios
from lab.benchmarks.chain.usage import EMULATION, FUNCTIONS, SERVERS, Usage, at_rest, group_of

SVG = "{http://www.w3.org/2000/svg}"


def measured(per_s: float, **processor_us: float) -> Measured:
    groups = {FUNCTIONS: 0.0, SERVERS: 0.0, EMULATION: 0.0}
    for role, us in processor_us.items():
        groups[group_of(role)] += us
    return Measured(
        recipients=10,
        seconds=10 / per_s,
        per_s=per_s,
        p50_ms=1.0,
        p99_ms=2.0,
        missed=0,
        duplicates=0,
        processor_us=processor_us,
        group_us=groups,
        memory_mb={"delivery": 40.0},
        records={"build": 0.002},
        directory_requests={},
    )


def test_summary_has_median_and_range() -> None:
    found = summary([measured(100.0, delivery=5.0), measured(300.0, delivery=7.0), measured(200.0)])
    assert found["per_s"] == {"median": 200.0, "min": 100.0, "max": 300.0}
    assert found["processor_us"]["delivery"] == {"median": 5.0, "min": 0.0, "max": 7.0}


def test_each_role_has_a_group() -> None:
    assert [group_of(role) for role in ("lambda host", "emitter", "provider stand-in")] == [EMULATION] * 3
    assert [group_of(role) for role in ("kafka", "dynamodb", "localstack")] == [SERVERS] * 3
    assert [group_of(role) for role in ("delivery-critical", "naive checker")] == [FUNCTIONS] * 2


def test_usage_is_a_difference_without_zeros() -> None:
    before = Usage({"delivery": 1.0, "kafka": 2.0}, {"build": 5}, {})
    after = Usage({"delivery": 1.5, "kafka": 2.0, "builder": 0.5}, {"build": 7}, {"mget": 3})
    assert after.since(before) == Usage({"delivery": 0.5, "builder": 0.5}, {"build": 2}, {"mget": 3})


@pytest.mark.parametrize(("field", "resting"), [("in_flight", False), ("lag", False), ("waiting", False), ("", True)])
def test_chain_with_open_records_is_not_at_rest(field: str, resting: bool) -> None:
    partition = {"lag": 0, "waiting": 0} | ({field: 1} if field in ("lag", "waiting") else {})
    mapping = {"in_flight": int(field == "in_flight"), "partitions": {"build-0": partition}}
    assert at_rest({"mappings": {"builder": mapping}}) is resting


def test_every_scenario_has_a_load() -> None:
    separate = {"counts"}  # measured in a run of its own, because it restarts the Lambda host
    for name in set(NAMES) - separate:
        assert list(chosen_scenarios(parser().parse_args(["--only", name]))), name


def test_page_has_well_formed_plots() -> None:
    runs = [measured(100.0, delivery=5.0, kafka=2.0), measured(200.0, delivery=7.0, kafka=2.0)]
    results = {"broadcast of 10": summary(runs), "naive chain, 10": summary([measured(20.0, **{"naive delivery": 60})])}
    document = {"scenarios": results, "measured_at": "now", "machine": "two cores", "runs": 2}
    html = page(document | {"at_rest_ms": {"kafka": 12.0}})
    assert "10.0 times the processor time" in html
    for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        assert ET.fromstring(svg).tag == f"{SVG}svg"  # noqa: S314 - our own
    assert len(re.findall("<svg", html)) == 4


@pytest.fixture
def samples(tmp_path: Path) -> Counter[str]:
    file = tmp_path / "delivery.txt"
    file.write_text(
        "main (awslambdaric/bootstrap.py:10);f (functions/delivery/deliver.py:7) 6\n"
        "main (awslambdaric/bootstrap.py:10);f (functions/delivery/deliver.py:9) 2\n"
        "loads (/home/user/lib/site-packages/json/__init__.py:1) 1\n"
    )
    return flames.read_samples(file)


def test_frames_have_modules_and_no_machine_paths(samples: Counter[str]) -> None:
    assert samples == {"awslambdaric.bootstrap.main;functions.delivery.deliver.f": 8, "json.loads": 1}


def test_box_is_as_wide_as_its_share(samples: Counter[str]) -> None:
    root = ET.fromstring(flames.flame_graph(samples, "delivery"))  # noqa: S314 - our own
    widths = {
        title.text: float(box.attrib["width"])
        for box in root.iter(f"{SVG}rect")
        if (title := box.find(f"{SVG}title")) is not None
    }
    assert widths["json.loads: 11.1%"] * 8 == pytest.approx(widths["awslambdaric.bootstrap.main: 88.9%"], rel=0.01)
