"""Upper and lower case in languages that have i with and without a dot."""

import re
from collections.abc import Callable, Mapping

from masscomm.domain.locales import read_locale

# The first letter of each word: the separators are those of Jinja's filter `title`.
_FIRST_LETTER = re.compile(r"(?<![^-\s({\[<])[^-\s({\[<]")
# The languages in which CLDR's capital of i is İ.
_DOTTED = {"tr", "az"}


def _upper(text: str) -> str:
    return text.replace("i", "İ").upper()


def _lower(text: str) -> str:
    return text.replace("I\u0307", "i").replace("İ", "i").replace("I", "\u0131").lower()


def _capitalize(text: str) -> str:
    return _upper(text[:1]) + _lower(text[1:])


def _title(text: str) -> str:
    """Return the text with a capital at the beginning of each word, as Jinja's filter does."""
    return _FIRST_LETTER.sub(lambda letter: "İ" if letter[0] == "i" else letter[0].upper(), _lower(text))


CASES: Mapping[str, Callable[[str], str]] = {
    "upper": _upper,
    "lower": _lower,
    "capitalize": _capitalize,
    "title": _title,
}


def has_dotted_capital(locale: str) -> bool:
    """Return whether the filters of a template in this locale are those of CASES."""
    found = read_locale(locale)
    return found.language in _DOTTED and found.script == "latn"
