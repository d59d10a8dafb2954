"""Data is checked against the schema of its type, by linear patterns and without a connection."""

import json
from typing import Any

import pytest

from masscomm.clock import FixedClock
from masscomm.domain.events import EventType
from masscomm.domain.time_limits import EVENT_TYPES_CACHED_S
from masscomm.stores.event_types.checks import KnownTypes, Misfit, UnusableSchema, compiled, misfit
from masscomm.stores.event_types.in_memory import InMemoryEventTypes

GOALS = json.dumps(
    {
        "type": "object",
        "required": ["goals"],
        "properties": {"goals": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
    }
)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"goals": [2, 1]}, None),
        ({}, Misfit("data", '"goals" is a required property')),
        ({"goals": [2, -1]}, Misfit("goals.1", "the value is less than the minimum of 0")),
        ({"goals": ["a secret"]}, Misfit("goals.0", 'the value is not of type "integer"')),
    ],
)
def test_a_misfit_has_its_place_and_no_value(data: Any, found: Misfit | None) -> None:
    assert misfit(GOALS, data) == found
    assert misfit(None, data) is None


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "nothing"}',
        '{"pattern": "("}',
        pytest.param('{"pattern": "(a)\\\\1"}', marks=pytest.mark.kills(guard="events.linear_patterns")),
        '{"$ref": "https://schemas.example.org/a.json"}',
        '{"$ref": "file:///etc/passwd"}',
        json.dumps({"description": "x" * 20_000}),
    ],
    ids=["keyword", "pattern", "back_reference", "remote", "file", "large"],
)
def test_an_unusable_schema_is_refused(schema: str) -> None:
    with pytest.raises(UnusableSchema):
        compiled(schema)


def test_a_type_is_read_again_after_a_while() -> None:
    clock, store = FixedClock(), InMemoryEventTypes()
    known = KnownTypes(store=store, clock=clock)
    assert known.find(["match.goal"]) == {}
    first = EventType(name="match.goal", description="A goal")
    store.put(first)
    assert known.find(["match.goal"]) == {"match.goal": first}
    store.delete("match.goal")
    assert known.find(["match.goal"]) == {"match.goal": first}
    clock.sleep(EVENT_TYPES_CACHED_S)
    assert known.find(["match.goal"]) == {}
