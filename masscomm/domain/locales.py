"""Locales: the names that mean the same one, and the one that stands in for another.

CLDR's data are in schemas/locales.json, because importing Babel would add 67 ms to a cold start. They are read with the
first locale.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from schemas import read_text

# The signs between the parts of a name: de-CH, de_CH, sr_RS@latin of POSIX, zh_TW_#Hant of Java.
_SEPARATORS = re.compile(r"[-_@#]+")
_SCRIPT, _REGION = re.compile(r"[a-z]{4}"), re.compile(r"[a-z]{2}|[0-9]{3}")
# The names of scripts in POSIX.
_POSIX_SCRIPTS = {"latin": "latn", "cyrillic": "cyrl", "devanagari": "deva"}
# The script of the languages that are not in schemas/locales.json.
_LATIN = "latn"
# Norwegian is Bokmål, unless it is named Nynorsk (nn).
_NORWEGIAN = {"no": "nb"}
# The maximum length of a locale in a send. Users may have any text.
_LONGEST = 64


class Locale(NamedTuple):
    """A locale in the form that all its names share."""

    language: str
    # The script; the likely one of the language in the region, if the name has none.
    script: str
    # The region; "" if the name has none.
    region: str = ""
    # The variants and extensions.
    rest: tuple[str, ...] = ()

    def is_readable_for(self, other: "Locale") -> bool:
        """Return whether both have the same language and script."""
        return self[:2] == other[:2]  # guard: locales.script


class _Tables(NamedTuple):
    """The tables of schemas/locales.json."""

    # A code that ISO 639 has replaced, or that CLDR does not use → the language.
    languages: Mapping[str, str]
    # A code that ISO 3166 has replaced, or a number → the region.
    regions_of_old: Mapping[str, str]
    # A language, or a language and region → the likely script.
    scripts: Mapping[str, str]
    # A language and script → the likely region.
    regions: Mapping[str, str]
    # A locale → its parent, where that is not the locale without its region.
    parents: Mapping[str, str]


def read_locale(name: str) -> Locale:
    """Return the locale of a name: de_CH, de-ch and de-Latn-CH are equal, and so are iw and he, or zh-TW and
    zh-Hant-TW.
    """
    return _read(name[:_LONGEST])


def with_parents(locale: Locale) -> Iterator[Locale]:
    """Yield a locale, then its parents: without its last parts (RFC 4647, section 3.4), and those of CLDR."""
    for length in range(len(locale.rest), -1, -1):
        yield locale._replace(rest=locale.rest[:length])
    parent = _parent_of(locale._replace(rest=()))
    while parent is not None:
        yield parent
        parent = _parent_of(parent)


def nearest(wanted: Locale, available: Collection[Locale]) -> Locale | None:
    """Return the wanted locale or its nearest parent, else another one of its language and script, else a parent of
    another language; None if none of them is available.
    """
    parents = list(with_parents(wanted))
    own = [each for each in parents if each.is_readable_for(wanted)]
    found = next((each for each in own if each in available), None)
    if found is not None:
        return found

    def distance(other: Locale) -> tuple[int, bool, Locale]:
        shared = next(index for index, each in enumerate(own) if each in set(with_parents(other)))
        return shared, other.region != _tables().regions.get(f"{other.language}-{other.script}"), other

    related = [each for each in available if each.is_readable_for(wanted)]
    if related:
        return min(related, key=distance)
    return next((each for each in parents if each in available), None)


# Users may have any text as their locale.
@lru_cache(maxsize=1_024)
def _read(name: str) -> Locale:
    tables = _tables()
    first, *further = _SEPARATORS.split(name.strip().partition(".")[0].lower())
    language, *replaced = tables.languages.get(first, _NORWEGIAN.get(first, first)).split("-")
    parts = [*replaced, *further]
    script = region = ""
    rest: list[str] = []
    for index, part in enumerate(parts):
        if len(part) == 1:  # It begins an extension.
            rest += parts[index:]
            break
        part = _POSIX_SCRIPTS.get(part, part)
        if not script and _SCRIPT.fullmatch(part):
            script = part
        elif not region and _REGION.fullmatch(part):
            region = tables.regions_of_old.get(part, part)
        elif part:
            rest.append(part)
    likely = tables.scripts.get(f"{language}-{region}") or tables.scripts.get(language, _LATIN)
    return Locale(language, script or likely, region, tuple(rest))


def _parent_of(locale: Locale) -> Locale | None:
    parent = _parents().get(locale)  # guard: locales.parents
    if parent is None and locale.region:
        return locale._replace(region="")
    return parent


@cache
def _parents() -> Mapping[Locale, Locale]:
    read = {_read(child): _read(parent) for child, parent in _tables().parents.items()}
    # The parent of nb is no, which means the same.
    return {child: parent for child, parent in read.items() if child != parent}


@cache
def _tables() -> _Tables:
    return _Tables(**json.loads(read_text("locales.json")))
