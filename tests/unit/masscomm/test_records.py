"""Derived records: copied fields, fields of their own, and what the type checker rejects."""

import pytest

from masscomm.domain.records import BuildRequested, DeliveryFields, DeliveryRequested, OutcomeFields
from tests.support.harness.chain import NOW, build

FIELDS = DeliveryFields(built_at=NOW + 1, addresses=[], content=[])


def test_derived_record_has_copied_fields_and_its_own() -> None:
    parent = build([1, 2], expires_at=NOW + 9)
    record = parent.derive(DeliveryRequested, "delivery", "push", (0, 500), [1], [2], FIELDS)
    assert (record.parent_id, record.send_id, record.expires_at) == (parent.record_id, parent.send_id, NOW + 9)
    assert (record.channel, record.positions, record.user_ids, record.built_at) == ("push", [1], [2], NOW + 1)


def test_record_from_avro_equals_the_one_from_its_fields() -> None:
    record = build([1, 2], expires_at=NOW + 9)
    assert BuildRequested.from_avro(record.to_avro()) == record
    assert BuildRequested.from_avro({**record.to_avro(), "expires_at": None}) == build([1, 2])


def test_record_from_avro_is_checked_like_its_constructor() -> None:
    values = build([1]).to_avro()
    del values["data"]
    assert BuildRequested.from_avro(values) == build([1])
    with pytest.raises(TypeError, match="unknown"):
        BuildRequested.from_avro({**values, "unknown": 1})
    del values["channel"]
    with pytest.raises(TypeError, match="channel"):
        BuildRequested.from_avro(values)


def test_wrong_field_of_a_derived_record_is_rejected() -> None:
    """mypy --strict also rejects this call: otherwise it would report the ignore comment as unused."""
    with pytest.raises(TypeError, match="built"):
        DeliveryFields(built=NOW, addresses=[], content=[])  # type: ignore[call-arg]


def test_own_fields_of_another_kind_are_rejected() -> None:
    own = OutcomeFields(step="build", timestamp=NOW, requested_at=NOW, results=[], result_index=[])
    with pytest.raises(TypeError, match="built_at"):
        build([1]).derive(DeliveryRequested, "delivery", "push", (0, 500), [0], [1], own)  # type: ignore[misc]
