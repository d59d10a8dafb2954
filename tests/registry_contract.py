"""What every schema registry adapter does, whatever stands behind it."""

from dataclasses import dataclass
from typing import Any

import pytest

from masscomm.errors import DeadLetter, Stop
from masscomm.wire import SchemaRegistry, own_schema


@dataclass(frozen=True)
class Registered:
    """A registry with schemas/SendRequested.avsc under one subject; absent_id: an id it does not hold."""

    registry: SchemaRegistry
    subject: str
    schema_id: int
    absent_id: int


class SchemaRegistryContract:
    """Subclasses give the fixture `registered`."""

    def test_a_schema_is_found_by_its_id(self, registered: Registered) -> None:
        found = registered.registry.schema_by_id(registered.schema_id)
        assert [field["name"] for field in found["fields"]] == [
            field["name"] for field in own_schema("SendRequested")["fields"]
        ]

    def test_an_id_there_is_none_of_is_a_dead_letter(self, registered: Registered) -> None:
        with pytest.raises(DeadLetter) as caught:
            registered.registry.schema_by_id(registered.absent_id)
        assert caught.value.reason == "unknown_schema"

    def test_the_id_of_our_schema_is_found_by_its_subject(self, registered: Registered) -> None:
        assert registered.registry.id_of(registered.subject, own_schema("SendRequested")) == registered.schema_id

    def test_a_subject_there_is_none_of_stops_the_function(self, registered: Registered) -> None:
        with pytest.raises(Stop):
            registered.registry.id_of(f"{registered.subject}-absent", own_schema("SendRequested"))

    def test_a_schema_the_subject_does_not_hold_stops_the_function(self, registered: Registered) -> None:
        other: dict[str, Any] = own_schema("SendRequested") | {"doc": "another", "name": "Other"}
        with pytest.raises(Stop):
            registered.registry.id_of(registered.subject, other)
