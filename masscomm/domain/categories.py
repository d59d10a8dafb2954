"""The categories of sends (the field `type`): those of schemas/categories.yaml, and the versions that operators have
put in their place.

Each version begins at a time, so that all functions and the job use the same one for a send: the one that is valid at
the send's timestamp.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from masscomm.domain.channels import CHANNELS
from masscomm.domain.digests import Digest, DigestError, digest_in, read_digest
from masscomm.domain.frequency_caps import Cap, CapError, read_caps
from masscomm.domain.lanes import Lane
from masscomm.domain.names import folded
from masscomm.errors import Stop
from masscomm.integers import integer
from masscomm.safe_yaml import parse_yaml
from schemas import read_text

DEFAULT = "default"
# The keys of an entry.
_FIELDS = {"channels", "mandatory", "critical", "opt_in", "caps", "digest", "shorten", "titles", "descriptions"}


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
    # How many sends a user gets in a time; None: as many as the default category of the club allows.
    caps: tuple[Cap, ...] | None = None
    # How its notifications are collected; None: each goes out by itself.
    digest: Digest | None = None
    # Whether the body of a push that is too large for a platform is shortened. Otherwise the push fails.
    shorten: bool = False
    # Language → the title that recipients see.
    titles: Mapping[str, str] = MappingProxyType({})
    # Whether its sends use the critical lane: no cap, digest, pace or quiet hours apply to them.
    critical: bool = False
    # Language → a sentence for recipients about its content.
    descriptions: Mapping[str, str] = MappingProxyType({})

    def title(self, name: str, language: str) -> str:
        """Return the title of the category with this name: in a language, else in English, else from the name."""
        words = name.replace("_", " ")
        return self.titles.get(language) or self.titles.get("en") or words[:1].upper() + words[1:]

    def description(self, language: str) -> str:
        """Return what the category contains: in a language, else in English; "" if no text says it."""
        return self.descriptions.get(language) or self.descriptions.get("en") or ""


type Categories = Mapping[str, Category]


@dataclass(frozen=True, kw_only=True)
class CategoryVersion:
    """A category as an operator has put it."""

    # The time from which it is valid, in milliseconds since the epoch.
    from_ms: int
    category: Category
    # Club (tenant) → the category as it is for its sends, where it differs.
    of_clubs: Mapping[int, Category] = MappingProxyType({})
    # Whether new sends over REST are refused. Those by Kafka keep its rules.
    is_retired: bool = False

    def for_club(self, club_id: int | None) -> Category:
        """Return the category as it is for the sends of a club; None: for those of the others."""
        return self.category if club_id is None else self.of_clubs.get(club_id, self.category)


# Name → the versions of a category, the earliest first.
type Versions = Mapping[str, Sequence[CategoryVersion]]


@dataclass(frozen=True, kw_only=True, eq=False)
class CategoryTable:
    """The categories at all times. Two tables are equal if they are one object."""

    # The categories of schemas/categories.yaml by name, and under `default` the category that applies to all other
    # names. One that has versions, the default category included, is valid until the first of them.
    categories: Categories
    # Club (tenant) → the categories that differ for its sends, by name.
    of_clubs: Mapping[int, Categories]
    # Name without case and blanks → the name of the listed category.
    names: Mapping[str, str]
    versions: Versions = MappingProxyType({})

    @property
    def listed(self) -> list[str]:
        """The names of all categories but the default one, those that begin in a minute included."""
        return list(dict.fromkeys(name for name in (*self.categories, *self.versions) if name != DEFAULT))

    def find(self, name: str, club_id: int | None, at_ms: int | None) -> Category:
        # A producer of Kafka may spell a category in another way, as user settings do. The job compares as this does
        # (spark_metrics.counting.facts).
        listed = self.names.get(folded(name), name) if name.isascii() else name  # guard: categories.spelling
        if listed in self.versions and (version := self.version(listed, at_ms)) is not None:
            return version.for_club(club_id)
        own = self.of_clubs.get(club_id, {}) if club_id is not None else {}
        if listed in own:
            return own[listed]
        return self.categories.get(listed) or self.default(club_id, at_ms)

    def default(self, club_id: int | None, at_ms: int | None) -> Category:
        """Return the category that applies to the other names at a time, for a club or for all."""
        if (version := self.version(DEFAULT, at_ms)) is not None:
            return version.for_club(club_id)
        own = self.of_clubs.get(club_id, {}) if club_id is not None else {}
        return own.get(DEFAULT) or self.categories[DEFAULT]

    def version(self, listed: str, at_ms: int | None) -> CategoryVersion | None:
        """Return the version that is valid at a time, or the last one; None: schemas/categories.yaml is valid then."""
        versions = self.versions.get(listed, ())
        return next((each for each in reversed(versions) if at_ms is None or each.from_ms <= at_ms), None)

    def last(self, name: str) -> list[Category]:
        """Return a listed category as it was put last, and as it is for the clubs where it differs."""
        version = self.version(name, None)
        if version is not None:
            return [version.category, *version.of_clubs.values()]
        return [self.categories[name], *(own[name] for own in self.of_clubs.values() if name in own)]

    def with_versions(self, versions: Versions) -> "CategoryTable":
        """Return the table with other versions. Raises CategoriesError if two names are spellings of one."""
        found = replace(self, versions=MappingProxyType(dict(versions)))
        return replace(found, names=MappingProxyType(_names(found.listed)))


@cache
def seed() -> CategoryTable:
    """Return the contents of schemas/categories.yaml. Raises CategoriesError if it is not valid."""
    return read_categories(parse_yaml(read_text("categories.yaml")))


# The table with the versions that this process has read last; None: it has read none.
_current: CategoryTable | None = None


def category_table() -> CategoryTable:
    """Return the categories with the versions that this process has read. Raises CategoriesError."""
    return seed() if _current is None else _current


def use_versions(versions: Versions) -> None:
    """Let this process use these versions. Raises CategoriesError."""
    global _current
    _current = seed().with_versions(versions)


def optional_categories(channel: str) -> list[str]:
    """Return the names of the categories that use a channel by themselves and that recipients may leave."""
    table = category_table()
    return sorted(
        name
        for name in (DEFAULT, *table.listed)
        if any(channel in each.channels and not each.mandatory for each in table.last(name))
    )


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


def _names(found: Iterable[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for name in found:
        if name != DEFAULT and names.setdefault(folded(name), name) != name:
            raise CategoriesError(f"categories.yaml: {name} and {names[folded(name)]} are spellings of one category")
    return names


def read_category(name: str, entry: Any) -> tuple[Category, Mapping[int, Category]]:
    """Return a category, and as it is for the clubs where it differs, from an entry of `categories` that may have the
    key `tenants`, with a club's id as text. Raises CategoriesError.
    """
    _check_keys(entry, {*_FIELDS, "tenants"}, name)
    own = {key: value for key, value in entry.items() if key != "tenants"}
    found = _category(own, Category((), False), name)
    clubs: dict[int, Category] = {}
    for club_id, differing in _entries(entry, "tenants"):
        where = f"{name}.tenants.{club_id}"
        try:
            number = integer(str(club_id))
        except ValueError as error:
            raise CategoriesError(f"{where}: a club's id is a whole number") from error
        clubs[number] = _differing(found, differing, where)
    return found, MappingProxyType(clubs)


def _of_club(entry: Any, known: Categories, where: str) -> Iterator[tuple[str, Category]]:
    _check_keys(entry, known.keys(), where)
    for name, own in entry.items():
        yield name, _differing(known[name], own, f"{where}.{name}")


def _differing(found: Category, own: Any, where: str) -> Category:
    # A tenant cannot make a category mandatory, and so bypass its users' opt-outs.
    _check_keys(own, {"channels", "opt_in", "caps", "digest"}, where)
    found = _with_caps(_with_opt_in(_with_channels(found, own, where), own, where), own, where)
    # Null: its notifications go out by themselves.
    return _with_digest(replace(found, digest=None), own, where) if "digest" in own else found


def _category(entry: Any, default: Category, where: str) -> Category:
    _check_keys(entry, _FIELDS, where)
    found = replace(
        _with_channels(default, entry, where),
        mandatory=_flag(entry.get("mandatory", default.mandatory), f"{where}.mandatory"),
        critical=_flag(entry.get("critical", default.critical), f"{where}.critical"),
        shorten=_flag(entry.get("shorten", default.shorten), f"{where}.shorten"),
        titles=_texts(entry.get("titles", {}), f"{where}.titles"),
        descriptions=_texts(entry.get("descriptions", {}), f"{where}.descriptions"),
        caps=None,
        digest=None,
    )
    return _with_digest(_with_caps(_with_opt_in(found, entry, where), entry, where), entry, where)


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise CategoriesError(f"categories.yaml: {where} must be true or false")
    return value


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


def _with_caps(found: Category, entry: Mapping[str, Any], where: str) -> Category:
    if entry.get("caps") is not None:
        try:
            found = replace(found, caps=read_caps(entry["caps"]))
        except CapError as error:
            raise CategoriesError(f"categories.yaml: {where}.caps: {error}") from error
    if found.caps:
        _check_may_wait(found, "caps", where)
    return found


def _with_digest(found: Category, entry: Mapping[str, Any], where: str) -> Category:
    if entry.get("digest") is None:
        return found
    _check_may_wait(found, "a digest", where)
    try:
        return replace(found, digest=read_digest(entry["digest"]))
    except DigestError as error:
        raise CategoriesError(f"categories.yaml: {where}.digest: {error}") from error


def _check_may_wait(found: Category, what: str, where: str) -> None:
    """Check that a category may have caps or a digest, which keep notifications from users."""
    if found.mandatory or found.critical:
        rule = "mandatory" if found.mandatory else "critical"
        raise CategoriesError(f"categories.yaml: {where} is {rule}, so it cannot have {what}")


def _texts(given: Any, where: str) -> Mapping[str, str]:
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


def categories() -> list[str]:
    """Return the names of the listed categories. Raises CategoriesError."""
    return category_table().listed


def category(name: str, club_id: int | None = None, at_ms: int | None = None) -> Category:
    """Return the category with that name, or else the default category.

    Args:
        name: The name, in any spelling.
        club_id: The club (tenant) for which it is asked.
        at_ms: The timestamp of the send, in milliseconds since the epoch; None: as it was put last.
    """
    return category_table().find(name, club_id, at_ms)


def is_listed(name: str) -> bool:
    """Return whether a category has an entry of its own."""
    table = category_table()
    return name != DEFAULT and (name in table.categories or name in table.versions)


def is_retired(name: str) -> bool:
    """Return whether an operator has retired a category."""
    version = category_table().version(name, None)
    return version is not None and version.is_retired


def caps_of(name: str, club_id: int, at_ms: int | None, lane: Lane | None = None) -> tuple[Cap, ...]:
    """Return the frequency caps of a send at its timestamp: those of its category for the club (tenant), or else those
    of the club's default category. A mandatory or critical category has none, and neither has the critical lane.
    """
    if lane is Lane.CRITICAL:  # guard: frequency_caps.critical
        return ()
    found = category(name, club_id, at_ms)
    if found.mandatory or found.critical:  # guard: frequency_caps.mandatory
        return ()
    return (category_table().default(club_id, at_ms).caps or ()) if found.caps is None else found.caps


def digest_of(name: str, club_id: int, at_ms: int | None, lane: Lane, own: str | None) -> Digest | None:
    """Return the digest in which the notifications of a send are collected: its own, or that of its category at its
    timestamp. The critical lane has none.

    Args:
        name: The category.
        club_id: The club (tenant).
        at_ms: The timestamp of the send, in milliseconds since the epoch.
        lane: The lane of its record.
        own: The text of the send's own digest. Raises DigestError if it cannot be read.
    """
    if lane is Lane.CRITICAL:  # guard: digests.critical
        return None
    return category(name, club_id, at_ms).digest if own is None else digest_in(own)


def passes_opt_outs_of(name: str, template: str | None, at_ms: int | None = None) -> bool:
    """Return whether a mandatory category has the template of a listed category that is not: users who opted out of
    that one would get its text.
    """
    if template is None or not category(name, at_ms=at_ms).mandatory:
        return False
    return folded(template) in category_table().names and not category(template, at_ms=at_ms).mandatory


def is_confidential(name: str, template: str | None, at_ms: int | None = None) -> bool:
    """Return whether a message is neither kept nor shown: its category or that of its template is mandatory, or the
    category is not listed, so that nothing is known of it.
    """
    # guard: kept_messages.category
    return not is_listed(name) or any(
        category(each, at_ms=at_ms).mandatory for each in (name, template) if each is not None
    )


def resolve_channels(name: str, requested: Sequence[str], club_id: int, at_ms: int | None) -> list[str]:
    """Return a send's channels: the requested ones in their order without repetitions, else those of its category for
    the club (tenant) at the send's timestamp; None: as the category was put last.
    """
    return list(dict.fromkeys(requested)) or list(category(name, club_id, at_ms).channels)


def is_critical(name: str, at_ms: int) -> bool:
    """Return whether a send over REST uses the critical lane because of its category: as it is at a time, or of a new
    category its first version.
    """
    announced = _announced(name, at_ms)
    return (category(name, at_ms=at_ms) if announced is None else announced.category).critical


def requested_lane(name: str, priority: str | None, at_ms: int) -> Lane:
    """Return the lane of a send that is requested over REST at a time: its category's, else that of its priority."""
    return Lane.CRITICAL if is_critical(name, at_ms) else Lane(priority or Lane.BULK)


def announced_channels(name: str, club_id: int, at_ms: int) -> list[str]:
    """Return the channels of a category whose first version is not valid yet; else none. A send over REST names them:
    the chain would use those of the default category.
    """
    found = _announced(name, at_ms)
    return [] if found is None else list(found.for_club(club_id).channels)


def _announced(name: str, at_ms: int) -> CategoryVersion | None:
    """Return the first version of a category that is not valid yet; None for any other category."""
    table = category_table()
    versions = table.versions.get(name, ())
    return versions[0] if versions and name not in table.categories and versions[0].from_ms > at_ms else None
