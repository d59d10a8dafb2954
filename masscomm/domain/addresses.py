"""Addresses of recipients, as forms, imported lists and copied texts spell them."""

from unicodedata import category

from masscomm.domain.mail_domains import domain_in_ascii

# Control and format characters (such as U+200B, U+FEFF and the direction marks), and each kind of space.
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
# Letters and marks without a width: the joiner of graphemes, Hangul fillers, and variation selectors.
_WITHOUT_WIDTH = frozenset("\u034f\u115f\u1160\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10))))


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
    return character in _WITHOUT_WIDTH or category(character) in _INVISIBLE_CATEGORIES
