"""The monolith's tables, from schemas/source.yaml or the file that MASSCOMM_SOURCE names: which table and columns each
table of the directory derives from.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache, cached_property, partial
from itertools import compress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from masscomm.domain.names import folded
from masscomm.errors import DeadLetter, Stop
from masscomm.json_reader import InvalidJson, UnstorableJson, read_json
from masscomm.safe_yaml import read_yaml
from schemas import absolute

# The environment variable with the path of a file that replaces schemas/source.yaml.
SOURCE_VARIABLE = "MASSCOMM_SOURCE"
# The optional tables of the directory: settings of users for one tenant, rules of tenants, and follows.
TENANT_USER_SETTINGS, TENANT_SETTINGS, MEMBERSHIPS = "tenant_user_settings", "tenant_settings", "memberships"
OPTIONAL_TABLES = (TENANT_USER_SETTINGS, TENANT_SETTINGS, MEMBERSHIPS)
# Names that Debezium keeps in the name of a topic. It replaces all other characters.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _iso(epoch: date, unit: str, number: int) -> str | None:
    """Return a date or time as ISO text; None outside the years 1 to 9999, such as for PostgreSQL's infinity.

    Debezium has several numbers for it: a snapshot does not distinguish the dates infinity and -infinity.
    """
    with suppress(OverflowError):  # guard: cdc.infinity
        return (epoch + timedelta(**{unit: number})).isoformat().replace("+00:00", "Z")
    return None


# The formats of Debezium: days since the epoch, microseconds of the day, microseconds since the epoch; and a number as
# a text.
FORMATS: Mapping[str, Callable[[int], str | None]] = {
    "date": partial(_iso, _EPOCH.date(), "days"),
    "time": lambda micros: (_EPOCH + timedelta(microseconds=micros)).strftime("%H:%M"),
    "timestamp": partial(_iso, _EPOCH, "microseconds"),
    "text": str,
}
_OPTIONS = {"path", "values", "format", "default", "required"}


class SourceError(Stop):
    """The file of the monolith's tables is not valid. The message names the file and the entry."""


