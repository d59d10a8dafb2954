"""The Grafana dashboard is the generated one, and its queries have metrics that the local stack serves."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from prometheus_client.parser import text_string_to_metric_families

from infra.grafana.dashboard import PANELS, dashboard
from local.devstack.config import ROOT
from local.emulators.prometheus import FunctionLines, GatewayMetrics, exposition
from masscomm.observability.metric_names import ALL
from tests.support.inputs.operational_metrics import HOST_STATUS, LATENCIES, SENDS, write_every_metric

VALIDATOR = jsonschema_rs.validator_for(
    json.loads((ROOT / "tests" / "support" / "inputs" / "grafana_dashboard.schema.json").read_text())
)
QUERIES = [query.expression for panel in PANELS for query in panel.queries]
_METRIC = re.compile(r"masscomm_\w+")


def served(folder: Path) -> dict[str, set[str]]:
    """Return the labels of each series on /metrics after each metric of the vocabulary was emitted once."""
    lines, requests = FunctionLines(folder), GatewayMetrics()
    write_every_metric(folder / "delivery.log")
    requests.observe("GET", "/v1/sends", 200, 0.01)
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(
            exposition(lines, lambda: HOST_STATUS, requests, SENDS, LATENCIES).decode()
        )
        for sample in family.samples
    }


def test_the_committed_dashboard_is_the_generated_one() -> None:
    committed = (ROOT / "infra" / "grafana" / "masscomm.json").read_text()
    assert json.loads(committed) == dashboard(), "python -m infra.grafana > infra/grafana/masscomm.json"


def _changed(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """Return the dashboard with one more, or another, value."""
    found = copy.deepcopy(dashboard())
    place: Any = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return found


def test_the_dashboard_fits_the_schema_of_grafana() -> None:
    assert list(VALIDATOR.iter_errors(dashboard())) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schemaversion",), 39),
        (("graphTooltip",), True),
        (("refresh",), "often"),
        (("panels", 0, "gridPos", "w"), 25),
        (("panels", 0, "targets", 0, "expression"), "up"),
        (("panels", 0, "fieldConfig", "defaults", "unit"), None),
        (("panels", 0, "options", "legend", "placement"), "top"),
        (("templating", "list", 0, "type"), "prometheus"),
    ],
)
def test_the_schema_refuses_unknown_members(path: tuple[str | int, ...], value: Any) -> None:
    assert not VALIDATOR.is_valid(_changed(path, value))


def named_by_documentation() -> set[str]:
    """Return the families that pages name. The list of changes may name earlier ones."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return {name for page in pages for name in re.findall(r"`(masscomm_[a-z_]*[a-z])`", page.read_text())}


def families(folder: Path) -> set[str]:
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in served(folder)}


def test_families_named_by_the_documentation_are_served(tmp_path: Path) -> None:
    named = named_by_documentation()
    assert len(named) >= 20
    assert named - families(tmp_path) == set()


def test_every_family_is_documented(tmp_path: Path) -> None:
    """A family with the name of a metric is documented by the table of metrics."""
    metrics = {"masscomm_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in ALL}
    missing = families(tmp_path) - named_by_documentation()
    assert {name for name in missing if re.sub(r"(_seconds|_total)$", "", name) not in metrics} == set()


@pytest.mark.parametrize("query", QUERIES)
def test_each_query_names_served_metrics_and_labels(query: str, tmp_path: Path) -> None:
    known = served(tmp_path)
    names = _METRIC.findall(query)
    assert [name for name in names if name not in known] == []
    labels = {label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")}
    assert labels <= set().union(*(known[name] for name in names))


def test_panels_do_not_overlap() -> None:
    cells = [
        (column, row)
        for panel in dashboard()["panels"]
        for place in [panel["gridPos"]]
        for column in range(place["x"], place["x"] + place["w"])
        for row in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {column for column, _ in cells} == set(range(24))


def test_no_label_has_an_unlimited_number_of_values(tmp_path: Path) -> None:
    """A tenant, a send or a record would make a series each."""
    labels = set().union(*served(tmp_path).values())
    assert labels <= {
        "stage",
        "function",
        "mapping",
        "method",
        "route",
        "status",
        "channel",
        "reason",
        "table",
        "le",
        "quantile",
    }
