"""The names in user settings: channels, categories, and the start and the end of quiet hours.

User settings are a customer's JSON. Names are compared without case and blanks. An unknown name may be an opt-out in
other words, so settings with one are malformed (masscomm.domain.preferences, masscomm.domain.quiet_hours). Names are
compared at each decision and not when a row is stored: a name that becomes known applies to all rows at once.
"""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from masscomm.domain.categories import CategoryTable, categories, category_table
from masscomm.domain.channels import CHANNELS
from masscomm.domain.names import folded
from masscomm.domain.source_tables import SourceTable, settings_names, source_tables

# Rules about malformed settings contain this word.
_MALFORMED = "malformed"
_MALFORMED_RULE = re.compile(rf"(^quiet_hours .*\(| ){_MALFORMED}\b")
# The largest part of an unknown name in a rule.
_LONGEST_NAME = 40


class SettingNames(NamedTuple):
    """The known names in each place of user settings, without case and blanks."""

    channels: frozenset[str]
    categories: frozenset[str]
    # Inside the rule for a category.
    in_category: frozenset[str]
    quiet_hours: frozenset[str]


class NamedSettings(NamedTuple):
    """The settings in a JSON object."""

    # Known name, without case and blanks → setting.
    known: Mapping[str, Any]
    # The first unknown name that has a value; None if there is none.
    unknown: str | None


def setting_names() -> SettingNames:
    """Return the known names by the categories and schemas/source.yaml.

    Raises:
        CategoriesError, SourceError: A file is not valid.
    """
    return _names_with(category_table())


@lru_cache(maxsize=1)
def _names_with(_: CategoryTable) -> SettingNames:
    return names_for(source_tables(), settings_names())


def names_for(sources: Mapping[str, SourceTable], others: Collection[str]) -> SettingNames:
    """Return the known names.

    Args:
        sources: The entries of a source.yaml.
        others: Its `settings_names`.
    """
    allowed = frozenset(map(folded, others))
    in_category = frozenset(map(folded, CHANNELS)) | allowed
    listed = frozenset(folded(name) for name in categories()) | allowed
    columns = sources["user_settings"].columns if "user_settings" in sources else {}
    # A column that is mapped twice has the rules for channels and those for categories.
    if "channels" in columns and columns["channels"] == columns.get("categories"):
        return SettingNames(in_category | listed, in_category | listed, in_category, _HOURS | allowed)
    return SettingNames(in_category, listed, in_category, _HOURS | allowed)


_HOURS = frozenset(("start", "end"))


def read_names(settings: Mapping[str, Any], names: frozenset[str]) -> NamedSettings:
    """Return the settings in a JSON object by name.

    Null is not a setting. If a name has several spellings, the setting is true only if it is true under each of them.
    """
    if settings.keys() <= names:
        return NamedSettings(settings, None)
    known: dict[str, Any] = {}
    unknown: str | None = None
    for spelling, value in settings.items():
        if value is None:
            continue
        name = folded(spelling)
        if name not in names:
            unknown = spelling if unknown is None else unknown
        elif name in known:
            known[name] = known[name] is True and value is True  # guard: preferences.two_spellings
        else:
            known[name] = value
    return NamedSettings(known, unknown)


def setting_under(settings: Mapping[str, Any], name: str) -> Any:
    """Return the setting under all spellings of a name; None if there is none."""
    key = folded(name)
    return read_names(settings, frozenset((key,))).known.get(key)


def without_spellings(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the settings without those under a spelling of a name."""
    return {spelling: value for spelling, value in settings.items() if folded(spelling) != folded(name)}


def malformed(unknown: str | None = None) -> str:
    """Return the end of a rule about malformed settings, with the unknown name if there is one."""
    return _MALFORMED if unknown is None else f"{_MALFORMED}: {unknown[:_LONGEST_NAME]}"


def is_malformed(rule: str | None) -> bool:
    """Return whether the rule of a decision is about malformed settings."""
    return rule is not None and _MALFORMED_RULE.search(rule) is not None
