"""The cases and the report of lab.benchmarks.capture."""

import json
from pathlib import Path
from typing import cast

import yaml
from rich.console import Console

from lab.benchmarks.capture import CDC_CONSUMER, Capture, Case, report
from local.devstack.config import StackConfig
from local.devstack.sns_process import SnsStandIn


class Stub:
    url = "http://127.0.0.1:1"


def test_case_has_its_functions_and_worker_properties(tmp_path: Path) -> None:
    settings = {"producer.linger.ms": "7", "max.batch.size": "9"}
    case = Case(name="changed", settings=settings, functions=[CDC_CONSUMER])
    services = case.services(StackConfig.on_free_ports(tmp_path), cast(SnsStandIn, Stub()))
    properties = next(text for path, text in services["connect"].files.items() if path.name == "connect.properties")
    assert properties.endswith("producer.linger.ms=7\n")
    assert case.connector() == {"max.batch.size": "9"}
    files = services["lambda_host"].files
    config = json.loads(next(text for path, text in files.items() if path.name == "config.json"))
    assert config["environment"]["AWS_ENDPOINT_URL_SNS"] == Stub.url
    assert list(yaml.safe_load(files[Path(config["functions_file"])])["functions"]) == [CDC_CONSUMER]


def test_report_has_medians_a_row() -> None:
    captures = [
        Capture(
            rows=1_000,
            complete_s=seconds,
            at_rest_s=2 * seconds,
            complete_processor_s={"connect": seconds / 100},
            at_rest_processor_s={"connect": seconds / 50, "postgres": 0.5},
        )
        for seconds in (1, 2, 9)
    ]
    console = Console(record=True, width=100)
    console.print(report({"as installed": captures}))
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in console.export_text().splitlines()]
    assert [row for row in rows if row] == [
        ["rows", "1,000"],
        ["rows/s until complete", "500"],
        ["seconds", "2.0 / 4.0"],
        ["µs, connect", "20.0 / 40.0"],
        ["µs, postgres", "0.0 / 500.0"],
    ]
