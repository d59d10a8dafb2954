"""docs/personal-data.md has a row for each store."""

import json
import re
from collections import Counter
from collections.abc import Iterator

import yaml

from infra.cdk.resources.tables import definitions
from local.devstack.config import ROOT
from masscomm.domain.time_limits import CHANGELOG_ERASED_S
from masscomm.kafka.topics import Compaction, cdc_topic, cdc_topics

SCHEMAS = ROOT / "schemas"
PAGE = (ROOT / "docs" / "personal-data.md").read_text()
TABLE = re.compile(r"create (?:unlogged )?table if not exists (\w+) \(")
BUCKET = re.compile(r'_bucket\(\s*\w+,\s*"([a-z-]+)"')


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.splitlines() if line.startswith("|") and not line.startswith(("|---", "| stored"))]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def stored() -> Iterator[str]:
    """Names of everything that stores records, documents, items, rows or files."""
    yield from (path.stem for path in (SCHEMAS / "indices").glob("*.json"))
    yield from (json.loads(path.read_text())["table"]["TableName"] for path in (SCHEMAS / "dynamodb").glob("*.json"))
    yield from definitions()
    for folder in ("schemas", "infra", "ops/provisioning"):
        for path in (ROOT / folder).rglob("*.sql"):
            yield from TABLE.findall(path.read_text())
    topics = yaml.safe_load((SCHEMAS / "topics.yaml").read_text())
    yield from topics["topics"]
    yield from (f"cdc.{name}" for name in [*topics["cdc"]["tables"], "notification", "heartbeat"])
    yield from BUCKET.findall((ROOT / "infra" / "cdk" / "resources" / "buckets.py").read_text())


def test_documented_stores_are_the_existing_ones() -> None:
    named = [name for row in rows() for name in re.findall(r"`([^`]+)`", row[0])]
    twice = [name for name, rows_of in Counter(named).items() if rows_of > 1]
    assert twice == ["sends"], "a place has two rows; DynamoDB and Postgres have a table of this name"
    assert set(named) == set(stored())
    assert {"archive", "access-log"} < set(named), "the buckets must be found"


def test_each_row_has_data_purpose_period_and_erasure() -> None:
    assert len(rows()) > 30
    assert [row for row in rows() if len(row) != 5 or not all(row)] == []
    linked = (ROOT / "docs" / "index.md").read_text()
    assert "(personal-data.md)" in linked


def test_the_page_names_the_retention_of_each_topic() -> None:
    topics = yaml.safe_load((SCHEMAS / "topics.yaml").read_text())
    for row in rows():
        for name in re.findall(r"`([^`]+)`", row[0]):
            # A compacted topic keeps the latest record of each key.
            if name in topics["topics"] and topics["topics"][name].get("cleanup") != "compact":
                assert row[3] == f"{topics['topics'][name]['retention_hours'] // 24} days"


def test_time_until_a_deleted_row_leaves_kafka_is_documented() -> None:
    (row,) = [row for row in rows() if "`cdc.users`" in row[0]]
    days, tombstone_days = CHANGELOG_ERASED_S // 86_400, cdc_compaction().tombstone_hours // 24
    assert row[3].endswith(f"; earlier ones {days} days")
    assert row[4] == f"ends {days} days after the row is deleted; its number {tombstone_days} days later"


def cdc_compaction() -> Compaction:
    (topic,) = [topic for topic in cdc_topics("g1") if topic.name == cdc_topic("users", "g1")]
    assert topic.compaction is not None
    return topic.compaction