@dataclass(frozen=True, kw_only=True)
class Value:
    """One value of a document in the directory, and how it derives from a row of the monolith."""

    # The monolith's column; None for a constant and for an object.
    column: str | None = None
    # The names of nested members in a JSON column.
    path: tuple[str, ...] = ()
    # The monolith's value, as text → the value in the directory.
    values: Mapping[str, Any] | None = None
    # A key of FORMATS.
    format: str | None = None
    # The value where the column is null; the value itself if there is no column.
    default: Any = None
    # Whether a row without the value is dead-lettered.
    required: bool = False
    # The members of a JSON object, which are values themselves.
    members: Mapping[str, "Value"] | None = None

    @classmethod
    def read(cls, entry: Any, where: str) -> Self:
        """Return the value for an entry of schemas/source.yaml. Raises SourceError."""
        if isinstance(entry, str):
            return cls(column=_checked(entry, where))
        if not isinstance(entry, dict):
            raise SourceError(f"{where}: a column's name or a mapping was expected, not {entry!r}")
        match entry:
            case {"constant": constant} if len(entry) == 1:
                return cls(default=constant)
            case {"object": dict(members)} if entry.keys() <= {"object", "required"}:
                return cls(
                    members={str(name): cls.read(each, f"{where}.{name}") for name, each in members.items()},
                    required=bool(entry.get("required", False)),
                )
            case {"column": str(column)} if entry.keys() <= _OPTIONS | {"column"}:
                if entry.get("format", "date") not in FORMATS:
                    raise SourceError(f"{where}: the format {entry['format']!r} is none of {', '.join(FORMATS)}")
                values = entry.get("values")
                return cls(
                    column=_checked(column, where),
                    path=tuple(str(entry["path"]).split(".")) if "path" in entry else (),
                    values=None if values is None else {_as_text(key): each for key, each in dict(values).items()},
                    format=entry.get("format"),
                    default=entry.get("default"),
                    required=bool(entry.get("required", False)),
                )
        raise SourceError(f"{where}: {entry!r} is no column, constant or object")

    def parts(self) -> "Iterator[Value]":
        """Yield this value, or the members of an object, each of which derives from at most one column."""
        if self.members is None:
            yield self
            return
        for member in self.members.values():
            yield from member.parts()

    def of(self, read: Callable[[str], Any], where: str, *, strict: bool = False) -> Any:
        """Return the value for a row.

        Args:
            read: Returns the row's value in a column; None if the row does not have the column.
            where: The name of the value for errors.
            strict: Whether JSON that is not an object, and so has no value at a path, is an error.

        Raises:
            DeadLetter: The row's value does not have the form that schemas/source.yaml describes.
            UnstorableJson: The row's value is inside JSON that our stores cannot hold.
        """
        if self.members is not None:
            members = {name: each.of(read, f"{where}.{name}", strict=strict) for name, each in self.members.items()}
            return {name: value for name, value in members.items() if value is not None} or None
        if self.column is None:
            return self.default
        found = read(self.column)
        if isinstance(found, str):
            # PostgreSQL fills a char(n) up with blanks, which are not part of its value.
            found = found.rstrip(" ")  # guard: cdc.blanks
        if self.path:
            found = _inside(found, self.path, f"{self.column} ({where})", strict=strict)
        if found is not None and self.format is not None:
            found = self._formatted(found, where)
        if found is not None and self.values is not None:
            if _as_text(found) not in self.values:
                raise DeadLetter("invalid", f"{self.column} is {found!r:.100}, and {where} lists no value for it")
            found = self.values[_as_text(found)]
        return self.default if found is None else found

    def _formatted(self, found: Any, where: str) -> str | None:
        if isinstance(found, bool) or not isinstance(found, int):
            raise DeadLetter("invalid", f"{self.column} ({where}) is no {self.format}")
        try:
            return FORMATS[str(self.format)](found)
        except (OverflowError, ValueError) as error:
            raise DeadLetter("invalid", f"{self.column} ({where}) is out of range") from error


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """One entry of schemas/source.yaml."""

    # The table of the directory; the entries after the first of the same table have `.NAME` at the end.
    name: str
    # The monolith's schema and table.
    schema: str
    table: str
    # The monolith's columns whose values are the id of the document.
    key: tuple[str, ...]
    # Column of the directory → its value.
    columns: Mapping[str, Value]
    # Name → value, for templates.
    attributes: Mapping[str, Value] = field(default_factory=dict)

    @property
    def qualified(self) -> str:
        """Return the name of the monolith's table with its schema."""
        return f"{self.schema}.{self.table}"

    @cached_property
    def plain_columns(self) -> frozenset[str]:
        """The columns of the directory whose values are those of a column of the monolith, without a conversion."""
        plain = (replace(value, required=False) == Value(column=value.column) for value in self.columns.values())
        return frozenset(compress(self.columns, plain))

    @property
    def directory_table(self) -> str:
        """Return the table of the directory that this entry is a part of."""
        return directory_table(self.name)

    def read_columns(self) -> list[str]:
        """Return the monolith's columns that are captured, with those of the key first and without repetitions."""
        values = [*self.columns.values(), *self.attributes.values()]
        parts = [part for value in values for part in value.parts()]
        return list(dict.fromkeys([*self.key, *(part.column for part in parts if part.column)]))


def directory_table(name: str) -> str:
    """Return the table of the directory for the name of an entry, such as user_settings for user_settings.quiet."""
    return name.partition(".")[0]


def source_file() -> Path:
    """Return the absolute path of the file of the monolith's tables: MASSCOMM_SOURCE, else schemas/source.yaml."""
    return Path(os.environ.get(SOURCE_VARIABLE) or absolute("source.yaml")).expanduser().resolve()


def source_name() -> str:
    """Return the name of that file for messages."""
    return os.environ.get(SOURCE_VARIABLE) or "schemas/source.yaml"


@cache
def _document() -> Any:
    return read_document(source_file(), source_name())


def read_document(path: Path, name: str) -> Any:
    """Return the YAML in a file. Raises SourceError, which gives the file this name, if it has none."""
    return read_yaml(path, name, SourceError)


@cache
def source_tables() -> Mapping[str, SourceTable]:
    """Return the entries of the file of the monolith's tables by name. Raises SourceError."""
    return read_source(_document(), source_name())


def is_mapped(table: str) -> bool:
    """Return whether the monolith has an optional table of the directory. Raises SourceError."""
    return table in source_tables()


def creates_publication() -> bool:
    """Return whether Debezium's connector creates its publication itself."""
    return bool(_document().get("create_publication", True))


def outbox_table() -> str | None:
    """Return the table of the monolith's outbox with its schema; None if it has none. Raises SourceError."""
    return read_outbox(_document(), source_name())


def read_outbox(document: Mapping[str, Any], file: str = "source.yaml") -> str | None:
    """Return the `outbox` of a parsed source.yaml. Raises SourceError, which names the file."""
    name = document.get("outbox")
    if name is None:
        return None
    schema, _, table = str(name).rpartition(".")
    return f"{_checked(schema, f'{file}: outbox')}.{_checked(table, f'{file}: outbox')}"


