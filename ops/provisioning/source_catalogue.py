"""Reads the catalogue of a monolith's database: tables, columns, foreign keys, and the values that a column may have.

Samples of the rows are bounded. Every query is read-only and ends within ten seconds.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import psycopg
from psycopg import sql

from masscomm.domain.source_tables import is_name

_STATEMENT_TIMEOUT = "10s"
# The rows that a sample reads of a table, and the texts or JSON names that it returns.
_ROWS = 10_000
_JSON_ROWS = 1_000
_TEXTS = 20
_LONGEST_TEXT = 40
_JSON_NAMES = 200

_TABLES = """
SELECT c.oid::bigint, n.nspname, c.relname,
       has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' AND NOT c.relispartition AND c.relpersistence = 'p'
   AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
 ORDER BY n.nspname, c.relname
"""
_COLUMNS = """
SELECT a.attrelid::bigint, a.attname, a.attnotnull, a.attgenerated <> '', format_type(a.atttypid, a.atttypmod),
       CASE WHEN coalesce(b.typtype, t.typtype) = 'e' THEN 'enum' ELSE coalesce(b.typname, t.typname) END,
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid
                  AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
  FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
 WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attrelid, a.attnum
"""
_FOREIGN_KEYS = """
SELECT k.conrelid::bigint, a.attname, n.nspname, c.relname, b.attname
  FROM pg_constraint k
  JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
  JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = k.confkey[1]
  JOIN pg_class c ON c.oid = k.confrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE k.contype = 'f' AND cardinality(k.conkey) = 1 AND k.conrelid = ANY(%s)
 ORDER BY k.oid
"""
_LABELS = """
SELECT a.attrelid::bigint, a.attname, array_agg(e.enumlabel::text ORDER BY e.enumsortorder)
  FROM pg_attribute a JOIN pg_enum e ON e.enumtypid = a.atttypid
 WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
 GROUP BY a.attrelid, a.attname
"""
# The constraint column IN (…), as PostgreSQL stores it.
_CHECKS = """
SELECT k.conrelid::bigint, a.attname, pg_get_constraintdef(k.oid)
  FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
 WHERE k.contype = 'c' AND cardinality(k.conkey) = 1 AND k.conrelid = ANY(%s)
"""
_IN = re.compile(r"CHECK \(\(+\w+\)?(?:::[\w ]+)?\)? = ANY \(+ARRAY\[([^\]]*)\](?:\)|::[\w ]+\[\])*$")
_LITERAL = re.compile(r"'((?:[^']|'')*)'")
# The names of members in JSON objects and in their objects, with the JSON type of the value.
_MEMBERS = """
WITH sampled AS (SELECT {column}::jsonb AS found FROM {table} LIMIT {rows}),
     outer_members AS (
         SELECT m.key, m.value
           FROM sampled, jsonb_each(CASE jsonb_typeof(found) WHEN 'object' THEN found ELSE '{{}}' END) m
     )
SELECT DISTINCT ARRAY[key], jsonb_typeof(value) FROM outer_members
 UNION
SELECT DISTINCT ARRAY[o.key, m.key], jsonb_typeof(m.value)
  FROM outer_members o, jsonb_each(CASE jsonb_typeof(o.value) WHEN 'object' THEN o.value ELSE '{{}}' END) m
 ORDER BY 1, 2 LIMIT {names}
"""
_WORDS = """
SELECT DISTINCT left(found, {longest}) FROM (SELECT {column}::text AS found FROM {table} LIMIT {rows}) sampled
 WHERE found IS NOT NULL LIMIT {texts}
"""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column in the catalogue."""

    not_null: bool = False
    generated: bool = False
    # The type as SQL, and the name of the type; `enum` for each enumerated type, and the base type of a domain.
    sql_type: str
    type_name: str
    unique: bool = False


@dataclass(frozen=True, kw_only=True)
class CatalogueTable:
    """An ordinary table, with the columns that a source.yaml can name."""

    schema: str
    name: str
    columns: Mapping[str, Column]
    # Whether the user may read rows.
    readable: bool = True
    # Column → (the table with its schema, the column) that a foreign key references.
    references: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # Column → the only texts that it may have, from an enumerated type or a CHECK constraint.
    allowed: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def qualified(self) -> str:
        """Return the name of the table with its schema."""
        return f"{self.schema}.{self.name}"


