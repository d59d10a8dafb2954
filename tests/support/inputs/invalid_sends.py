"""Sends that are dead-lettered at any entry to the chain."""

from typing import Any

from masscomm.domain.limits import FAR_FUTURE_MS, MAX_AHEAD_MS, MAX_PUSH_BYTES
from masscomm.domain.records import MAX_COPIED_BYTES
from masscomm.domain.time_limits import TOO_OLD_S
from tests.support.harness.chain import NOW

# (values, reason of the dead letter); the outcomes of these sends are failed.
INVALID_SENDS: list[tuple[dict[str, Any], str]] = [
    ({"data": {"text": "x" * (MAX_COPIED_BYTES + 1)}}, "too_large"),
    ({"reference": "x" * (MAX_COPIED_BYTES + 1)}, "too_large"),
    ({"template": "x" * MAX_COPIED_BYTES, "collapse_key": "y"}, "too_large"),
    ({"type": "two words"}, "invalid"),
    ({"type": "one_time_password", "template": "news"}, "invalid"),
    ({"push": '{"data":{"from":"x"}}'}, "invalid"),
    ({"push": "{"}, "invalid"),
    ({"push": " " * MAX_PUSH_BYTES + "{}"}, "invalid"),
    ({"per_minute": 0}, "invalid"),
    ({"per_minute": 1, "spread_over_ms": 60_000}, "invalid"),
    ({"spread_over_ms": 60_001}, "invalid"),
    ({"spread_over_ms": 60_000, "expires_at": NOW + 59_999}, "invalid"),
    ({"send_id": "no/id"}, "invalid"),
    ({"chunk_index": 2, "chunk_count": 2}, "invalid"),
    ({"chunk_index": -1}, "invalid"),
    ({"send_at": NOW + MAX_AHEAD_MS + 1}, "invalid"),
    ({"send_at": NOW // 1000}, "invalid"),
    ({"expires_at": NOW // 1000}, "invalid"),
    ({"expires_at": NOW * 1000}, "invalid"),
]

# Values that the metrics cannot count, so no outcomes are emitted for these sends.
UNCOUNTABLE_SENDS: list[dict[str, Any]] = [
    {"channels": [f"channel{position}" for position in range(17)]},
    {"channels": ["x" * 201]},
    {"channels": [""]},
    {"type": "x" * 1_000_000},
    {"type": "nul\0"},
    {"send_id": "x" * 201},
    {"timestamp": NOW + FAR_FUTURE_MS + 1},
    {"timestamp": -1},
    {"timestamp": NOW // 1000},
    {"timestamp": NOW - TOO_OLD_S * 1000 - 1},
    {"timestamp": NOW * 1000},
]
