"""The tests that every schema registry adapter must pass, in memory and real."""

from dataclasses import dataclass
from typing import Any

import pytest

from masscomm.errors import Retry, Stop
from masscomm.kafka.avro import LAST_SCHEMA_ID, SchemaRegistry, UnknownSchema, own_schema


@dataclass(frozen=True)
class Registered:
    """A registry with schemas/SendRequested.avsc under one subject.

    Attributes:
        absent_id: A schema id that the registry does not have.
        empty: Another registry, without any schema of masscomm.
    """

    registry: SchemaRegistry
    subject: str
    schema_id: int
    absent_id: int
    empty: SchemaRegistry


class SchemaRegistryContract:
    """Subclasses define the fixture `registered`."""

    def test_a_schema_is_found_by_its_id(self, registered: Registered) -> None:
        found = registered.registry.schema_by_id(registered.schema_id)
        assert [field["name"] for field in found["fields"]] == [
            field["name"] for field in own_schema("SendRequested")["fields"]
        ]

    def test_unknown_schema_id_is_a_dead_letter(self, registered: Registered) -> None:
        for absent_id in (registered.absent_id, LAST_SCHEMA_ID):
            with pytest.raises(UnknownSchema) as caught:
                registered.registry.schema_by_id(absent_id)
            assert (caught.value.reason, caught.value.schema_id) == ("unknown_schema", absent_id)

    @pytest.mark.guarantee("schema_registry.empty_registry_denies_no_id", "registry_answer.no_known_schema")
    def test_a_registry_without_our_schemas_denies_no_id(self, registered: Registered) -> None:
        """An empty registry or a wrong address is a fault of the installation, so no record may be dead-lettered."""
        for schema_id in (registered.schema_id, registered.absent_id):
            with pytest.raises(Retry):
                registered.empty.schema_by_id(schema_id)

    def test_the_id_of_our_schema_is_found_by_its_subject(self, registered: Registered) -> None:
        assert registered.registry.id_of(registered.subject, own_schema("SendRequested")) == registered.schema_id

    def test_unknown_subject_is_a_stop(self, registered: Registered) -> None:
        with pytest.raises(Stop):
            registered.registry.id_of(f"{registered.subject}-absent", own_schema("SendRequested"))

    def test_subject_without_our_schema_is_a_stop(self, registered: Registered) -> None:
        other: dict[str, Any] = own_schema("SendRequested") | {"doc": "another", "name": "Other"}
        with pytest.raises(Stop):
            registered.registry.id_of(registered.subject, other)