class Samples(Protocol):
    """Bounded samples of the rows of tables."""

    def words(self, table: CatalogueTable, column: str) -> Sequence[str]:
        """Return up to 20 texts of a column, cut at 40 characters; none if the rows cannot be read."""
        ...

    def members(self, table: CatalogueTable, column: str) -> Sequence[tuple[tuple[str, ...], str]]:
        """Return up to 200 (path, JSON type) of the members of a JSON column; none if the rows cannot be read."""
        ...


@contextmanager
def read_only_connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Connect to a monolith's database for queries that end within ten seconds. Raises psycopg.Error."""
    with psycopg.connect(database_url, autocommit=True, connect_timeout=10) as connection:
        connection.execute(f"SET statement_timeout = '{_STATEMENT_TIMEOUT}'")
        connection.read_only = True
        yield connection


def columns_by_table(connection: psycopg.Connection[Any], oids: Sequence[int]) -> dict[int, dict[str, Column]]:
    """Return the columns of tables by the tables' object ids."""
    found: dict[int, dict[str, Column]] = {oid: {} for oid in oids}
    for oid, name, not_null, generated, sql_type, base, unique in connection.execute(_COLUMNS, (list(oids),)):
        found[oid][name] = Column(
            not_null=not_null, generated=generated, sql_type=sql_type, type_name=base, unique=unique
        )
    return found


def read_tables(connection: psycopg.Connection[Any]) -> tuple[list[CatalogueTable], list[str]]:
    """Return the tables with names that a source.yaml can have, and the names of the other tables. Raises
    psycopg.Error.
    """
    tables = {oid: (schema, name, readable) for oid, schema, name, readable in connection.execute(_TABLES)}
    oids = list(tables)
    columns = columns_by_table(connection, oids)
    references: dict[int, dict[str, tuple[str, str]]] = {}
    for oid, column, *target, key in connection.execute(_FOREIGN_KEYS, (oids,)):
        references.setdefault(oid, {}).setdefault(column, (".".join(target), key))
    allowed: dict[int, dict[str, Sequence[str]]] = {}
    for oid, column, labels in connection.execute(_LABELS, (oids,)):
        allowed.setdefault(oid, {})[column] = labels
    for oid, column, text in connection.execute(_CHECKS, (oids,)):
        if (listed := _IN.match(text)) is not None:
            words = [word.replace("''", "'") for word in _LITERAL.findall(listed[1])]
            allowed.setdefault(oid, {}).setdefault(column, words)
    named = {oid: table for oid, table in tables.items() if is_name(table[0]) and is_name(table[1])}
    return [
        CatalogueTable(
            schema=schema,
            name=name,
            readable=readable,
            columns={column: each for column, each in columns[oid].items() if is_name(column) and not each.generated},
            references=references.get(oid, {}),
            allowed=allowed.get(oid, {}),
        )
        for oid, (schema, name, readable) in named.items()
    ], [f"{schema}.{name}" for schema, name, _ in (tables[oid] for oid in tables.keys() - named.keys())]


class DatabaseSamples(Samples):
    """Samples of the first rows of the tables in a database."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        # A line of text for each sample that the database refused.
        self.refused: list[str] = []

    def words(self, table: CatalogueTable, column: str) -> Sequence[str]:
        return [word for (word,) in self._rows(_WORDS, table, column, rows=_ROWS)]

    def members(self, table: CatalogueTable, column: str) -> Sequence[tuple[tuple[str, ...], str]]:
        return [(tuple(path), kind) for path, kind in self._rows(_MEMBERS, table, column, rows=_JSON_ROWS)]

    def _rows(self, query: str, table: CatalogueTable, column: str, *, rows: int) -> list[Any]:
        composed = sql.SQL(query).format(
            table=sql.Identifier(table.schema, table.name),
            column=sql.Identifier(column),
            rows=sql.Literal(rows),
            longest=sql.Literal(_LONGEST_TEXT),
            texts=sql.Literal(_TEXTS),
            names=sql.Literal(_JSON_NAMES),
        )
        try:
            return self._connection.execute(composed).fetchall()
        except psycopg.Error as error:
            if self._connection.closed:
                raise
            self.refused.append(f"{table.qualified}.{column} could not be sampled: {error}")
            return []
