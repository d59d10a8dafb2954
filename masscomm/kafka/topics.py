"""The topics in schemas/topics.yaml, by name and by lane."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from masscomm.domain.lanes import BROADCASTS, Lane, consumed_lane
from masscomm.domain.source_tables import SourceError, SourceTable, outbox_table, source_name, source_tables
from masscomm.safe_yaml import parse_yaml
from schemas import read_text


@dataclass(frozen=True, kw_only=True)
class Compaction:
    """When Kafka removes the earlier records of a key from a topic. https://kafka.apache.org/documentation/#topicconfigs"""

    # The age at which a segment ends. Kafka does not compact the last segment of a partition.
    segment_hours: int
    # The age of a record at which its segment is compacted, however few records it saves.
    due_hours: int
    # How long a tombstone stays after the earlier records of its key were removed.
    tombstone_hours: int

    def config(self, kept_hours: int) -> dict[str, str]:
        """Return Kafka's settings of a topic that keeps every record for a time."""
        return {
            "min.compaction.lag.ms": _ms(kept_hours),
            "max.compaction.lag.ms": _ms(self.due_hours),
            "segment.ms": _ms(self.segment_hours),
            "delete.retention.ms": _ms(self.tombstone_hours),
        }


@dataclass(frozen=True, kw_only=True)
class Topic:
    # The topic's name in Kafka, which ends with the name of its lane.
    name: str
    description: str
    owner: str
    # The name of the Avro schema in schemas/; None if the value has no schema of masscomm.
    schema: str | None
    partitions: int
    # How long every record is kept.
    retention_hours: int
    cleanup: str
    # None if the topic is not compacted, or with Kafka's defaults.
    compaction: Compaction | None = None
    max_message_bytes: int
    timestamp_ahead_ms: int
    replication_factor: int
    producers: tuple[str, ...]
    consumers: tuple[str, ...]

    @property
    def subject(self) -> str:
        return f"{self.name}-value"

    @property
    def config(self) -> dict[str, str]:
        return {
            "cleanup.policy": self.cleanup,
            "retention.ms": _ms(self.retention_hours),
            "max.message.bytes": str(self.max_message_bytes),
            "message.timestamp.after.max.ms": str(self.timestamp_ahead_ms),
        } | ({} if self.compaction is None else self.compaction.config(self.retention_hours))


def _ms(hours: int) -> str:
    return str(hours * 3_600_000)


SEND_MONOLITH = "send.monolith"
SEND_API = "send.api"
AUDIENCE = "audience"
BUILD = "build"
DELIVERY = "delivery"
OUTCOME = "outcome"
RECHECK = "recheck"
DEVICE_STATUS = "device_status"
PREFERENCE_CHANGE = "preference_change"
DIRECTORY_DOCUMENT = "directory_document"
RECEIPT = "receipt"
EVENT = "event"
SUBSCRIPTION = "subscription"
WEBHOOK = "webhook"
WEBHOOK_BATCHED = "webhook.batched"
WEBHOOK_SLOW = "webhook.slow"
WEBHOOK_OUTCOME = "webhook_outcome"
DEAD_LETTER = "dead-letter"
DEAD_LETTER_STATUS = "dead-letter-status"
ON_FAILURE = "on-failure"

# Consumer groups of consumers that never commit an offset. Clients require a group, and brokers authorise it.
CDC_PROGRESS_GROUP = "masscomm.cdc.progress"
SOURCE_RECORDS_GROUP = "masscomm.kafka.source_records"
SPARK_GROUP = "masscomm.spark_metrics"

# The name in functions.yaml that stands for all topics of change data capture that the directory is made of.
ALL_OF_CDC = "cdc.*"
# The entry of the topic with the monolith's outbox, whose rows are events.
OUTBOX = "outbox"


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = parse_yaml(read_text("topics.yaml"))
    return document


@cache
def in_lane(name: str, lane: Lane) -> str:
    """Return the topic's name in a lane; its name in the bulk lane if the topic does not exist in that lane."""
    lanes = _document()["topics"][name]["lanes"]
    return f"{name}.{lane}" if lane is not Lane.BULK and lane in lanes else name


@cache
def lane_of(topic: str) -> Lane:
    """Return the lane of a topic in Kafka, from the suffix of its name."""
    return next((lane for lane in Lane if topic.endswith(f".{lane}")), Lane.BULK)


def base_of(topic: str) -> str:
    """Return the topic's name as in schemas/topics.yaml, without the suffix of its lane."""
    return topic.removesuffix(f".{lane_of(topic)}")


def same_lane(name: str, topic: str) -> str:
    """Return a topic's name in the same lane as another topic."""
    return in_lane(name, lane_of(topic))


def consumed(topic: str, queues: Sequence[Lane]) -> str:
    """Return the topic itself, or for one of a broadcast queue without consumers that of a queue that has some."""
    return in_lane(base_of(topic), consumed_lane(lane_of(topic), queues))


@cache
def chain_topics() -> tuple[Topic, ...]:
    """Return all topics of masscomm's functions, in every lane."""
    defaults = _document()["defaults"]
    found: list[Topic] = []
    for name, entry in _document()["topics"].items():
        values = defaults | entry
        found.extend(_topic(in_lane(name, Lane(lane)), values["description"], values) for lane in values["lanes"])
    return tuple(found)


def _topic(name: str, description: str, values: Mapping[str, Any]) -> Topic:
    compaction = values.get("compaction") if values["cleanup"] == "compact" else None
    return Topic(
        name=name,
        description=description,
        owner=values["owner"],
        schema=values.get("schema"),
        partitions=values["partitions"],
        retention_hours=values["retention_hours"],
        cleanup=values["cleanup"],
        compaction=None if compaction is None else Compaction(**compaction),
        max_message_bytes=values["max_message_bytes"],
        timestamp_ahead_ms=values["timestamp_ahead_ms"],
        replication_factor=values["replication_factor"],
        producers=tuple(values["producers"]),
        consumers=tuple(values["consumers"]),
    )


