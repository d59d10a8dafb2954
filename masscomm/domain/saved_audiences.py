"""Saved audiences: the conditions of an audience under a name of its tenant. A send copies them at its request."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Of one tenant.
MAX_SAVED_AUDIENCES = 100
# POST /v1/audiences/count has this name's path.
RESERVED_NAME = "count"


@dataclass(frozen=True, kw_only=True)
class SavedAudience:
    club_id: int
    name: str
    # The audience as in a request, without except_users.
    definition: Mapping[str, Any]
    # The time of the last change, in ms since the epoch.
    changed_at_ms: int
