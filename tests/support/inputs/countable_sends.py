"""Sends that are counted or ignored: metrics and preference checker must agree on each of them.

A send that metrics count as requested and the preference checker emits no outcomes for would never be complete.
"""

from typing import Any

from masscomm.domain.limits import FAR_FUTURE_MS, LONGEST_TEXT, MAX_CHANNELS

PRODUCED_MS = 1_700_000_000_000
LONG = "ü" * LONGEST_TEXT  # characters, not bytes
CHANNELS = [f"channel {n}" for n in range(MAX_CHANNELS)]

# What differs from an ordinary send that was produced at PRODUCED_MS, and whether it is counted.
CASES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"timestamp": PRODUCED_MS + FAR_FUTURE_MS}, True),
    ({"timestamp": PRODUCED_MS + FAR_FUTURE_MS + 1}, False),
    ({"timestamp": 0}, True),
    ({"timestamp": -1}, False),
    ({"type": ""}, False),
    ({"type": LONG}, True),
    ({"type": LONG + "x"}, False),
    ({"type": "\U0001f600" * LONGEST_TEXT}, True),  # two UTF-16 units each
    ({"type": "a\0b"}, False),
    ({"type": " "}, True),
    ({"send_id": LONG}, True),
    ({"send_id": LONG + "x"}, False),
    ({"send_id": "\0"}, False),
    ({"send_id": ""}, True),  # as none: derived from its position
    ({"send_id": None}, True),
    ({"channels": ["push", ""]}, False),
    ({"channels": [LONG]}, True),
    ({"channels": [LONG + "x"]}, False),
    ({"channels": ["a\0b"]}, False),
    ({"channels": CHANNELS}, True),
    ({"channels": [*CHANNELS, "one more"]}, False),
    ({"channels": ["push"] * MAX_CHANNELS}, True),
    ({"channels": ["push"] * (MAX_CHANNELS + 1)}, False),  # named again, it is one more all the same
    ({"channels": [""], "to_users": []}, False),
    ({"to_users": []}, True),
    ({"chunk_index": 3, "chunk_count": 1}, True),  # dead-lettered, and its recipients have outcomes
]
