"""Addresses of recipients, as forms, imported lists and copied texts spell them."""

import re
from unicodedata import category

from masscomm.domain.mail_domains import domain_in_ascii

# Control and format characters (such as U+200B, U+FEFF and the direction marks), and each kind of space.
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
# The others with Unicode's Default_Ignorable_Code_Point: joiners, fillers, variation selectors, unassigned ones.
# https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)


def trimmed_address(address: str) -> str:
    """Return an address without the invisible characters around it, which no reader sees and no mail server accepts."""
    # Almost every address ends here.
    if address.isascii() and address.isprintable():
        return address.strip()
    start, end = 0, len(address)
    while start < end and _is_invisible(address[start]):
        start += 1
    while start < end and _is_invisible(address[end - 1]):
        end -= 1
    return address[start:end]  # guard: addresses.invisible_characters


def with_ascii_domain(address: str) -> str:
    """Return the trimmed address with its domain in ASCII (IDNA), as it is in the envelope of an e-mail. Raises
    ValueError if the domain is not valid.
    """
    name, at, domain = trimmed_address(address).rpartition("@")
    return f"{name}{at}{domain_in_ascii(domain)}"


def _is_invisible(character: str) -> bool:
    return category(character) in _INVISIBLE_CATEGORIES or _IGNORABLE.match(character) is not None
