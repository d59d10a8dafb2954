"""Sends that are counted or ignored: metrics and preference checker must agree on each of them.

If the metrics counted a send for which the preference checker emits no outcomes, the send would never be complete.
"""

from typing import Any

from masscomm.domain.limits import FAR_FUTURE_MS, LONGEST_TEXT, MAX_CHANNELS
from masscomm.domain.time_limits import TOO_OLD_S

PRODUCED_MS = 1_700_000_000_000
LONG = "ü" * LONGEST_TEXT  # the limit counts characters, not bytes
CHANNELS = [f"channel {n}" for n in range(MAX_CHANNELS)]

# (changed fields of a countable send that was produced at PRODUCED_MS, whether the changed send is counted).
CASES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"timestamp": PRODUCED_MS + FAR_FUTURE_MS}, True),
    ({"timestamp": PRODUCED_MS + FAR_FUTURE_MS + 1}, False),
    ({"timestamp": PRODUCED_MS - TOO_OLD_S * 1000}, True),
    ({"timestamp": PRODUCED_MS - TOO_OLD_S * 1000 - 1}, False),
    ({"timestamp": 0}, False),
    ({"timestamp": PRODUCED_MS // 1000}, False),
    ({"timestamp": -1}, False),
    ({"type": ""}, False),
    ({"type": LONG}, True),
    ({"type": LONG + "x"}, False),
    ({"type": "\U0001f600" * LONGEST_TEXT}, True),  # a character that has two UTF-16 units counts as one
    ({"type": "a\0b"}, False),
    ({"type": " "}, True),
    ({"send_id": LONG}, True),
    ({"send_id": LONG + "x"}, False),
    ({"send_id": "\0"}, False),
    ({"send_id": ""}, True),  # an empty id counts as absent: the id derives from the source position
    ({"send_id": None}, True),
    ({"channels": ["push", ""]}, False),
    ({"channels": [LONG]}, True),
    ({"channels": [LONG + "x"]}, False),
    ({"channels": ["a\0b"]}, False),
    ({"channels": CHANNELS}, True),
    ({"channels": [*CHANNELS, "one more"]}, False),
    ({"channels": ["push"] * MAX_CHANNELS}, True),
    ({"channels": ["push"] * (MAX_CHANNELS + 1)}, False),  # a repeated channel counts towards the limit
    ({"channels": [""], "to_users": []}, False),
    ({"to_users": []}, True),
    ({"chunk_index": 3, "chunk_count": 1}, True),  # dead-lettered, but with outcomes of its recipients
]
