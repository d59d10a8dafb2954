"""The file of the organisation's own topics is refused unless each of its records can become an event."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.devstack.config import ROOT
from masscomm.errors import Stop
from masscomm.kafka.event_sources import event_sources, expression, internal_topics, overlaps, read_event_sources
from masscomm.kafka.topics import cdc_topics, chain_topics

MAPPING = {"type": {"value": "order.paid"}, "club_id": {"path": "club"}}
SOURCE: dict[str, Any] = {"name": "orders", "topics": ["orders.*"], "mapping": MAPPING}


def document(**changes: Any) -> dict[str, Any]:
    return {"sources": [{**SOURCE, **changes}]}


def test_topic_belongs_to_the_first_source_that_matches() -> None:
    sources = event_sources({"sources": [SOURCE, {**SOURCE, "name": "others", "topics": ["or*.b", "c"]}]})
    expected = {
        "orders.b": "orders",
        "orb.b": "others",
        "c": "others",
        "cc": None,
        "ordersxa": None,
        "an.orders.b": None,
    }
    found = {topic: sources.source_of(topic) for topic in expected}
    assert {topic: source and source.name for topic, source in found.items()} == expected


def test_expression_matches_whole_names_only() -> None:
    pattern = re.compile(expression(["a.*", "b-c"]))
    found = [name for name in ("a.", "a.x", "xa.", "ab", "b-c", "b-cd") if pattern.match(name)]
    assert found == ["a.", "a.x", "b-c"]


def test_example_has_valid_sources() -> None:
    sources = read_event_sources(ROOT / "examples" / "event_sources.yaml")
    assert [(source.name, source.format) for source in sources.sources] == [("orders", "json"), ("bookings", "avro")]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (None, "the file must be a mapping"),
        ({}, "sources must be a list"),
        ({"sources": []}, "sources must be a list"),
        ({"sources": [SOURCE], "topic": 1}, "unknown fields: topic"),
        ({"sources": ["orders"]}, r"sources\[0\] must be a mapping"),
        (document(mapping=None), "mapping"),
        (document(mapping={"type": {"value": "order.paid"}}), "club_id"),
        (document(mapping={"club_id": {"value": 1}}), "type"),
        (document(mapping={**MAPPING, "type": {"value": "send.finished"}}), "type"),
        pytest.param(
            document(mapping={**MAPPING, "event_id": {"path": "id"}}),
            "event_id is derived",
            marks=pytest.mark.kills(guard="own_topics.event_id"),
        ),
        (document(name=None), "name is missing"),
        (document(name=7), "name must be a text"),
        (document(topics="orders"), "topics must be a list"),
        (document(topics=[]), "topics must be a list"),
        (document(topics=["or ders"]), "neither the name of a topic nor a pattern"),
        (document(topics=[3]), "neither the name of a topic nor a pattern"),
        (document(format="xml"), "format must be json or avro"),
        ({**document(), "registry": {"url": "http://r"}}, "url and known_subject belong together"),
        ({**document(), "bootstrap_servers": ""}, "bootstrap_servers must be a text"),
    ],
)
def test_invalid_file_is_refused_with_the_place(wrong: Any, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "sources.yaml"
    path.write_text(yaml.safe_dump(wrong))
    with pytest.raises(Stop, match=problem) as refused:
        read_event_sources(path)
    assert str(path) in str(refused.value)


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "damaged.yaml").write_text("sources: [")
    for name in ("absent.yaml", "damaged.yaml"):
        with pytest.raises(Stop, match="cannot be read"):
            read_event_sources(tmp_path / name)


@pytest.mark.kills(guard="own_topics.internal_topic")
@pytest.mark.parametrize(
    "pattern",
    [
        *("*", "event", "e*", "*t", "dead-letter", "send.*", "*.critical", "webhook*", "*.users", "cdc.g9.users"),
        *("__consumer_offsets", "_*", "connect.offsets", "*connect*", "cdc.g1.public.outbox"),
    ],
)
def test_pattern_that_includes_an_internal_topic_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="a topic of masscomm or Kafka itself"):
        event_sources(document(topics=["orders", pattern]))


def test_every_topic_of_masscomm_is_internal() -> None:
    internal = list(internal_topics())
    for topic in [*chain_topics(), *cdc_topics("g1")]:
        assert any(overlaps(topic.name, each) for each in internal), topic.name


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a*c", "abc", True),
        ("a*c", "*b*", True),
        ("a*", "b*", False),
        ("*a", "*b", False),
        ("", "**", True),
        ("a", "", False),
        ("a*b", "ab", True),
        ("*" * 40 + "a", "*" * 40 + "b", False),
    ],
)
def test_patterns_overlap_if_a_name_matches_both(one: str, other: str, expected: bool) -> None:
    assert overlaps(one, other) is overlaps(other, one) is expected
