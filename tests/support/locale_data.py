"""Derives schemas/locales.json from CLDR's data, by Babel.

python -m tests.support.locale_data > schemas/locales.json
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from babel import localedata
from babel.core import get_global

Parts = tuple[str, str, str]


def locale_data() -> dict[str, dict[str, str]]:
    """Return the tables of schemas/locales.json, in lower case, with hyphens."""
    likely: Mapping[str, Parts] = {
        name: _parts(full) for name, full in get_global("likely_subtags").items() if not name.startswith("und")
    }
    tables: dict[str, dict[str, str]] = {
        "languages": dict(get_global("language_aliases")),
        "parents": dict(get_global("parent_exceptions")),
        "regions_of_old": _one_to_one(get_global("territory_aliases")),
        "scripts": _scripts(likely),
        "regions": _regions(likely),
    }
    return {
        name: {_tag(key): _tag(value) for key, value in sorted(table.items())} for name, table in sorted(tables.items())
    }


def _parts(full: str) -> Parts:
    language, script, region = full.split("_")
    return language, script, region


def _scripts(likely: Mapping[str, Parts]) -> dict[str, str]:
    """Return the likely script of each language that is not Latin, and of a region with another script."""
    scripts = {name: script for name, (_, script, _) in likely.items() if "_" not in name and script != "Latn"}
    for name, (language, script, region) in likely.items():
        if name == f"{language}_{region}" and script != scripts.get(language, "Latn"):
            scripts[name] = script
    return scripts


def _regions(likely: Mapping[str, Parts]) -> dict[str, str]:
    """Return the likely region of each language and script that CLDR has in several regions."""
    found: dict[str, set[str]] = defaultdict(set)
    for identifier in localedata.locale_identifiers():
        language, *rest = identifier.split("_")
        if language in likely and rest and len(rest[-1]) < 4:
            found[f"{language}_{rest[0] if len(rest[0]) == 4 else likely[language][1]}"].add(rest[-1])
    several = [name for name, regions in found.items() if len(regions) > 1]
    return {name: likely.get(name, likely[name.split("_")[0]])[2] for name in several}


def _one_to_one(aliases: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the codes that one code replaces. The codes of three letters are in no locale's name."""
    return {old: new[0] for old, new in aliases.items() if len(new) == 1 and (len(old) == 2 or old.isdigit())}


def _tag(name: Any) -> str:
    return str(name).replace("_", "-").lower()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(locale_data(), indent=1) + "\n")
