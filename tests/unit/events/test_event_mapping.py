"""A mapping finds the fields of an event in a document of another system."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from masscomm.domain.event_mapping import EventMapping, InvalidMapping, Unmapped
from masscomm.domain.events import faults
from masscomm.domain.records import EventOccurred
from masscomm.json_reader import read_json

AT_MS = 1_700_000_000_000
MAPPING: dict[str, Any] = {
    "type": {"value": "order.paid"},
    "club_id": {"path": "shop.club"},
    "unit": {"path": "shop.site"},
    "key": {"path": "order.id"},
    "occurred_at": {"path": "created", "unit": "s"},
    "event_id": {"path": "headers.x-delivery"},
    "data": {"path": "order"},
}
DOCUMENT: dict[str, Any] = {"shop": {"club": 7, "site": "100/7"}, "order": {"id": "o1"}, "created": 1_700_000_000}
HEADERS = {"x-delivery": "d-1"}


def mapped(
    mapping: Any = MAPPING, document: Any = DOCUMENT, headers: dict[str, str] = HEADERS, **changes: Any
) -> EventOccurred:
    return EventMapping.of({**mapping, **changes}).event(
        document, headers, default_event_id="default", default_occurred_at=AT_MS
    )


def test_each_field_is_found_at_its_path() -> None:
    assert mapped() == EventOccurred(
        event_id="d-1",
        type="order.paid",
        club_id=7,
        unit="100/7",
        key="o1",
        occurred_at=AT_MS,
        data='{"id":"o1"}',
    )


def test_field_without_mapping_has_its_default() -> None:
    event = mapped({"type": {"path": "type"}, "club_id": {"value": 9}}, {"type": "a.b", "name": "Zoë"})
    assert (event.event_id, event.type, event.club_id, event.unit, event.key, event.occurred_at) == (
        "default",
        "a.b",
        9,
        None,
        None,
        AT_MS,
    )
    assert event.data == '{"type":"a.b","name":"Zoë"}'


@pytest.mark.parametrize(
    ("value", "unit", "at_ms"),
    [
        (1_700_000_000, "s", AT_MS),
        (1_700_000_000.25, "s", AT_MS + 250),
        ("1700000000", "s", AT_MS),
        (AT_MS, "ms", AT_MS),
        (str(AT_MS), "ms", AT_MS),
        ("2023-11-14T22:13:20Z", "iso8601", AT_MS),
        ("2023-11-14T23:13:20.5+01:00", "iso8601", AT_MS + 500),
    ],
)
def test_time_is_converted_from_its_unit(value: Any, unit: str, at_ms: int) -> None:
    event = mapped(document={**DOCUMENT, "created": value}, occurred_at={"path": "created", "unit": unit})
    assert event.occurred_at == at_ms


@pytest.mark.parametrize("name", ["unit", "key"])
def test_optional_field_may_be_absent(name: str) -> None:
    assert getattr(mapped(**{name: {"path": "shop.other"}}), name) is None


def test_numbers_become_the_texts_and_the_club_of_an_event() -> None:
    event = mapped(document={**DOCUMENT, "shop": {"club": "7", "site": 100}, "order": {"id": 12}})
    assert (event.club_id, event.unit, event.key) == (7, "100", "12")


@pytest.mark.parametrize(
    ("changes", "document", "field", "path"),
    [
        ({}, {"shop": {"club": True}}, "club_id", "shop.club"),
        ({}, {"shop": {"club": 0}}, "club_id", "shop.club"),
        ({}, {"shop": {"club": "07"}}, "club_id", "shop.club"),
        ({}, {"shop": {"club": 7, "site": "100//7"}}, "unit", "shop.site"),
        ({}, {"shop": {"club": 7, "site": ["100"]}}, "unit", "shop.site"),
        ({}, {"created": AT_MS}, "occurred_at", "created"),
        ({}, {"created": True}, "occurred_at", "created"),
        ({}, {"created": 1e308}, "occurred_at", "created"),
        ({}, {"created": math.nan}, "occurred_at", "created"),
        ({"occurred_at": {"path": "created", "unit": "iso8601"}}, {}, "occurred_at", "created"),
        ({}, {"order": ["o1"]}, "data", "order"),
        ({}, {"order": {"id": "o1", "price": math.nan}}, "data", "order"),
        ({}, {"order": {"id": "o1", "photo": b"jpeg"}}, "data", "order"),
        ({"type": {"path": "order.id"}}, {"order": {"id": "Order Paid"}}, "type", "order.id"),
        pytest.param(
            {"type": {"path": "order.id"}},
            {"order": {"id": "send.completed"}},
            "type",
            "order.id",
            marks=pytest.mark.kills(guard="event_mapping.own_type"),
        ),
    ],
)
def test_unusable_value_is_refused_with_field_and_path(
    changes: dict[str, Any], document: dict[str, Any], field: str, path: str
) -> None:
    with pytest.raises(Unmapped) as refused:
        mapped(document=DOCUMENT | document, **changes)
    assert refused.value.field == field
    assert refused.value.problem.parameters["path"] == path


@pytest.mark.parametrize(
    ("name", "path"), [("club_id", "shop.none"), ("club_id", "created.club"), ("event_id", "headers.x-other")]
)
def test_path_without_value_is_missing(name: str, path: str) -> None:
    with pytest.raises(Unmapped, match=f"^{name} at {path}: is missing$"):
        mapped(**{name: {"path": path}})


def test_document_that_is_no_object_has_no_data() -> None:
    with pytest.raises(Unmapped, match="data at the document"):
        mapped({"type": {"value": "a"}, "club_id": {"value": 1}}, [1])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"type": None}, "type"),
        ({"other": {"value": 1}}, "other"),
        ({"type": {"value": "a", "path": "b"}}, "type"),
        ({"type": {}}, "type"),
        ({"type": "order.paid"}, "type"),
        ({"type": {"value": "Order Paid"}}, "type"),
        ({"type": {"value": "webhook.disabled"}}, "type"),
        ({"club_id": {"value": True}}, "club_id"),
        ({"club_id": {"value": 0}}, "club_id"),
        ({"unit": {"value": "/100"}}, "unit"),
        ({"key": {"value": ""}}, "key"),
        ({"key": {"path": "a..b"}}, "key"),
        ({"key": {"path": "a" * 201}}, "key"),
        ({"key": {"path": "headers.X-Id"}}, "key"),
        ({"key": {"path": 7}}, "key"),
        ({"key": {"path": "a", "unit": "s"}}, "key"),
        ({"event_id": {"value": "e1"}}, "event_id"),
        ({"occurred_at": {"value": AT_MS, "unit": "ms"}}, "occurred_at"),
        ({"occurred_at": {"path": "created"}}, "occurred_at"),
        ({"occurred_at": {"path": "created", "unit": "minutes"}}, "occurred_at"),
        ({"data": {"value": []}}, "data"),
    ],
)
def test_invalid_mapping_is_refused_with_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidMapping) as refused:
        EventMapping.of(MAPPING | changes)
    assert [name for name, _ in refused.value.problems] == [field]


@pytest.mark.parametrize("document", [None, [], "type"])
def test_mapping_that_is_no_object_is_refused(document: Any) -> None:
    with pytest.raises(InvalidMapping, match="mapping must be an object"):
        EventMapping.of(document)


values = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**63), 2**63 - 1) | some.floats() | some.text(max_size=5),
    lambda inner: some.dictionaries(some.sampled_from(["a", "b"]), inner) | some.lists(inner, max_size=2),
    max_leaves=5,
)


@given(document=some.fixed_dictionaries(dict.fromkeys("cdefghi", values)), unit=some.sampled_from(["ms", "s"]))
def test_any_document_gives_a_valid_event_or_is_refused(document: dict[str, Any], unit: str) -> None:
    mapping = {
        "type": {"path": "c"},
        "club_id": {"path": "d"},
        "unit": {"path": "e"},
        "key": {"path": "f"},
        "occurred_at": {"path": "g", "unit": unit},
        "event_id": {"path": "h"},
        "data": {"path": "i"},
    }
    try:
        event = mapped(mapping, document)
    except Unmapped:
        return
    assert list(faults(event)) == []
    assert isinstance(read_json(event.data), dict)
