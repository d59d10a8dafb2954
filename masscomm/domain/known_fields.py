"""Reads stored values that a later version of the code may have written: two versions may run at once."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any


def known_fields(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are fields of a dataclass. A later version may have stored further ones."""
    names = _names(kind)
    return {name: value for name, value in values.items() if name in names}  # guard: stored.known_fields


@cache
def _names(kind: Any) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind))
