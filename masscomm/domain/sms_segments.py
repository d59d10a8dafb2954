"""Counts the segments of an SMS, which are sent and billed one by one.

A text of GSM 03.38 has 160 units in one segment, or 153 in each of several; a character of its extension table takes
two units. Any other text is UCS-2, with 70 or 67 units of UTF-16. No character is divided between two segments.
National tables are not used: AWS does not use them.

Source: 3GPP TS 23.038, 6.2.1; AWS End User Messaging SMS, "SMS character limits".
"""

from collections.abc import Iterable
from typing import Literal

MAX_SEGMENTS = 6
_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENDED = frozenset("\f^{}\\[~]|€")
_KNOWN = _BASIC | _EXTENDED
_LAST_OF_ONE_UNIT = 0xFFFF


def encoding(text: str) -> Literal["GSM-7", "UCS-2"]:
    """Return the encoding of a text: GSM 03.38 with 7 bits, or UCS-2."""
    return "GSM-7" if _KNOWN.issuperset(text) else "UCS-2"


def segments(text: str) -> int:
    """Return the number of segments of a text; 0 if it is empty."""
    if encoding(text) == "GSM-7":
        return _packed((2 if character in _EXTENDED else 1 for character in text), alone=160, joined=153)
    return _packed((1 if ord(character) <= _LAST_OF_ONE_UNIT else 2 for character in text), alone=70, joined=67)


def _packed(sizes: Iterable[int], *, alone: int, joined: int) -> int:
    units = list(sizes)
    if sum(units) <= alone:
        return 1 if units else 0
    count, used = 1, 0
    for size in units:
        if used + size > joined:  # guard: sms_segments.undivided_character
            count, used = count + 1, 0
        used += size
    return count
