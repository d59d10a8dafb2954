"""The categories of sends (the field `type`), from schemas/categories.yaml."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from masscomm.domain.channels import CHANNELS
from masscomm.domain.names import folded
from masscomm.errors import Stop
from schemas import read_text

DEFAULT = "default"


class CategoriesError(Stop):
    """schemas/categories.yaml is not valid. The message names the entry."""


@dataclass(frozen=True)
class Category:
    """A category of sends, such as news."""

    # The channels of a send that does not name its channels.
    channels: tuple[str, ...]
    # Whether the category is sent even to users that have opted out.
    mandatory: bool
    # The channels on which only users with a rule for the category get it.
    opt_in: frozenset[str] = frozenset()
    # Language → the title that recipients see.
    titles: Mapping[str, str] = MappingProxyType({})

    def title(self, name: str, language: str) -> str:
        """Return the title of the category with this name: in a language, else in English, else from the name."""
        words = name.replace("_", " ")
        return self.titles.get(language) or self.titles.get("en") or words[:1].upper() + words[1:]


type Categories = Mapping[str, Category]


@dataclass(frozen=True, kw_only=True)
class CategoryTable:
    """The contents of schemas/categories.yaml."""

    # The listed categories by name, and under `default` the category that applies to all other names.
    categories: Categories
    # Club (tenant) → the categories that differ for its sends, by name.
    of_clubs: Mapping[int, Categories]
    # Name without case and blanks → the name of the listed category.
    names: Mapping[str, str]

    def find(self, name: str, club_id: int | None) -> Category:
        # A producer of Kafka may spell a category in another way, as user settings do.
        listed = self.names.get(folded(name), name)  # guard: categories.spelling
        own = self.of_clubs.get(club_id, {}) if club_id is not None else {}
        if listed in own:
            return own[listed]
        return self.categories.get(listed) or own.get(DEFAULT) or self.categories[DEFAULT]


@cache
def category_table() -> CategoryTable:
    """Return the contents of schemas/categories.yaml. Raises CategoriesError if it is not valid."""
    import yaml

    return read_categories(yaml.safe_load(read_text("categories.yaml")))


def optional_categories(channel: str) -> list[str]:
    """Return the names of the categories that use a channel by themselves and that recipients may leave."""
    table = category_table()
    found = {
        name
        for categories in (table.categories, *table.of_clubs.values())
        for name, each in categories.items()
        if channel in each.channels and not each.mandatory
    }
    return sorted(found)


def read_categories(document: Any) -> CategoryTable:
    """Return the contents of a parsed categories.yaml. Raises CategoriesError."""
    _check_keys(document, {DEFAULT, "categories", "tenants"}, "categories.yaml")
    if DEFAULT not in document:
        raise CategoriesError("categories.yaml needs the key default")
    default = _category(document[DEFAULT], Category((), False), DEFAULT)
    found = {DEFAULT: default} | {
        str(name): _category(entry, default, str(name)) for name, entry in _entries(document, "categories")
    }
    names = MappingProxyType(_names(found))
    clubs: dict[int, Categories] = {}
    for club_id, entry in _entries(document, "tenants"):
        where = f"tenants.{club_id}"
        if isinstance(club_id, bool) or not isinstance(club_id, int):
            raise CategoriesError(f"categories.yaml: {where}: a club's id is a whole number")
        clubs[club_id] = MappingProxyType(dict(_of_club(entry, found, where)))
    return CategoryTable(categories=MappingProxyType(found), of_clubs=MappingProxyType(clubs), names=names)


def _names(found: Categories) -> dict[str, str]:
    names: dict[str, str] = {}
    for name in found:
        if name != DEFAULT and names.setdefault(folded(name), name) != name:
            raise CategoriesError(f"categories.yaml: {name} and {names[folded(name)]} are spellings of one category")
    return names


def _of_club(entry: Any, known: Categories, where: str) -> Iterator[tuple[str, Category]]:
    _check_keys(entry, known.keys(), where)
    for name, own in entry.items():
        # A tenant cannot make a category mandatory, and so bypass its users' opt-outs.
        _check_keys(own, {"channels", "opt_in"}, f"{where}.{name}")
        yield name, _with_opt_in(_with_channels(known[name], own, f"{where}.{name}"), own, f"{where}.{name}")


def _category(entry: Any, default: Category, where: str) -> Category:
    _check_keys(entry, {"channels", "mandatory", "opt_in", "titles"}, where)
    mandatory = entry.get("mandatory", default.mandatory)
    if not isinstance(mandatory, bool):
        raise CategoriesError(f"categories.yaml: {where}.mandatory must be true or false")
    titles = _titles(entry.get("titles", {}), f"{where}.titles")
    found = replace(_with_channels(default, entry, where), mandatory=mandatory, titles=titles)
    return _with_opt_in(found, entry, where)


def _with_channels(found: Category, entry: Mapping[str, Any], where: str) -> Category:
    channels = _channels(entry.get("channels", list(found.channels)), f"{where}.channels")
    if not channels:
        raise CategoriesError(f"categories.yaml: {where}.channels must not be empty")
    return replace(found, channels=channels)


def _with_opt_in(found: Category, entry: Mapping[str, Any], where: str) -> Category:
    if "opt_in" in entry:
        given = entry["opt_in"]
        if isinstance(given, bool):
            given = list(CHANNELS) if given else []
        found = replace(found, opt_in=frozenset(_channels(given, f"{where}.opt_in")))
    if found.mandatory and found.opt_in:
        raise CategoriesError(f"categories.yaml: {where} is mandatory, so it cannot need an opt-in")
    return found


def _titles(given: Any, where: str) -> Mapping[str, str]:
    if not isinstance(given, dict) or not all(isinstance(each, str) and each for each in (*given, *given.values())):
        raise CategoriesError(f"categories.yaml: {where} must be a mapping of languages to texts")
    return MappingProxyType(given)


def _channels(names: Any, where: str) -> tuple[str, ...]:
    if not isinstance(names, list):
        raise CategoriesError(f"categories.yaml: {where} must be a list of channels")
    if unknown := [str(name) for name in names if name not in CHANNELS]:
        raise CategoriesError(f"categories.yaml: {where}: {', '.join(unknown)} is none of {', '.join(CHANNELS)}")
    return tuple(dict.fromkeys(names))


def _entries(document: Mapping[str, Any], key: str) -> Iterator[tuple[Any, Any]]:
    entries = document.get(key) or {}
    if not isinstance(entries, dict):
        raise CategoriesError(f"categories.yaml: {key} must be a mapping")
    yield from entries.items()


def _check_keys(entry: Any, allowed: Any, where: str) -> None:
    if not isinstance(entry, dict):
        raise CategoriesError(f"categories.yaml: {where} must be a mapping")
    if unknown := [str(key) for key in entry if key not in allowed]:
        expected = ", ".join(sorted(allowed))
        raise CategoriesError(f"categories.yaml: {where} has {', '.join(unknown)}; allowed are {expected}")


def categories() -> Categories:
    """Return the listed categories by name, and under ``default`` the category that applies to all other names.

    Raises:
        CategoriesError: schemas/categories.yaml is not valid.
    """
    return category_table().categories


def category(name: str, club_id: int | None = None) -> Category:
    """Return the category with that name, or else the default category; as it is for a club (tenant) if one is given.

    The table is cached, because the caller needs it for each recipient.
    """
    return category_table().find(name, club_id)


def is_listed(name: str) -> bool:
    """Return whether a category has an entry of its own."""
    return name != DEFAULT and name in category_table().categories


def passes_opt_outs_of(name: str, template: str | None) -> bool:
    """Return whether a mandatory category has the template of a listed category that is not: users who opted out of
    that one would get its text.
    """
    if template is None or not category(name).mandatory:
        return False
    return folded(template) in category_table().names and not category(template).mandatory


def is_confidential(name: str, template: str | None) -> bool:
    """Return whether a message is neither kept nor shown: its category or that of its template is mandatory, or the
    category is not listed, so that nothing is known of it.
    """
    # guard: kept_messages.category
    return not is_listed(name) or category(name).mandatory or (template is not None and category(template).mandatory)


def resolve_channels(name: str, requested: Sequence[str], club_id: int) -> list[str]:
    """Return a send's channels: the requested ones in their order without repetitions, else those of its category for
    the club (tenant).
    """
    return list(dict.fromkeys(requested)) or list(category(name, club_id).channels)