def cdc_prefix(generation: str) -> str:
    """Return Debezium's topic.prefix for a snapshot generation."""
    return str(_document()["cdc"]["prefix"].format(generation=generation))


def captured_table_entries(sources: Mapping[str, SourceTable]) -> Mapping[str, Mapping[str, Any]]:
    """Return the properties of the directory's tables in schemas/topics.yaml, by the names of their sources;
    masscomm.cdc.captured_tables interprets them.

    Raises:
        SourceError: A table of the directory that is not optional has no source, or a source has no table of the
            directory.
    """
    tables = _document()["cdc"]["tables"]
    needed = {name for name, table in tables.items() if not table.get("optional")}
    if missing := needed - sources.keys():
        raise SourceError(f"{source_name()} has no entry for {', '.join(sorted(missing))}")
    if unknown := {each.directory_table for each in sources.values()} - tables.keys():
        raise SourceError(f"{source_name()}: the directory has no table {', '.join(sorted(unknown))}")
    return {name: tables[each.directory_table] for name, each in sources.items()}


@cache
def _cdc_entries() -> Mapping[str, Mapping[str, Any]]:
    """Return the entries of Debezium's topics: the captured tables by name, `notification`, `heartbeat`, and `outbox`
    if the monolith has one.
    """
    cdc = _document()["cdc"]
    pattern, sources = str(cdc["table_topic"]), source_tables()
    tables = {
        name: {**entry, "topic": pattern.replace("{table}", sources[name].qualified)}
        for name, entry in captured_table_entries(sources).items()
    }
    outbox = outbox_table()
    events = {} if outbox is None else {OUTBOX: {**cdc[OUTBOX], "topic": pattern.replace("{table}", outbox)}}
    return tables | events | {name: cdc[name] for name in ("notification", "heartbeat")}


def cdc_topic(name: str, generation: str) -> str:
    """Return the topic of a captured table, of the outbox, or of Debezium's `notification` or `heartbeat`."""
    return str(_cdc_entries()[name]["topic"].format(generation=generation))


def generations(text: str) -> tuple[str, ...]:
    """Split a list of snapshot generations at its commas. There are two generations while one replaces the other."""
    return tuple(name.strip() for name in text.split(","))


@cache
def generation_of(topic: str) -> str:
    """Return the snapshot generation of one of Debezium's topics.

    Raises:
        ValueError: The topic does not belong to Debezium.
    """
    for entry in _cdc_entries().values():
        before, after = entry["topic"].split("{generation}")
        if topic.startswith(before) and topic.endswith(after) and len(topic) > len(before) + len(after):
            return topic[len(before) : len(topic) - len(after)]
    raise ValueError(f"{topic} is not a topic of change data capture")


def cdc_topics(captured: str) -> list[Topic]:
    """Return all topics to which Debezium produces for the given snapshot generations."""
    cdc, defaults = _document()["cdc"], _document()["defaults"]
    found: dict[str, Topic] = {}
    first, *_ = generations(captured)
    for generation in generations(captured):
        for name, entry in _cdc_entries().items():
            topic = entry["topic"].format(generation=generation)
            # Two tables of the directory may derive from one table of the monolith, and so from one topic.
            consumers = (*entry.get("consumers", cdc["consumers"]), *(found[topic].consumers if topic in found else ()))
            # The outbox is read in one generation (see resolve).
            consumers = consumers if name != OUTBOX or generation == first else ()
            values = defaults | cdc | entry | {"consumers": dict.fromkeys(consumers)}
            found[topic] = _topic(topic, f"Debezium's {name}", values)
    return list(found.values())


def served(name: str, lane: Lane) -> list[str]:
    """Return the topics with this base name that functions in a lane consume from and produce to.

    Functions in the bulk lane also process the small lane and every broadcast queue: separate topics are enough to
    isolate these lanes, separate functions are not needed.
    """
    lanes = [Lane.SMALL, *BROADCASTS] if lane is Lane.BULK else [lane]
    return list(dict.fromkeys(in_lane(name, each) for each in lanes))


def resolve(name: str, *, lane: Lane, generation: str) -> list[str]:
    """Return the topics in Kafka that a function in a lane consumes for a topic name in functions.yaml.

    Args:
        name: The name in functions.yaml, such as `build`, `cdc.users`, or `cdc.*`, which stands for all topics of
            Debezium but the outbox's. `cdc.outbox` is that of the oldest generation: a row is in the topic of each one.
        lane: The lane of the function.
        generation: The captured snapshot generations, separated by commas, the oldest first.
    """
    captured, entries = generations(generation), _cdc_entries()
    if name == ALL_OF_CDC:
        return list(dict.fromkeys(cdc_topic(entry, each) for entry in entries if entry != OUTBOX for each in captured))
    if name == f"cdc.{OUTBOX}":
        return [cdc_topic(OUTBOX, each) for each in captured[:1] if OUTBOX in entries]  # guard: outbox.one_generation
    if name.startswith("cdc."):
        return [cdc_topic(name.removeprefix("cdc."), each) for each in captured]
    return served(name, lane)


def in_turns(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Group topics for polling in turns: all broadcast queues with one base name share a turn.

    Therefore a batch of small sends is processed between any two batches of broadcasts, however many tenants have a
    broadcast.
    """
    turns: dict[tuple[str, bool], list[str]] = {}
    for topic in names:
        turns.setdefault((base_of(topic), lane_of(topic) in BROADCASTS), []).append(topic)
    return [tuple(turn) for turn in turns.values()]
