"""Reads the unit of each time from its writer's schema: Avro has three types of moments, ours is milliseconds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_OURS = "timestamp-millis"
# The logical type of a time → how many of its units are a millisecond. Numbers without a logical type are ours.
_DIVISORS: Mapping[str | None, int] = MappingProxyType(
    {None: 1, _OURS: 1, "timestamp-micros": 1_000, "timestamp-nanos": 1_000_000}
)


@dataclass(frozen=True)
class TimeUnits:
    """The units of the times in a writer's schema.

    Attributes:
        divisors: The field of a time that has another unit → the number by which its values are divided.
        problem: Why the schema cannot be used: the first field whose logical type is not a moment, such as a local
            timestamp or a date. None if each is one.
    """

    divisors: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None


def time_units(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> TimeUnits:
    """Return the units in which a writer's schema has the times of one of our schemas, both as Avro records. Times in
    nested records are left out: only masscomm writes them.
    """
    written = {each["name"]: each["type"] for each in _fields(writer)}
    divisors = {}
    for name in _times(reader):
        kinds = set(_logical_types(written.get(name, [])))
        found = {_DIVISORS.get(kind) for kind in kinds}
        if None in found or len(found) > 1:
            return TimeUnits(problem=f"{name} is a {' or '.join(map(str, kinds))}, not a {_OURS}, -micros or -nanos")
        if found - {1}:
            divisors[name] = found.pop() or 1
    return TimeUnits(divisors)


def _fields(schema: Any) -> Sequence[Mapping[str, Any]]:
    """Return the fields of a record; none of another type, whose values cannot be read as our records anyhow."""
    while isinstance(schema, dict) and isinstance(schema.get("type"), dict):
        schema = schema["type"]
    return schema["fields"] if isinstance(schema, dict) and schema.get("type") == "record" else ()


def _times(schema: Mapping[str, Any]) -> Iterator[str]:
    for each in _fields(schema):
        if _OURS in _logical_types(each["type"]):
            yield each["name"]


def _logical_types(schema: Any) -> Iterator[str | None]:
    """Return the logical type of each branch of a field's type but null; None for a branch without one."""
    for branch in schema if isinstance(schema, list) else [schema]:
        if isinstance(branch, dict) and isinstance(branch.get("type"), dict | list):
            yield from _logical_types(branch["type"])
        elif branch != "null":
            yield branch.get("logicalType") if isinstance(branch, dict) else None
