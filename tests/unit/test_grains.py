"""A grain is an entry of masscomm/domain/grains.py and a table: every list of grains derives from the entry."""

import re
from operator import itemgetter
from typing import Any

import pytest

from local.devstack.config import ROOT
from masscomm.domain.grains import SMALLEST, Grain
from tests.support.changed_tree import changed_tree, printed_json

LISTS = """
import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo
from ops.openapi.document import document
from masscomm.stores.metrics import statements
from functions.metrics_handler.buckets import utc_buckets, zone_days
from masscomm.stores.metrics.port import MetricsQuery
from functions.metrics_handler.routes import metrics
from masscomm.domain.grains import Grain
from spark_metrics import job
from spark_metrics.counting import lane_merge, served

new = metrics._granularity("quarter_hour")
start, end = datetime(2026, 11, 22, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC)
parameters = document()["paths"]["/v1/metrics"]["get"]["parameters"]
query = MetricsQuery(granularity=new, start=start, end=end)
print(json.dumps({
    "described": [each["description"] for each in parameters if each["name"] == "granularity"],
    "buckets": len(utc_buckets(new, start, end).starts),
    "zone_rows": zone_days(ZoneInfo("Asia/Kolkata"), start, end).source,
    "counts": statements.rows(query).as_string(),
    "revised": statements.revised(query).as_string(),
    "compared": {name: table.step_s for name, table in served.TABLES.items() if name.startswith("counts_")},
    "required": [name for name in job._TABLES if name.startswith("counts_")],
    "merged": b"".join(lane_merge._COUNTS).decode(),
}))
"""

# Grain → its seconds, with the added one in its place.
ADDED = dict(sorted([("quarter_hour", 900), *((grain.value, grain.seconds) for grain in Grain)], key=itemgetter(1)))


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The lists that derive from the grains, in a tree with one more grain."""
    path = "masscomm/domain/grains.py"
    text = (ROOT / path).read_text()
    text = text.replace('    HOUR = "hour"\n', '    QUARTER_HOUR = "quarter_hour"\n    HOUR = "hour"\n')
    text = text.replace("    Grain.HOUR: ", "    Grain.QUARTER_HOUR: timedelta(minutes=15),\n    Grain.HOUR: ")
    found: dict[str, Any] = printed_json(changed_tree(tmp_path_factory.mktemp("tree"), {}, {path: text}), LISTS)
    return found


def test_an_added_grain_is_served(lists: dict[str, Any]) -> None:
    assert lists["described"] == [f"one of {', '.join(ADDED)}"]
    assert lists["buckets"] == 96
    assert "counts_quarter_hour" in lists["counts"]
    assert re.search(r"date_bin\('?(900|00:15:00)?", lists["revised"])
    assert lists["zone_rows"] == "quarter_hour", "of the grains that days of half-hour zones can be summed from"


def test_an_added_grain_is_counted_and_compared(lists: dict[str, Any]) -> None:
    tables = [f"counts_{name}" for name in ADDED]
    assert lists["required"] == tables
    assert lists["compared"] == dict(zip(tables, ADDED.values(), strict=True))
    assert re.findall(r"insert into (counts_\w+)", lists["merged"]) == tables
    assert "minute_s / 900 * 900" in lists["merged"]


def test_each_grain_has_a_table() -> None:
    text = (ROOT / "schemas" / "tables" / "01_counts.sql").read_text()
    assert re.findall(r"create table if not exists (\w+) \(", text) == [grain.table for grain in Grain]


def test_grains_ascend_and_fit_into_each_other() -> None:
    """A bucket of one grain is summed from whole buckets of the smallest one."""
    assert [*Grain] == sorted(Grain, key=lambda grain: grain.length)
    assert next(iter(Grain)) is SMALLEST
    assert [grain for grain in Grain if grain.seconds % SMALLEST.seconds] == []
