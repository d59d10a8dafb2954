"""The last digits of phone numbers, by which users are searched. They are the same with and without a country code."""

from typing import Any
from unicodedata import decimal

# The field of a user's document with these digits.
PHONE_END = "phone_end"
# The longest text that is read.
_LONGEST = 60
DIGITS = 6


def phone_end(text: Any) -> str | None:
    """Return the last digits of a number as people write it; None if it has none."""
    digits = [decimal(each, None) for each in str(text or "")[:_LONGEST]]
    return "".join(str(each) for each in digits if each is not None)[-DIGITS:] or None
