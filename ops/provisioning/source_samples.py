"""Samples the rows of a monolith's database for names that masscomm does not know: in user settings, where they are
opt-outs, and of time zones and platforms.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from psycopg.types.string import TextLoader

from masscomm.cdc.captured_tables import DEVICES, USER_SETTINGS, USERS
from masscomm.cdc.change_events import column_value, columns_of
from masscomm.domain.names import folded
from masscomm.domain.platforms import platform_named
from masscomm.domain.setting_names import SettingNames, names_for
from masscomm.domain.source_tables import SourceTable
from masscomm.domain.time_zones import zone_of
from masscomm.errors import DeadLetter
from ops.provisioning.source_catalogue import read_only_connection
from ops.provisioning.source_check import Finding

# The rows that are read of a table, of blocks that PostgreSQL chooses.
_ROWS = 10_000
# The names that a finding lists, the most frequent first.
_LISTED = 10
_NO_OBJECT = "no object"
_EVERYTHING = "these users are opted out of everything that is not mandatory"
_PERCENT = "SELECT least(100, 100 * %s / greatest(reltuples, 1)) FROM pg_class WHERE oid = to_regclass(%s)"


class _Place(NamedTuple):
    """A place in the documents of a table that has names of other systems."""

    where: str
    # The columns of the directory, one of which has the place.
    column: str
    # Returns the unknown names in a value of the column.
    unknown: Callable[[Any], Collection[str]]
    consequence: str


@dataclass
class _Sample:
    """The rows of a table that were read."""

    rows: int = 0
    # Place → the number of rows with an unknown name there, and with each of these names.
    found: Counter[_Place] = field(default_factory=Counter)
    names: Counter[tuple[_Place, str]] = field(default_factory=Counter)
    refused: int = 0
    # The error of the first refused row.
    error: DeadLetter | None = None

    def findings(self, source: SourceTable) -> Iterator[Finding]:
        for place, rows in self.found.items():
            names = Counter({name: count for (at, name), count in self.names.items() if at is place})
            listed = [f"{name:.60} ({count})" for name, count in names.most_common(_LISTED)]
            further = [f"{len(names) - _LISTED} more"] if len(names) > _LISTED else []
            yield Finding(
                text=f"{source.qualified} ({source.name}): {place.where} unknown in {rows} of {self.rows} sampled rows"
                f" ({rows / self.rows:.1%}), so {place.consequence}: {', '.join(listed + further)}",
                warning=True,
            )
        if self.refused:
            yield Finding(
                text=f"{source.qualified} ({source.name}): {self.refused} of {self.rows} sampled rows would be"
                f" dead-lettered, for example: {self.error}",
                warning=True,
            )


def sample_source(
    database_url: str, sources: Mapping[str, SourceTable], settings_names: Collection[str]
) -> list[Finding]:
    """Return warnings about the names in up to 10,000 rows of each table. It changes nothing.

    Args:
        database_url: The URL of the monolith's database, in which check_source finds no problem.
        sources: The entries of the source.yaml.
        settings_names: Its `settings_names`.

    Raises:
        psycopg.Error: The database cannot be reached, or refuses a query.
    """
    places = _places(names_for(sources, settings_names))
    with read_only_connection(database_url) as connection:
        # Change data capture has JSON as texts.
        for name in ("json", "jsonb"):
            connection.adapters.register_loader(name, TextLoader)
        return [
            finding
            for source in sources.values()
            for finding in _sample(connection, source, places.get(source.directory_table, ())).findings(source)
        ]


def _places(names: SettingNames) -> Mapping[str, Collection[_Place]]:
    """Return the places with names by table of the directory."""
    return {
        USER_SETTINGS: (
            _Place("names in channels", "channels", lambda value: _unknown(value, names.channels), _EVERYTHING),
            _Place("names in categories", "categories", lambda value: _unknown(value, names.categories), _EVERYTHING),
            _Place(
                "names in the rules for a category",
                "categories",
                lambda value: _unknown_in_rules(value, names),
                "these users are opted out of the category",
            ),
            _Place(
                "names in quiet_hours",
                "quiet_hours",
                lambda value: _unknown(value, names.quiet_hours),
                "the default quiet hours apply to these users, too",
            ),
        ),
        USERS: (_Place("time zones", "time_zone", _unknown_zone, "the clock of these users is UTC"),),
        DEVICES: (_Place("platforms", "platform", _unknown_platform, "these devices get no push"),),
    }


def _sample(connection: psycopg.Connection[Any], source: SourceTable, places: Collection[_Place]) -> _Sample:
    sample, kinds, is_settings = _Sample(), columns_of(source.name), source.directory_table == USER_SETTINGS
    mapped = {
        name: value
        for name, value in source.columns.items()
        # An object of dates or times has the names that the source.yaml gives it.
        if name in {place.column for place in places} and all(part.format is None for part in value.parts())
    }
    columns = {part.column: None for value in mapped.values() for part in value.parts() if part.column is not None}
    if not columns:
        return sample
    table = sql.Identifier(source.schema, source.table)
    (percent,) = connection.execute(_PERCENT, (_ROWS, table.as_string(connection))).fetchone() or (100,)
    query = sql.SQL("SELECT {} FROM {} TABLESAMPLE SYSTEM ({}) LIMIT {}").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)), table, sql.Literal(percent), sql.Literal(_ROWS)
    )
    for row in connection.execute(query):
        values = dict(zip(columns, row, strict=True))
        sample.rows += 1
        try:
            document = {
                name: column_value(f"{source.name}.{name}", kinds[name], value, values.get, strict=is_settings)
                for name, value in mapped.items()
            }
        except DeadLetter as error:
            sample.refused += 1
            sample.error = sample.error or error
            continue
        for place in places:
            unknown = set(place.unknown(document.get(place.column)))
            sample.found[place] += bool(unknown)
            sample.names.update((place, name) for name in unknown)
    sample.found = +sample.found
    return sample


def _unknown(settings: Any, names: Collection[str]) -> Collection[str]:
    """Return the unknown names in settings, which are an object or malformed."""
    if settings is None:
        return ()
    if not isinstance(settings, Mapping):
        return (_NO_OBJECT,)
    # guard: source_check.unknown_settings
    return [name for name, value in settings.items() if value is not None and folded(name) not in names]


def _unknown_in_rules(categories: Any, names: SettingNames) -> Collection[str]:
    if not isinstance(categories, Mapping):
        return ()
    return [
        f"{category}.{name}"
        for category, rule in categories.items()
        if isinstance(rule, Mapping) and folded(category) in names.categories
        for name in _unknown(rule, names.in_category)
    ]


def _unknown_zone(name: Any) -> Collection[str]:
    return (name,) if isinstance(name, str) and name.strip() and zone_of(name) is None else ()


def _unknown_platform(word: Any) -> Collection[str]:
    return (word,) if isinstance(word, str) and platform_named(word) is None else ()
