"""The log of recipients: one row with user, send and status for each recipient of an outcome record. It can be
switched off because of its size.

The log is written in the transaction that counts a lane of a batch. So it is as exact as the counts, and a redelivery
adds no row.
"""

import json
from functools import lru_cache
from typing import Any

NAME = "recipient_log"


@lru_cache(4_096)
def decisions_of(decisions: str) -> list[str | None]:
    """Return the decision of each result as JSON; None for a decision without a rule and without user settings.

    Args:
        decisions: The line of sources.decisions. Those of most records are equal, so they are cached.
    """
    columns = json.loads(decisions)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [_stored(row) if row.keys() - {"layer"} else None for row in map(_without_nulls, rows)]


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _stored(decision: dict[str, Any]) -> str:
    # PostgreSQL's texts cannot contain NUL.
    texts = {name: value.replace("\0", "\ufffd") for name, value in decision.items() if isinstance(value, str)}
    return json.dumps(decision | texts, separators=(",", ":"))
