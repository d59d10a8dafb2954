"""Compares a monolith's database with schemas/source.yaml before a connector is created: tables, columns, types,
privileges and the server's settings. Each finding has the statements that repair it.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from masscomm.cdc.captured_tables import RULES, read_captured
from masscomm.cdc.change_events import columns_of, has_type, unknown_columns
from masscomm.cdc.debezium import INSTALLATION, slot_name
from masscomm.cdc.outbox import COLUMNS, KEY_COLUMNS
from masscomm.domain.events import MAX_EVENT_DATA_BYTES
from masscomm.domain.names import folded
from masscomm.domain.setting_names import SettingNames, names_for
from masscomm.domain.source_tables import (
    SourceTable,
    Value,
    creates_publication,
    outbox_table,
    settings_names,
    source_name,
    source_tables,
)
from masscomm.errors import DeadLetter
from masscomm.json_reader import UnstorableJson
from ops.provisioning import ProvisioningError
from ops.provisioning.source_catalogue import Column, columns_by_table, read_only_connection

# pgoutput delivers logical messages, which the heartbeat is, since this version.
_OLDEST_VERSION = 140_000
INTEGERS = {"int2", "int4", "int8"}
TEXTS = {"text", "varchar", "bpchar", "uuid", "citext", "name", "enum"}
JSON = {"json", "jsonb"}
_ANY = INTEGERS | TEXTS | JSON | {"bool", "numeric", "float4", "float8", "timestamptz"}
# The kinds of an object's members, by the column of user_settings: any value but a plain true is an opt-out, so that a
# text or a number would opt out every user.
_RULE, _RULES = "boolean", "boolean or object"
_MEMBERS = {"channels": _RULE, "categories": _RULES}
# The types that a column of the directory accepts, by its kind: its type in the index, or _RULES.
ACCEPTED: Mapping[str | None, set[str]] = {
    "long": INTEGERS,
    "keyword": TEXTS,
    "text": TEXTS,
    "boolean": {"bool"},
    "date": {"timestamptz"},
    "object": JSON,
    _RULES: {"bool"} | JSON,
    None: _ANY,
}
# The types that a missing column is created with.
_CREATED = {"long": "bigint", "boolean": "boolean", "date": "timestamptz", "object": "jsonb", _RULES: "boolean"}
# The types of the outbox's columns: that with which a missing one is created, and those that are accepted.
_OUTBOX: Mapping[str, tuple[str, set[str]]] = {
    "club_id": ("bigint NOT NULL", INTEGERS),
    "event_id": ("text NOT NULL", TEXTS | INTEGERS),
    "type": ("text NOT NULL", TEXTS),
    "unit": ("text", TEXTS | INTEGERS),
    "key": ("text", TEXTS | INTEGERS),
    "occurred_at": ("timestamptz NOT NULL DEFAULT now()", {"timestamptz"}),
    # A larger row than Kafka takes would stop Debezium, and with it the directory.
    "data": (f"jsonb NOT NULL CHECK (octet_length(data::text) <= {MAX_EVENT_DATA_BYTES})", JSON | TEXTS),
}
# PostgreSQL's names of these types in its catalogue, where they differ.
_CATALOGUED = {"bigint": "int8", "boolean": "bool"}

_TABLES = """
SELECT c.oid::bigint AS oid, c.relkind, c.relreplident = 'f' AS full_identity,
       pg_has_role(current_user, c.relowner, 'USAGE') AS owned,
       has_table_privilege(c.oid, 'SELECT') AS readable, has_schema_privilege(n.oid, 'USAGE') AS usable,
       c.relrowsecurity AND row_security_active(c.oid) AS hidden_rows
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
# Whether a table has a unique index of exactly these columns.
_UNIQUE = """
SELECT FROM pg_index i
 WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
   AND %s = (SELECT array_agg(a.attname::text ORDER BY a.attname::text COLLATE "C")
               FROM unnest((i.indkey::int2[])[:i.indnkeyatts - 1]) k
               JOIN pg_attribute a ON (a.attrelid, a.attnum) = (i.indrelid, k))
"""
_SCHEMA = "SELECT FROM pg_namespace WHERE nspname = %s"
_SERVER = """
SELECT current_user AS role, current_database() AS database, current_setting('server_version_num')::int AS version,
       current_setting('wal_level') AS wal_level, pg_is_in_recovery() AS standby,
       current_setting('max_replication_slots')::int AS max_slots,
       (SELECT count(*) FROM pg_replication_slots WHERE slot_name <> %(slot)s) AS slots,
       current_setting('max_wal_senders')::int AS max_senders,
       (SELECT count(*) FROM pg_stat_replication) AS senders,
       current_setting('max_slot_wal_keep_size') AS kept,
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
       (SELECT rolreplication FROM pg_roles WHERE rolname = current_user) AS replication,
       EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_replication') AS rds,
       EXISTS (SELECT FROM pg_roles
                WHERE rolname = 'rds_replication' AND pg_has_role(current_user, oid, 'USAGE')) AS rds_replication,
       has_database_privilege(current_database(), 'CREATE') AS creates,
       emit.oid::regprocedure::text AS emit_function, has_function_privilege(emit.oid, 'EXECUTE') AS heartbeats
  FROM pg_proc emit WHERE proname = 'pg_logical_emit_message' AND proargtypes[2] = 'text'::regtype
"""
_IDLE_SLOTS = """
SELECT slot_name, pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn))
  FROM pg_replication_slots
 WHERE NOT active AND slot_name <> %s AND pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) > 1073741824
"""
_PUBLICATION = """
SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, pg_has_role(current_user, pubowner, 'USAGE'),
       (SELECT array_agg(schemaname || '.' || tablename) FROM pg_publication_tables t WHERE t.pubname = p.pubname)
  FROM pg_publication p WHERE pubname = %s
"""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One difference between the database and what change data capture needs."""

    # The difference: the state that was found, and the features that need another one.
    text: str
    # The SQL statements that repair it, each with a semicolon.
    repair: tuple[str, ...] = ()
    # True if change data capture works nevertheless.
    warning: bool = False


class _Use(NamedTuple):
    """One value of the directory that derives from a column of the monolith."""

    # The value's name in the directory.
    where: str
    column: str
    value: Value
    kind: str | None


@dataclass(frozen=True, kw_only=True)
class _Table:
    columns: Mapping[str, Column] = field(default_factory=dict)
    owned: bool


def check_source(
    database_url: str,
    generation: str,
    sources: Mapping[str, SourceTable],
    *,
    creates_publication: bool,
    settings_names: Collection[str] = (),
    outbox: str | None = None,
    file: str = "source.yaml",
    installation: str = INSTALLATION,
) -> list[Finding]:
    """Compare a database with the entries of a source.yaml, as the user in the database's URL. It changes nothing.

    Args:
        database_url: The URL of the monolith's database, with the user of the connector.
        generation: The snapshot generation whose slot and publication are checked.
        sources: The entries of the source.yaml.
        creates_publication: Whether the connector creates its publication.
        settings_names: The `settings_names` of the source.yaml.
        outbox: The table of the outbox with its schema; None: there is none.
        file: The name of the source.yaml in findings.
        installation: The name of the installation in its slot and publication.

    Raises:
        psycopg.Error: The database cannot be reached, or refuses a query.
        SourceError: A column that the directory requires is not mapped.
    """
    with read_only_connection(database_url) as connection:
        names = names_for(sources, settings_names)
        return _Check(connection, slot_name(generation, installation), sources, names, file).findings(
            creates_publication=creates_publication, outbox=outbox
        )


def source_problems(database_url: str, generation: str, installation: str = INSTALLATION) -> list[str]:
    """Return each problem of a database with its repair, without warnings.

    Raises:
        ProvisioningError: The database cannot be reached.
    """
    try:
        found = check_source(
            database_url,
            generation,
            source_tables(),
            creates_publication=creates_publication(),
            settings_names=settings_names(),
            outbox=outbox_table(),
            file=source_name(),
            installation=installation,
        )
    except psycopg.Error as error:
        raise ProvisioningError(f"the monolith's database cannot be checked: {error}") from error
    return ["\n    ".join((each.text, *each.repair)) for each in found if not each.warning]


def require_source(database_url: str, generation: str, installation: str = INSTALLATION) -> None:
    """Check a database before a connector is created for it. Warnings are allowed.

    Raises:
        ProvisioningError: The database lacks something; the message has each problem with its repair.
    """
    if problems := source_problems(database_url, generation, installation):
        raise ProvisioningError("\n".join([f"The monolith's database differs from {source_name()}:", *problems]))


class _Check:
    """One comparison, over one connection."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        slot: str,
        sources: Mapping[str, SourceTable],
        names: SettingNames,
        file: str,
    ) -> None:
        self._connection = connection
        self._file = file
        self._names = names
        self._slot = slot
        self._captured = read_captured(sources)
        with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            row = cursor.execute(_SERVER, {"slot": self._slot}).fetchone()
        self._server: dict[str, Any] = row or {}
        self._role = _quoted(self._server["role"])
        self._tables: dict[str, _Table] = {}

    def findings(self, *, creates_publication: bool, outbox: str | None) -> list[Finding]:
        """Return all findings: problems first."""
        found = list(self._of_server())
        for name, columns in unknown_columns(self._captured).items():
            text = f"{self._file}: the directory's table {name} has no column {', '.join(columns)}"
            found.append(Finding(text=text))
        for captured in self._captured.values():
            found += _of_literals(captured.source, self._file)
            found += _of_members(captured.source, self._names, self._file)
        by_table: dict[str, list[SourceTable]] = {}
        for captured in self._captured.values():
            by_table.setdefault(captured.source.qualified, []).append(captured.source)
        for sources in by_table.values():
            found += self._of_table(sources)
        if outbox is not None:
            found += self._of_outbox(outbox)
        tables = [*by_table, *([outbox] if outbox is not None else [])]
        found += self._of_publication(tables, creates_publication=creates_publication)
        return sorted(dict.fromkeys(found), key=lambda each: each.warning)

    # --- the server ---

    def _of_server(self) -> Iterator[Finding]:
        server = self._server
        if server["version"] < _OLDEST_VERSION:
            yield Finding(text=f"PostgreSQL {server['version'] // 10_000} is too old; heartbeats need 14")
        if server["standby"]:
            yield Finding(text="the server is a standby, to which no heartbeat can be written; use the primary")
        if server["wal_level"] != "logical":
            yield Finding(
                text=f"wal_level is {server['wal_level']}, not logical"
                " (on RDS: set rds.logical_replication = 1 in the parameter group); it needs a restart",
                repair=("ALTER SYSTEM SET wal_level = logical;",),
            )
        for setting, used, limit in (
            ("max_replication_slots", server["slots"], server["max_slots"]),
            ("max_wal_senders", server["senders"], server["max_senders"]),
        ):
            if used >= limit:
                yield Finding(
                    text=f"{setting} is {limit}, and {used} are in use; it needs a restart",
                    repair=(f"ALTER SYSTEM SET {setting} = {max(10, limit + 4)};",),
                )
        if not (server["superuser"] or server["replication"] or server["rds_replication"]):
            grant = (
                f"GRANT rds_replication TO {self._role};" if server["rds"] else f"ALTER ROLE {self._role} REPLICATION;"
            )
            yield Finding(text=f"{server['role']} may not create a replication slot", repair=(grant,))
        if not server["heartbeats"]:
            yield Finding(
                text=f"{server['role']} may not write heartbeats",
                repair=(f"GRANT EXECUTE ON FUNCTION {server['emit_function']} TO {self._role};",),
            )
        if server["kept"] == "-1":
            yield Finding(
                text="max_slot_wal_keep_size is unlimited: while the connector is stopped, the WAL fills the disk."
                " With a limit, a longer stop needs a new snapshot generation",
                repair=("ALTER SYSTEM SET max_slot_wal_keep_size = '10GB';", "SELECT pg_reload_conf();"),
                warning=True,
            )
        if not server["standby"]:
            for slot, size in self._connection.execute(_IDLE_SLOTS, (self._slot,)):
                yield Finding(
                    text=f"the replication slot {slot} is idle and keeps {size} of WAL; drop it if it is obsolete",
                    repair=(f"SELECT pg_drop_replication_slot('{slot}');",),
                    warning=True,
                )

    # --- tables and columns ---

    def _of_table(self, sources: list[SourceTable]) -> Iterator[Finding]:
        first = sources[0]
        name = _identifier(first.schema, first.table)
        table = self._found(first.schema, first.table)
        uses: dict[str, list[_Use]] = {}
        for source in sources:
            for use in _uses(source):
                uses.setdefault(use.column, []).append(use)
        if table is None:
            columns = [f"{_quoted(name)} {_created(of)}" for name, of in uses.items() if first.key != (name,)]
            if len(first.key) == 1:
                columns.insert(0, f"{_quoted(*first.key)} bigint PRIMARY KEY")
            else:
                columns.append(f"PRIMARY KEY ({', '.join(map(_quoted, first.key))})")
            yield Finding(
                text=f"the table {first.qualified} is missing; {sources[0].name} derives from it",
                repair=(
                    *self._schema_of(first.schema),
                    f"CREATE TABLE {name} ({', '.join(columns)});",
                    f"ALTER TABLE {name} REPLICA IDENTITY FULL;",
                ),
            )
            return
        if table["relkind"] != "r":
            yield _not_ordinary(first.qualified, table)
            return
        known = self._remembered(first.qualified, table)
        if not table["full_identity"]:
            yield Finding(
                text=f"{first.qualified} does not log the whole old row of an update or delete",
                repair=(f"ALTER TABLE {name} REPLICA IDENTITY FULL;",),
            )
        yield from self._of_access(first.schema, first.table, table)
        yield from self._of_key(first, known) if len(first.key) == 1 else self._of_keys(first, known, table["oid"])
        for of in uses.values():
            yield from self._of_column(first, of, known)
        if table["readable"] and table["usable"]:
            for source in sources:
                yield from self._of_required(source, known)

    def _found(self, schema: str, table: str) -> dict[str, Any] | None:
        with self._connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            return cursor.execute(_TABLES, (schema, table)).fetchone()

    def _remembered(self, qualified: str, table: Mapping[str, Any]) -> Mapping[str, Column]:
        """Return the columns of a table, which is now one of the publication's."""
        known = columns_by_table(self._connection, [table["oid"]])[table["oid"]]
        self._tables[qualified] = _Table(columns=known, owned=table["owned"])
        return known

    def _schema_of(self, schema: str) -> Sequence[str]:
        """Return the statement that creates a schema, unless there is one."""
        exists = self._connection.execute(_SCHEMA, (schema,)).fetchone()
        return () if exists else (f"CREATE SCHEMA IF NOT EXISTS {_quoted(schema)};",)

    def _of_access(self, schema: str, name: str, table: Mapping[str, Any]) -> Iterator[Finding]:
        if not table["usable"]:
            yield Finding(
                text=f"{self._server['role']} may not use the schema {schema}",
                repair=(f"GRANT USAGE ON SCHEMA {_quoted(schema)} TO {self._role};",),
            )
        if not table["readable"]:
            yield Finding(
                text=f"{self._server['role']} may not read {schema}.{name}",
                repair=(f"GRANT SELECT ON {_identifier(schema, name)} TO {self._role};",),
            )
        if table["hidden_rows"]:
            yield Finding(
                text=f"row-level security hides rows of {schema}.{name} from {self._server['role']}",
                repair=(f"ALTER ROLE {self._role} BYPASSRLS;",),
            )

    def _of_outbox(self, qualified: str) -> Iterator[Finding]:
        """Yield what the table of the outbox lacks. Only inserted rows are read, which PostgreSQL logs whole."""
        schema, _, name = qualified.partition(".")
        table, created = self._found(schema, name), _identifier(schema, name)
        if table is None:
            columns = [f"{_quoted(column)} {_OUTBOX[column][0]}" for column in COLUMNS]
            key = ", ".join(map(_quoted, KEY_COLUMNS))
            statement = f"CREATE TABLE {created} ({', '.join(columns)}, PRIMARY KEY ({key}));"
            text = f"the table {qualified} of the outbox is missing"
            yield Finding(text=text, repair=(*self._schema_of(schema), statement))
            return
        if table["relkind"] != "r":
            yield _not_ordinary(qualified, table)
            return
        known = self._remembered(qualified, table)
        yield from self._of_access(schema, name, table)
        for column in COLUMNS:
            kind, accepted = _OUTBOX[column]
            if column not in known:
                add = f"ALTER TABLE {created} ADD COLUMN {_quoted(column)} {kind};"
                yield Finding(text=f"{qualified}.{column} of the outbox is missing", repair=(add,))
            elif (there := known[column]).type_name not in accepted:
                text = f"{qualified}.{column} is {there.sql_type}, and the outbox accepts {', '.join(sorted(accepted))}"
                yield Finding(text=text)

    def _of_key(self, source: SourceTable, known: Mapping[str, Column]) -> Iterator[Finding]:
        (key_column,) = source.key
        name, key, column = _identifier(source.schema, source.table), _quoted(key_column), known.get(key_column)
        if column is None:
            yield Finding(
                text=f"{source.qualified}.{key_column} is missing, the key of {source.name}{_meant(key_column, known)}",
                repair=(f"ALTER TABLE {name} ADD COLUMN {key} bigint GENERATED BY DEFAULT AS IDENTITY UNIQUE;",),
            )
            return
        if column.type_name not in INTEGERS:
            yield Finding(
                text=f"{source.qualified}.{key_column} is {column.sql_type}; the key must be a whole number."
                " Add a column for it, and name that as the key",
                repair=(
                    f"ALTER TABLE {name} ADD COLUMN {_quoted(f'{key_column}_no')} bigint"
                    " GENERATED BY DEFAULT AS IDENTITY UNIQUE;",
                ),
            )
            return
        if not column.not_null:
            yield Finding(
                text=f"{source.qualified}.{key_column} may be null, and is the key of {source.name}",
                repair=(f"ALTER TABLE {name} ALTER COLUMN {key} SET NOT NULL;",),
            )
        if not column.unique:
            yield Finding(
                text=f"{source.qualified}.{key_column} is not unique, and is the key of {source.name}:"
                " of several rows with one key, only the latest change would count."
                " If the table has several rows for a key, map another table",
                repair=(f"ALTER TABLE {name} ADD UNIQUE ({key});",),
            )

    def _of_keys(self, source: SourceTable, known: Mapping[str, Column], oid: int) -> Iterator[Finding]:
        """Yield what a key of several columns lacks. Their types are those of mapped columns."""
        if not known.keys() >= set(source.key):
            return
        name, columns = _identifier(source.schema, source.table), ", ".join(source.key)
        for column in source.key:
            if not known[column].not_null:
                yield Finding(
                    text=f"{source.qualified}.{column} may be null, and is in the key of {source.name}",
                    repair=(f"ALTER TABLE {name} ALTER COLUMN {_quoted(column)} SET NOT NULL;",),
                )
        if self._connection.execute(_UNIQUE, (oid, sorted(source.key))).fetchone() is None:
            yield Finding(
                text=f"{source.qualified} may have several rows with one ({columns}), the key of {source.name}:"
                " only the latest change of one of them would count",
                repair=(f"ALTER TABLE {name} ADD UNIQUE ({', '.join(map(_quoted, source.key))});",),
            )

    def _of_column(self, source: SourceTable, uses: Sequence[_Use], known: Mapping[str, Column]) -> Iterator[Finding]:
        column = uses[0].column
        if column not in known:
            if source.key != (column,):
                derive = "derives" if len(uses) == 1 else "derive"
                yield Finding(
                    text=f"{source.qualified}.{column} is missing; {' and '.join(use.where for use in uses)} {derive}"
                    f" from it{_meant(column, known)}",
                    repair=(
                        f"ALTER TABLE {_identifier(source.schema, source.table)}"
                        f" ADD COLUMN {_quoted(column)} {_created(uses)};",
                    ),
                )
            return
        there = known[column]
        for use in uses:
            accepted = _accepted(use)
            if there.type_name not in accepted:
                yield Finding(
                    text=f"{source.qualified}.{column} is {there.sql_type}, and {use.where} accepts"
                    f" {', '.join(sorted(accepted))}{_conversion(there.type_name, use.kind)}"
                )
            if there.generated:
                yield Finding(
                    text=f"{source.qualified}.{column} is a generated column, which PostgreSQL does not replicate;"
                    f" {use.where} derives from it"
                )

    def _of_required(self, source: SourceTable, known: Mapping[str, Column]) -> Iterator[Finding]:
        for name in self._captured[source.name].required:
            value = source.columns[name]
            there = known.get(str(value.column))
            if there is None or value.default is not None:
                continue
            if value.path:
                if there.type_name in JSON:
                    yield from self._of_missing(source, name, known, json_path=value.path)
            elif not there.not_null:
                yield from self._of_missing(source, name, known)

    def _of_missing(
        self, source: SourceTable, name: str, known: Mapping[str, Column], json_path: Sequence[str] = ()
    ) -> Iterator[Finding]:
        """Yield a problem if a row lacks a required value, else a warning that rows may lack it."""
        column = str(source.columns[name].column)
        found: sql.Composable = sql.Identifier(column)
        if json_path:
            # As in Value.of: only objects have members, so lists are not searched, and null in JSON is not a value.
            steps = "strict $" + "".join(f".{json.dumps(member)}" for member in json_path)
            found = sql.SQL("nullif(jsonb_path_query_first({}::jsonb, {}, '{{}}', true), 'null')").format(
                found, sql.Literal(steps)
            )
        key: sql.Composable = sql.SQL("ctid")
        if known.keys() >= set(source.key):
            key = sql.SQL("concat_ws(', ', {})").format(sql.SQL(", ").join(map(sql.Identifier, source.key)))
        query = sql.SQL("SELECT {}, {}::text FROM {} WHERE {} IS NULL").format(
            key, sql.Identifier(column), sql.Identifier(source.schema, source.table), found
        )
        # The value may be under another spelling of the names, which only the reader of rows knows.
        read = source.columns[name] if json_path else None
        with self._connection.transaction(), self._connection.cursor("without_the_value") as rows:
            row = next((each for each in rows.execute(query) if read is None or _lacks(read, each[1])), None)
        what = f"{source.qualified}.{column}" + (f" ({'.'.join(json_path)})" if json_path else "")
        if row is not None:
            yield Finding(
                text=f"{what} is null, for example in the row {', '.join(source.key)}={row[0]}:"
                f" such rows are dead-lettered, because {source.name}.{name} is required"
            )
            return
        set_not_null = (
            f"ALTER TABLE {_identifier(source.schema, source.table)} ALTER COLUMN {_quoted(column)} SET NOT NULL;"
        )
        yield Finding(
            text=f"{what} may be null: rows without it are dead-lettered, because {source.name}.{name} is required",
            repair=() if json_path else (set_not_null,),
            warning=True,
        )

    # --- the publication ---

    def _of_publication(self, tables: list[str], *, creates_publication: bool) -> Iterator[Finding]:
        row = self._connection.execute(_PUBLICATION, (self._slot,)).fetchone()
        names = ", ".join(_identifier(*table.split(".")) for table in tables if table in self._tables)
        create = f"CREATE PUBLICATION {_quoted(self._slot)} FOR TABLE {names};"
        if not creates_publication:
            if row is None:
                yield Finding(text=f"the publication {self._slot} is missing", repair=(create,))
                return
            complete, _, published = row
            missing = [table for table in tables if table not in (published or [])]
            if missing or not complete:
                yield Finding(
                    text=f"the publication {self._slot} does not publish all changes of"
                    f" {', '.join(missing) or 'its tables'}",
                    repair=(f"DROP PUBLICATION {_quoted(self._slot)};", create),
                )
            return
        if self._server["superuser"]:
            return
        foreign = [table for table, known in self._tables.items() if not known.owned]
        if foreign or not self._server["creates"] or (row is not None and not row[1]):
            reasons = [f"does not own {', '.join(foreign)}"] if foreign else []
            reasons += [] if self._server["creates"] else [f"may not create in {self._server['database']}"]
            reasons += ["does not own the existing publication"] if row is not None and not row[1] else []
            yield Finding(
                text=f"{self._server['role']} cannot create the publication {self._slot}: it {' and '.join(reasons)}."
                f" Create it as the tables' owner, and write create_publication: false in {self._file}",
                repair=(create,),
            )