def settings_names() -> frozenset[str]:
    """Return the further names that user settings may contain. Raises SourceError."""
    return read_settings_names(_document(), source_name())


def read_settings_names(document: Mapping[str, Any], file: str = "source.yaml") -> frozenset[str]:
    """Return the `settings_names` of a parsed source.yaml. Raises SourceError, which names the file."""
    names = document.get("settings_names") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SourceError(f"{file}: settings_names must be a list of names")
    return frozenset(names)


def read_source(document: Mapping[str, Any], file: str = "source.yaml") -> Mapping[str, SourceTable]:
    """Return the entries of a parsed source.yaml by name. Raises SourceError, which names the file."""
    tables: dict[str, SourceTable] = {}
    if not isinstance(document, dict) or not isinstance(document.get("tables"), dict):
        raise SourceError(f"{file} needs the key tables")
    for name, entry in document["tables"].items():
        where = f"{file}: {name}"
        if not isinstance(entry, dict) or not {"table", "key", "columns"} <= entry.keys():
            raise SourceError(f"{where} needs table, key and columns")
        if not isinstance(entry["columns"], dict) or not isinstance(entry.get("attributes", {}), dict):
            raise SourceError(f"{where}: columns and attributes are mappings")
        if unknown := entry.keys() - {"table", "key", "columns", "attributes"}:
            raise SourceError(f"{where} has unknown keys: {', '.join(sorted(unknown))}")
        schema, _, table = str(entry["table"]).rpartition(".")
        tables[name] = SourceTable(
            name=name,
            schema=_checked(schema, where),
            table=_checked(table, where),
            key=_key(entry["key"], where),
            columns={each: Value.read(value, f"{where}.{each}") for each, value in entry["columns"].items()},
            attributes={
                each: Value.read(value, f"{where}.attributes.{each}")
                for each, value in entry.get("attributes", {}).items()
            },
        )
    _check_names(tables, file)
    return MappingProxyType(tables)


def _check_names(tables: Mapping[str, SourceTable], file: str) -> None:
    keys: dict[str, tuple[str, ...]] = {}
    for name, table in tables.items():
        if not re.fullmatch(r"[a-z_]+|user_settings\.[a-z_]+", name):
            raise SourceError(f"{file}: {name}: only user_settings may have further entries")
        if table.attributes and name != "users":
            raise SourceError(f"{file}: {name}: only users have attributes")
        # Kafka's records of a table have one key, which is the document's id in each table of the directory.
        if keys.setdefault(table.qualified, table.key) != table.key:
            known = ", ".join(keys[table.qualified])
            raise SourceError(f"{file}: {name}: {table.qualified} already has the key {known}")


def is_name(text: str) -> bool:
    """Return whether a name of the monolith can be in the file: letters, digits and underscores."""
    return _NAME.fullmatch(text) is not None


def _checked(name: str, where: str) -> str:
    if not is_name(name):
        raise SourceError(f"{where}: {name!r} is no name of letters, digits and underscores")
    return name


def _key(entry: Any, where: str) -> tuple[str, ...]:
    columns = entry if isinstance(entry, list) else [entry]
    if not columns or len(set(map(str, columns))) < len(columns):
        raise SourceError(f"{where}: key is a column, or a list of different columns")
    return tuple(_checked(str(column), where) for column in columns)


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _inside(value: Any, path: tuple[str, ...], where: str, *, strict: bool) -> Any:
    """Return the value at a path of JSON; None if the column is null, or if an object on the path lacks the member or
    has null.
    """
    if value is None:
        return None
    try:
        found = read_json(value) if isinstance(value, str) else value
    except UnstorableJson:
        raise
    except InvalidJson as error:
        raise DeadLetter("invalid", f"{where} is not JSON: {error}") from error
    for depth, name in enumerate(path):
        if not isinstance(found, dict):
            if strict and (found is not None or depth == 0):  # guard: preferences.path_without_an_object
                inside = f"JSON object at {'.'.join(path[:depth])}" if depth else "JSON object"
                raise DeadLetter("invalid", f"{where} is no {inside}")
            return None
        found = _member(found, name)
    return found


def _member(found: Mapping[str, Any], name: str) -> Any:
    """Return the member of an object, else one under another spelling of its name; None if there is none. As in all
    user settings, true is true only if it is true under each spelling.
    """
    exact = found.get(name)
    if exact is not None and exact is not True:
        return exact
    key = folded(name)
    spelled = [value for spelling, value in found.items() if value is not None and folded(spelling) == key]
    # guard: cdc.spelled_member
    return next((value for value in spelled if value is not True), True if spelled else None)
