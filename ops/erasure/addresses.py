"""Finds an e-mail address in a text, such as JSON, in every spelling of its characters.

A text may have a character as itself, in another Unicode normal form, in another case, or as an escape of JSON; in JSON
inside a string of JSON, the backslash of an escape is escaped itself, at each depth. The text is not parsed, so that
an address is found in any JSON, including a part of a text.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from itertools import groupby
from typing import NamedTuple

# An escape of two UTF-16 code units, or of one; or any other character.
_UNIT = re.compile(r"\\+u(d[89ab][0-9a-f]{2})\\+u(d[c-f][0-9a-f]{2})|\\+u([0-9a-f]{4})|.", re.IGNORECASE | re.DOTALL)


class _Letter(NamedTuple):
    """A letter or mark in the form that all its spellings share, and its place in the text."""

    sign: str
    start: int
    end: int


def without_addresses(text: str, addresses: Collection[str], replacement: str) -> str:
    """Return a text with each of the addresses replaced. JSON stays valid if the replacement needs no escape in it."""
    letters = list(_letters(text))
    signs = "".join(letter.sign for letter in letters)
    wanted = sorted({key for each in addresses if (key := _key(each))}, key=len, reverse=True)
    if not wanted:
        return text
    found, place = [], 0
    for match in re.finditer("|".join(map(re.escape, wanted)), signs):
        matched = letters[match.start() : match.end()]
        found += [text[place : min(letter.start for letter in matched)], replacement]
        place = max(letter.end for letter in matched)
    return "".join((*found, text[place:]))


def _key(address: str) -> str:
    return "".join(letter.sign for letter in _letters(address))


def _letters(text: str) -> Iterator[_Letter]:
    """Yield the letters and marks of a text. The marks of one letter are in one order, as in Unicode's normal forms."""
    units = (_Letter(sign, match.start(), match.end()) for match in _UNIT.finditer(text) for sign in _signs(match))
    for _, several in groupby(units, key=lambda letter: unicodedata.combining(letter.sign) > 0):
        yield from sorted(several, key=_class_of)


def _signs(match: re.Match[str]) -> str:
    return _folded(_character(match))  # guard: erasure.spelled_address


def _class_of(letter: _Letter) -> int:
    """Return Unicode's class of a mark; 0 of a letter."""
    return unicodedata.combining(letter.sign)


def _character(match: re.Match[str]) -> str:
    high, low, single = match.groups()
    if high is not None:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))
    return match[0] if single is None else chr(int(single, 16))


def _folded(character: str) -> str:
    """Return a character without case, in compatibility decomposition."""
    if character.isascii():
        return character.lower()
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