def _not_ordinary(qualified: str, table: Mapping[str, Any]) -> Finding:
    kinds = {"p": "partitioned", "v": "a view", "m": "a materialised view", "f": "a foreign table"}
    return Finding(text=f"{qualified} is {kinds[table['relkind']]}; only ordinary tables can be captured")


def _parts(source: SourceTable) -> Iterator[tuple[str, Value, str | None]]:
    """Yield (name in the directory, value, kind) for each value, and for each member of an object in its place."""
    kinds = columns_of(source.name)
    for name, value in source.columns.items():
        member = _MEMBERS.get(name) if source.directory_table in RULES else None
        for part in value.parts():
            yield f"{source.name}.{name}", part, kinds.get(name) if part is value else member
    for name, value in source.attributes.items():
        for part in value.parts():
            yield f"{source.name}.attributes.{name}", part, None


def _uses(source: SourceTable) -> Iterator[_Use]:
    for where, part, kind in _parts(source):
        if part.column is not None:
            yield _Use(where, part.column, part, kind)


def _lacks(value: Value, text: str | None) -> bool:
    """Return whether a JSON column with this text lacks a required value, or cannot be read."""
    try:
        return value.of(lambda _: text, "required") is None  # guard: source_check.spelled_member
    except (DeadLetter, UnstorableJson):
        return True


