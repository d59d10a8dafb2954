"""The configuration of Debezium's connector in every deployment: captured tables, heartbeats and notifications."""

import re

from masscomm.cdc import outbox
from masscomm.cdc.captured_tables import TEMPLATES
from masscomm.domain.events import MAX_EVENT_DATA_BYTES
from masscomm.domain.limits import MAX_SOURCE_CHARACTERS
from masscomm.domain.source_tables import creates_publication, outbox_table, source_tables
from masscomm.domain.time_limits import CDC_HEARTBEAT_MS
from masscomm.kafka.topics import cdc_prefix, cdc_topic, cdc_topics

# The name of an installation that shares the monolith's database with no other, such as the one of this machine.
INSTALLATION = "masscomm"


def heartbeat_topic(generation: str) -> str:
    """Return the topic of Debezium's own heartbeat. It has no consumer; Kafka Connect creates it."""
    return f"__debezium-heartbeat.{cdc_prefix(generation)}"


def slot_name(generation: str, installation: str = INSTALLATION) -> str:
    """Return the name of the replication slot, which is also the name of the publication.

    Args:
        generation: The snapshot generation.
        installation: The name of the installation among those that capture the same database. Two connectors on one
            slot would each read a part of the changes.
    """
    return re.sub(r"[^a-z0-9_]", "_", f"{installation}_{generation}")


def largest_record() -> int:
    """Return the size limit of a record of the captured tables in bytes: max.request.size of Connect's producer."""
    return max(topic.max_message_bytes for topic in cdc_topics("any"))


def _columns_by_table() -> dict[str, list[str]]:
    """Return the captured columns of each of the monolith's tables of the directory, with those of the key first."""
    found: dict[str, list[str]] = {}
    for table in source_tables().values():
        known = found.setdefault(table.qualified, [])
        known.extend(each for each in table.read_columns() if each not in known)
    return found


def debezium_config(generation: str, installation: str = INSTALLATION) -> dict[str, str]:
    """Return the connector's configuration for one snapshot generation. The deployment adds the database and the
    replication slot.
    """
    slot, tables, events = slot_name(generation, installation), _columns_by_table(), outbox_table()
    keys = {table.qualified: list(table.key) for table in source_tables().values()}
    if events is not None:
        tables[events], keys[events] = list(outbox.COLUMNS), list(outbox.KEY_COLUMNS)
    templates = source_tables()[TEMPLATES]
    texts = [value.column for name in ("title", "body", "html", "url") if (value := templates.columns.get(name))]
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "topic.prefix": cdc_prefix(generation),
        "table.include.list": ",".join(tables),
        # Other columns never leave the database. The list is a list of regular expressions.
        "column.include.list": ",".join(_pattern(table, f"({'|'.join(columns)})") for table, columns in tables.items()),
        # The key of a record is the id of its document, whatever the primary key is.
        "message.key.columns": ";".join(f"{table}:{','.join(columns)}" for table, columns in keys.items()),
        # cdc_consumer refuses a longer template, of which Kafka would not take every record.
        f"column.truncate.to.{MAX_SOURCE_CHARACTERS + 1}.chars": ",".join(
            _pattern(templates.qualified, column) for column in texts if column
        ),
        # Longer data of an event is refused, as a text of any length. PostgreSQL's type jsonb is not truncated.
        **(
            {} if events is None else {f"column.truncate.to.{MAX_EVENT_DATA_BYTES + 1}.chars": _pattern(events, "data")}
        ),
        "decimal.handling.mode": "string",
        # By default, a time(3) is in milliseconds, and schemas/source.yaml would read 22:00 as 00:01.
        "time.precision.mode": "microseconds",
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "publication.name": slot,
        "publication.autocreate.mode": "filtered" if creates_publication() else "disabled",
        "snapshot.mode": "initial",
        "tombstones.on.delete": "true",
        # The heartbeat query writes to the WAL, whether or not a table changes, and Debezium produces the written
        # message to the topic <prefix>.message. This proves up to which position the directory is complete.
        "heartbeat.interval.ms": str(CDC_HEARTBEAT_MS),
        "heartbeat.action.query": "SELECT pg_logical_emit_message(false, 'masscomm.heartbeat',"
        " extract(epoch from clock_timestamp())::text)",
        # The messages of other writers have no reader, and the compacted topic would keep the last one of each.
        "message.prefix.include.list": r"masscomm\.heartbeat",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": cdc_topic("notification", generation),
        # By default, Debezium skips TRUNCATE, and the directory would keep the deleted rows.
        "skipped.operations": "none",
        # Its record has no key, which a compacted topic refuses.
        "transforms": "truncate_key",
        "transforms.truncate_key.type": "masscomm.connect.TruncateKey",
        # The interval at which the connector polls the WAL and its queue of changes. The default of 500 ms would delay
        # each change; with 1 ms an idle connector uses a fifth of a core, with 10 ms a twelfth.
        "poll.interval.ms": "25",
        # The connector retries without limit while the database is down.
        "errors.max.retries": "-1",
        # Kafka Connect creates only the topic of Debezium's own heartbeat; masscomm creates the other topics.
        "topic.creation.default.partitions": "1",
    }


def _pattern(table: str, columns: str) -> str:
    """Return the regular expression for columns of a table."""
    return f"{table}.{columns}".replace(".", r"\.")
