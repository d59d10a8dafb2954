"""The topics of schemas/topics.yaml, by name and lane."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from masscomm.domain.lanes import BROADCASTS, Lane
from schemas import read_text


@dataclass(frozen=True, kw_only=True)
class Topic:
    """One Kafka topic with its configuration."""

    # With the suffix of its lane.
    name: str
    description: str
    owner: str
    # Name of the record in schemas/, None if the value has no Avro schema of masscomm.
    schema: str | None
    partitions: int
    retention_hours: int
    cleanup: str
    max_message_bytes: int
    timestamp_ahead_ms: int
    replication_factor: int
    producers: tuple[str, ...]
    consumers: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The registry's subject for the value."""
        return f"{self.name}-value"

    @property
    def config(self) -> dict[str, str]:
        """The topic's configuration, by Kafka's names."""
        return {
            "cleanup.policy": self.cleanup,
            "retention.ms": str(self.retention_hours * 3_600_000),
            "max.message.bytes": str(self.max_message_bytes),
            "message.timestamp.after.max.ms": str(self.timestamp_ahead_ms),
        }


SEND_MONOLITH = "send.monolith"
SEND_API = "send.api"
BUILD = "build"
DELIVERY = "delivery"
OUTCOME = "outcome"
RECHECK = "recheck"
DEVICE_STATUS = "device_status"
RECEIPT = "receipt"
DEAD_LETTER = "dead-letter"
DEAD_LETTER_STATUS = "dead-letter-status"
ON_FAILURE = "on-failure"

# Consumer groups that clients require and brokers authorize. No offset is committed under them.
CDC_PROGRESS_GROUP = "masscomm.cdc.progress"
SOURCE_RECORDS_GROUP = "masscomm.kafka.source_records"
SPARK_GROUP = "masscomm.spark_metrics"

CDC_TABLES = ("users", "user_settings", "devices", "notification_templates")


@cache
def _document() -> dict[str, Any]:
    import yaml

    document: dict[str, Any] = yaml.safe_load(read_text("topics.yaml"))
    return document


def in_lane(name: str, lane: Lane) -> str:
    """Return the topic's name in a lane; its name in the bulk lane if this lane has no such topic."""
    lanes = _document()["topics"][name]["lanes"]
    return f"{name}.{lane}" if lane is not Lane.BULK and lane in lanes else name


@cache
def lane_of(topic: str) -> Lane:
    """Return the lane of a topic in Kafka, by the suffix of its name."""
    return next((lane for lane in Lane if topic.endswith(f".{lane}")), Lane.BULK)


def base_of(topic: str) -> str:
    """The topic's name in schemas/topics.yaml."""
    return topic.removesuffix(f".{lane_of(topic)}")


def same_lane(name: str, topic: str) -> str:
    """Return the topic's name in the lane of another topic in Kafka."""
    return in_lane(name, lane_of(topic))


def chain_topics() -> list[Topic]:
    """Every topic of the chain in every lane."""
    defaults = _document()["defaults"]
    found: list[Topic] = []
    for name, entry in _document()["topics"].items():
        values = defaults | entry
        found.extend(_topic(in_lane(name, Lane(lane)), values["description"], values) for lane in values["lanes"])
    return found


def _topic(name: str, description: str, values: Mapping[str, Any]) -> Topic:
    return Topic(
        name=name,
        description=description,
        owner=values["owner"],
        schema=values.get("schema"),
        partitions=values["partitions"],
        retention_hours=values["retention_hours"],
        cleanup=values["cleanup"],
        max_message_bytes=values["max_message_bytes"],
        timestamp_ahead_ms=values["timestamp_ahead_ms"],
        replication_factor=values["replication_factor"],
        producers=tuple(values["producers"]),
        consumers=tuple(values["consumers"]),
    )


def cdc_prefix(generation: str) -> str:
    """Debezium's topic.prefix for a snapshot generation."""
    return str(_document()["cdc"]["prefix"].format(generation=generation))


def cdc_topic(name: str, generation: str) -> str:
    """The topic of a captured table, or of Debezium's `notification` or `heartbeat`."""
    cdc = _document()["cdc"]
    entry = cdc["tables"].get(name) or cdc[name]
    return str(entry["topic"].format(generation=generation))


def generations(text: str) -> tuple[str, ...]:
    """Split the captured snapshot generations at commas. There are two while one replaces another."""
    return tuple(name.strip() for name in text.split(","))


def generation_of(topic: str) -> str:
    """Return the generation of one of Debezium's topics.

    Raises:
        ValueError: it is not a topic of Debezium.
    """
    cdc = _document()["cdc"]
    for entry in (*cdc["tables"].values(), cdc["notification"], cdc["heartbeat"]):
        before, after = entry["topic"].split("{generation}")
        if topic.startswith(before) and topic.endswith(after) and len(topic) > len(before) + len(after):
            return topic[len(before) : len(topic) - len(after)]
    raise ValueError(f"{topic} is no topic of change data capture")


def cdc_topics(captured: str) -> list[Topic]:
    """Return every topic to which Debezium produces for the captured generations (see generations)."""
    cdc, defaults = _document()["cdc"], _document()["defaults"]
    entries = {**cdc["tables"], "notification": cdc["notification"], "heartbeat": cdc["heartbeat"]}
    return [
        _topic(entry["topic"].format(generation=generation), f"Debezium's {name}", defaults | cdc | entry)
        for generation in generations(captured)
        for name, entry in entries.items()
    ]


def served(name: str, lane: Lane) -> list[str]:
    """Return the topics of a name to which functions in a lane produce and from which they consume.

    Functions in the bulk lane serve the small lane and every queue of broadcasts. Separate queues isolate these lanes;
    separate functions are not needed.
    """
    lanes = [Lane.SMALL, *BROADCASTS] if lane is Lane.BULK else [lane]
    return list(dict.fromkeys(in_lane(name, each) for each in lanes))


def resolve(name: str, *, lane: Lane, generation: str) -> list[str]:
    """Return the topics in Kafka that a function of a lane consumes for a topic of functions.yaml.

    Args:
        name: in functions.yaml, such as `build` or `cdc.users`.
        lane: of the function.
        generation: the captured generation, or several (see generations).
    """
    if name.startswith("cdc."):
        return [cdc_topic(name.removeprefix("cdc."), each) for each in generations(generation)]
    return served(name, lane)


def in_turns(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Group topics in Kafka into turns: all queues of broadcasts of one name share a turn.

    So a batch of small sends is between any two batches of broadcasts, independent of the number of tenants with one.
    """
    turns: dict[tuple[str, bool], list[str]] = {}
    for topic in names:
        turns.setdefault((base_of(topic), lane_of(topic) in BROADCASTS), []).append(topic)
    return [tuple(turn) for turn in turns.values()]
