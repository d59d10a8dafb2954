"""The captured tables: the entries of schemas/source.yaml, with the properties of the directory's tables in
schemas/topics.yaml (`cdc.tables`).

Every list of captured tables is computed from this one: topics, Debezium's settings, decoding, indices, aliases, the
event source mapping of cdc_consumer, permissions and erasure. schemas/indices has the columns that the directory keeps.
Each captured table has an index and an alias of its own, under its name in schemas/source.yaml.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from masscomm.domain.source_tables import (
    TENANT_SETTINGS,
    TENANT_USER_SETTINGS,
    SourceError,
    SourceTable,
    Value,
    source_name,
    source_tables,
)
from masscomm.kafka.topics import captured_table_entries, cdc_topic

# The tables of the directory.
USERS = "users"
USER_SETTINGS = "user_settings"
DEVICES = "devices"
TEMPLATES = "notification_templates"
# The tables with rules for notifications: a row that cannot be read counts as an opt-out.
RULES = frozenset((USER_SETTINGS, TENANT_USER_SETTINGS, TENANT_SETTINGS))


@dataclass(frozen=True, kw_only=True)
class CapturedTable:
    """One table that change data capture copies into the directory."""

    # The name of its index and alias, such as user_settings, or user_settings.quiet for a further source of settings.
    name: str
    # The monolith's table, and how its columns are mapped.
    source: SourceTable
    # Columns of the directory that every row has; look-ups read them without a default value.
    required: tuple[str, ...] = ()
    # Columns of the directory that are stored as null if a row does not have them.
    null_where_absent: tuple[str, ...] = ()
    # Columns of the directory whose columns every row has, also as null. A row without them would lose opt-outs or its
    # tenant.
    present: tuple[str, ...] = ()
    # Columns of the directory of which a row without their columns keeps the earlier value.
    kept: tuple[str, ...] = ()
    # The column with the tenant of a user, or the user of a device; None if rows of the table have no owner. A row in
    # which it is null belongs to none, and is not a row of the directory.
    owner: str | None = None
    # The column with the id of the user that a row belongs to (`id` if it is the primary key); None if rows belong to
    # no user.
    person: str | None = None
    # The columns of the directory whose values are the document's id; none: the id is a number of the monolith's.
    key: tuple[str, ...] = ()

    def id_of(self, text: str) -> int | str:
        """Return the id of a document as the directory's look-ups have it: a number unless its key has several
        columns.
        """
        return text if self.key else int(text)


@cache
def captured_tables() -> Mapping[str, CapturedTable]:
    """Return the captured tables by name, in the order of schemas/source.yaml. Raises SourceError."""
    return read_captured(source_tables())


def read_captured(sources: Mapping[str, SourceTable]) -> Mapping[str, CapturedTable]:
    """Return the captured tables for the entries of a source.yaml. Raises SourceError."""
    return MappingProxyType(
        {
            name: CapturedTable(
                name=name,
                source=sources[name],
                required=_required(sources[name], entry.get("required", ())),
                null_where_absent=tuple(entry.get("null_where_absent", ())),
                present=tuple(entry.get("present", ())),
                kept=tuple(entry.get("kept", ())),
                owner=entry.get("owner"),
                person=entry.get("person"),
                key=_key(sources[name], entry.get("key", ())),
            )
            for name, entry in captured_table_entries(sources).items()
        }
    )


def _required(source: SourceTable, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that rows must have: those of the directory, and those that schemas/source.yaml requires.

    Raises:
        SourceError: A column that the directory requires is not mapped.
    """
    names = (*columns, *(name for name, value in source.columns.items() if value.required))
    if missing := set(columns) - source.columns.keys():
        raise SourceError(f"{source_name()}: {source.name} needs the columns {', '.join(sorted(missing))}")
    return tuple(dict.fromkeys(names))


def _key(source: SourceTable, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of the directory whose values are the id of a row. Raises SourceError if the monolith's key
    has other ones.
    """
    names = tuple(columns)
    if not names:
        if len(source.key) > 1:
            raise SourceError(f"{source_name()}: {source.name} needs a key of one column")
        return names
    values = [source.columns.get(name) for name in names]
    columns = tuple(value.column for value in values if value is not None and value.column is not None)
    if columns != source.key or not all(map(_is_plain, values)):
        raise SourceError(
            f"{source_name()}: the key of {source.name} is the list of the columns that are mapped to"
            f" {', '.join(names)}, in this order and as they are, as numbers in texts (format: text) or constants"
        )
    return names


def _is_plain(value: Value | None) -> bool:
    """Return whether a value is that of a column, a number as a text, or a constant."""
    if value is None:
        return False
    plain = replace(value, required=False)
    if value.column is None:
        return value.default is not None and plain == Value(default=value.default)
    return plain in (Value(column=value.column), Value(column=value.column, format="text"))


def table_topics(generation: str) -> list[str]:
    """Return the topics of the captured tables in one snapshot generation, without repetitions."""
    return list(dict.fromkeys(cdc_topic(name, generation) for name in captured_tables()))


@cache
def settings_tables() -> tuple[str, ...]:
    """Return the names of the captured tables with user settings, in the order of schemas/source.yaml."""
    return tuple(name for name, table in captured_tables().items() if table.source.directory_table == USER_SETTINGS)


def personal_tables() -> dict[str, str]:
    """Return the tables whose rows belong to users: table name → column of the user's id (see CapturedTable.person)."""
    return {name: table.person for name, table in captured_tables().items() if table.person is not None}
