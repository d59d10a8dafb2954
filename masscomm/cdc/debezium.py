"""Debezium's connector, as it is set up wherever it runs: what it captures, and how it says how far it has come."""

from masscomm.kafka.topics import CDC_TABLES, cdc_prefix, cdc_topic

HEARTBEAT_MS = 1000


def heartbeat_topic(generation: str) -> str:
    """The topic of Debezium's own heartbeat, which nobody reads; Connect creates it."""
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
        # A position that passes through the WAL itself, on the topic <prefix>.message, whether or not a table changes:
        # it proves how far the directory has come.
        "heartbeat.interval.ms": str(HEARTBEAT_MS),
        "heartbeat.action.query": "SELECT pg_logical_emit_message(false, 'masscomm.heartbeat',"
        " extract(epoch from clock_timestamp())::text)",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": cdc_topic("notification", generation),
        # Debezium leaves a TRUNCATE out unless told otherwise, and a directory that never hears of one stays as it was.
        "skipped.operations": "none",
        # 500 ms of waiting at the source otherwise, for each change; at 1 ms an idle connector keeps a fifth of a core
        # busy.
        "poll.interval.ms": "10",
        # A database that is down is waited for, however long.
        "errors.max.retries": "-1",
        # Only Debezium's own heartbeat topic is not of ours; Connect creates it.
        "topic.creation.default.partitions": "1",
    }
