"""Write the preferences that users changed through masscomm to the settings table that schemas/source.yaml names.

    python -m examples.monolith.apply_preferences --kafka localhost:9092 \\
        --registry http://localhost:8081/apis/ccompat/v7 --dsn postgresql://…

The file, or the one that MASSCOMM_SOURCE names in its place, has the table and its columns, so that this consumer fits
every monolith that has all settings in one table: in columns of JSON, or in one column for each channel or category.
`examples/crm/apply_preferences.py` fits two tables.

With KAFKA_AUTHENTICATION=aws_msk_iam and AWS_REGION it signs in to Amazon MSK, as the functions do.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from examples.preference_consumer import main, new_quiet_hours, set_rules
from masscomm.aws.authentication import kafka_client_config
from masscomm.domain.source_tables import SourceError, SourceTable, Value, source_name, source_tables
from masscomm.errors import DeadLetter, Stop


def apply(connection: psycopg.Connection[Any], record: Mapping[str, Any]) -> bool:
    """Apply the changes in a record to the user's row in one transaction. Returns whether the row was written.

    The row keeps its contents if it has this version or a newer one, if its rules cannot be read, or if the user does
    not exist any more.

    Raises:
        SourceError: schemas/source.yaml names no column for a changed value.
    """
    users, settings = source_tables()["users"], source_tables()["user_settings"]
    with connection.transaction():
        if _locked_row(connection, users, record["user_id"]) is None:
            return False
        row = _locked_row(connection, settings, record["user_id"])
        try:
            before = {name: settings.columns.get(name, Value()).of((row or {}).get, name) for name in _READ}
        except DeadLetter as fault:
            # The user's next record has these changes, too.
            print(f"Changes of user {record['user_id']} are not written, because of the row: {fault}", flush=True)
            return False
        applied = before["preference_version"] or 0
        if record["version"] <= applied:
            return False
        rules = {name: {} if before[name] is None else before[name] for name in ("channels", "categories")}
        set_rules(rules["channels"], rules["categories"], record, applied)
        after: dict[str, Any] = {
            name: each for name, each in rules.items() if isinstance(each, dict) and (each or name in settings.columns)
        }
        after["preference_version"] = record["version"]
        if (hours := new_quiet_hours(record, applied)) is not None:
            after["quiet_hours"] = None if hours["start"] is None else {"start": hours["start"], "end": hours["end"]}
        if row is None:
            after |= {
                name: record[name] for name in ("user_id", "club_id") if settings.columns.get(name, Value()).column
            }
        _write(connection, settings, record["user_id"], after, is_new=row is None)
    return True


_READ = ("channels", "categories", "preference_version")


def _locked_row(connection: psycopg.Connection[Any], table: SourceTable, key: int) -> dict[str, Any] | None:
    query = sql.SQL("SELECT {} FROM {} WHERE {} = %s FOR UPDATE").format(
        _names(table.read_columns()), sql.Identifier(table.schema, table.table), sql.Identifier(*table.key)
    )
    return connection.cursor(row_factory=dict_row).execute(query, (key,)).fetchone()


def _write(
    connection: psycopg.Connection[Any], table: SourceTable, key: int, values: Mapping[str, Any], *, is_new: bool
) -> None:
    row: dict[str, Any] = dict.fromkeys(table.key, key)
    for name, value in values.items():
        row |= _columns_of(table.columns.get(name), value, f"{table.name}.{name}")
    update = "UPDATE {table} SET ({names}) = ROW ({values}) WHERE {key} = {number}"
    written: dict[str, sql.Composable] = {
        column: sql.Literal(Jsonb(value) if isinstance(value, dict) else value) for column, value in row.items()
    }
    if (updated := table.columns.get("updated_at")) is not None and updated.column is not None:
        written[updated.column] = sql.SQL("now()")
    connection.execute(
        sql.SQL("INSERT INTO {table} ({names}) VALUES ({values})" if is_new else update).format(
            table=sql.Identifier(table.schema, table.table),
            names=_names(written),
            values=sql.SQL(", ").join(written.values()),
            key=sql.Identifier(*table.key),
            number=sql.Literal(key),
        )
    )


def _columns_of(value: Value | None, wanted: Any, where: str) -> dict[str, Any]:
    """Return the monolith's columns, with their contents, for a value of the directory. Raises SourceError."""
    if value is not None and value.members is not None:
        members = dict.fromkeys(value.members) if wanted is None else wanted
        parts = (_columns_of(value.members.get(name), each, f"{where}.{name}") for name, each in members.items())
        return {column: content for part in parts for column, content in part.items()}
    if value is None or value.column is None or value.path:
        raise SourceError(f"{source_name()} names no column of its own for {where}, so that a change is not stored")
    if value.values is None or wanted is None:
        return {value.column: wanted}
    contents = [content for content, each in value.values.items() if each == wanted]
    if not contents:
        raise SourceError(f"{source_name()} has no value of {value.column} for {where}: {wanted!r}")
    return {value.column: contents[0]}


def _names(columns: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


if __name__ == "__main__":
    try:
        main(apply, kafka_client_config())
    except (SourceError, Stop) as error:
        raise SystemExit(str(error)) from error