def _of_literals(source: SourceTable, file: str) -> Iterator[Finding]:
    """Yield the constants, defaults and replacement values of the wrong type."""
    for where, value, kind in _parts(source):
        for literal in (value.default, *(value.values or {}).values()):
            fits = isinstance(literal, bool | dict) if kind == _RULES else has_type(literal, kind)
            if literal is not None and not fits:
                yield Finding(text=f"{file}: {where}: {literal!r} is no {kind}")


def _of_members(source: SourceTable, names: SettingNames, file: str) -> Iterator[Finding]:
    """Yield the members of objects in user settings whose names are unknown: they make the settings of all users
    malformed.
    """
    known = {"channels": names.channels, "categories": names.categories, "quiet_hours": names.quiet_hours}
    for column, value in source.columns.items():
        if source.directory_table not in RULES or column not in known:
            continue
        in_rules = names.in_category if column == "categories" else None
        for name in _unknown_members(value, known[column], in_rules):
            yield Finding(
                text=f"{file}: {source.name}.{column}: the name {name} is unknown, so the settings of every user"
                " are malformed, which is an opt-out (docs/preferences.md); correct it, or add it to settings_names"
            )


def _unknown_members(value: Any, known: Collection[str], in_rules: Collection[str] | None) -> Iterator[str]:
    """Yield the unknown names in a value of a source.yaml or in its literals. The rules in a member that is an object
    itself have names of their own, if `in_rules` is not None.
    """
    for members in _objects(value):
        for name, member in members.items():
            if folded(name) not in known:  # guard: source_check.members_of_objects
                yield name
            elif in_rules is not None:
                yield from (f"{name}.{each}" for each in _unknown_members(member, in_rules, None))


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that a value of a source.yaml has or may have."""
    literals: Sequence[Any] = (value,)
    if isinstance(value, Value):
        literals = (value.members, value.default, *(value.values or {}).values())
    yield from (each for each in literals if isinstance(each, Mapping))


def _created(uses: Sequence[_Use]) -> str:
    """Return the type of a column that is added: one that each of its values accepts, if there is one."""
    types = [_created_for(use) for use in uses]
    fitting = (each for each in types if all(_CATALOGUED.get(each, each) in _accepted(use) for use in uses))
    return next(fitting, types[0])


def _created_for(use: _Use) -> str:
    if use.value.path:
        return "jsonb"
    if use.value.values is not None and use.value.values.keys() <= {"true", "false"}:
        return "boolean"
    if use.value.values is not None:
        return "text"
    return use.value.format or _CREATED.get(str(use.kind), "text")


def _accepted(use: _Use) -> set[str]:
    if use.value.path:
        return JSON
    if use.value.format is not None:
        return INTEGERS if use.value.format == "text" else {use.value.format}
    if use.value.values is not None:
        return INTEGERS | TEXTS | {"bool"}
    return ACCEPTED[use.kind]


def _conversion(type_name: str, kind: str | None) -> str:
    """Return the key of source.yaml that converts a type, as the end of a sentence."""
    if type_name in ("date", "time", "timestamp") and kind in (None, "keyword", "text", "date"):
        return f". Convert it: format: {type_name}"
    if type_name in JSON:
        return ". Name a value inside it: path"
    if type_name in INTEGERS | TEXTS | {"bool"} and kind in ("boolean", "keyword", _RULES):
        return ". Convert it: values"
    return ""


def _meant(column: str, known: Mapping[str, Column]) -> str:
    close = get_close_matches(column, known, n=1)
    return f" (is it {close[0]}?)" if close else ""


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string(None)


def _identifier(schema: str, table: str) -> str:
    return sql.Identifier(schema, table).as_string(None)
