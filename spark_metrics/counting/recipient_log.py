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
    return [_stored(dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]


def _stored(decision: dict[str, Any]) -> str | None:
    # PostgreSQL's texts cannot contain NUL.
    kept = {
        name: value.replace("\0", "\ufffd") if isinstance(value, str) else value
        for name, value in decision.items()
        if value is not None
    }
    return json.dumps(kept, separators=(",", ":")) if kept.keys() - {"layer"} else None
