"""The configuration of Debezium's connector in every deployment: captured tables, heartbeats and notifications."""

from masscomm.kafka.topics import CDC_TABLES, cdc_prefix, cdc_topic

HEARTBEAT_MS = 1000


def heartbeat_topic(generation: str) -> str:
    """The topic of Debezium's own heartbeat. It has no consumer; Connect creates it."""
    return f"__debezium-heartbeat.{cdc_prefix(generation)}"


def debezium_config(generation: str) -> dict[str, str]:
    """The connector's configuration for one snapshot generation; the deployment adds database and replication."""
    slot = f"masscomm_{generation}"
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "topic.prefix": cdc_prefix(generation),
        "table.include.list": ",".join(f"public.{table}" for table in CDC_TABLES),
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "publication.name": slot,
        "publication.autocreate.mode": "filtered",
        "snapshot.mode": "initial",
        "tombstones.on.delete": "true",
        # The heartbeat passes through the WAL to the topic <prefix>.message, whether or not a table changes: it proves
        # the directory position.
        "heartbeat.interval.ms": str(HEARTBEAT_MS),
        "heartbeat.action.query": "SELECT pg_logical_emit_message(false, 'masscomm.heartbeat',"
        " extract(epoch from clock_timestamp())::text)",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": cdc_topic("notification", generation),
        # By default, Debezium skips TRUNCATE, and the directory would keep the deleted rows.
        "skipped.operations": "none",
        # The default of 500 ms delays each change at the source; at 1 ms an idle connector uses a fifth of a core.
        "poll.interval.ms": "10",
        # The connector retries without an end while the database is down.
        "errors.max.retries": "-1",
        # Connect creates only the topic of Debezium's own heartbeat; we create the others.
        "topic.creation.default.partitions": "1",
    }
