"""The one parser of integers in texts from outside: headers, parameters, ids in paths, environment variables.

Python's int() also accepts spaces, underscores, other scripts' digits and leading zeros, so that one number would have
many spellings.
"""

import re

_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def integer(text: str | bytes | None, lowest: int = LOWEST, highest: int = HIGHEST) -> int:
    """Return the integer in a text of decimal digits: no sign but a minus, no leading zero, no other character.

    Raises:
        ValueError: The text has another form, is None, or the number is not from `lowest` to `highest`.
    """
    decoded = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    if decoded is None or not _CANONICAL.fullmatch(decoded):  # guard: integers.canonical
        raise ValueError(f"{decoded!r} is not an integer")
    if not lowest <= (number := int(decoded)) <= highest:
        raise ValueError(f"{decoded} is not from {lowest} to {highest}")
    return number


def integer_or[T](text: str | bytes | None, default: T, lowest: int = LOWEST, highest: int = HIGHEST) -> int | T:
    """Return the integer in a text, or the default where `integer` raises ValueError."""
    try:
        return integer(text, lowest, highest)
    except ValueError:
        return default
