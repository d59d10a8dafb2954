"""The schema of a writer whose times have another logical type."""

import json
from collections.abc import Mapping
from typing import Any


def with_unit(schema: Mapping[str, Any], unit: str | None) -> dict[str, Any]:
    """Return one of our schemas with this logical type for each time; None: with none."""
    logical = "" if unit is None else f', "logicalType": "{unit}"'
    found: dict[str, Any] = json.loads(json.dumps(schema).replace(', "logicalType": "timestamp-millis"', logical))
    return found
