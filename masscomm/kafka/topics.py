"""The topics of schemas/topics.yaml, by name and lane."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from masscomm.domain.lanes import BROADCASTS, Lane
from schemas import read_text


@dataclass(frozen=True, kw_only=True)
class Topic:
    """One Kafka topic as it is created.

    name: with its lane's ending; schema: the record's name in schemas/, None where the value is not Avro of ours.
    """

    name: str
    description: str
    owner: str
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

# Names that a client must give and that nothing is ever committed under; a broker that asks who may, asks for them.
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
    """The topic's name in a lane; that of the bulk lane where there is none in this one."""
    lanes = _document()["topics"][name]["lanes"]
    return f"{name}.{lane}" if lane is not Lane.BULK and lane in lanes else name


@cache
def lane_of(topic: str) -> Lane:
    """The lane of a topic in Kafka, by its name's ending."""
    return next((lane for lane in Lane if topic.endswith(f".{lane}")), Lane.BULK)


def base_of(topic: str) -> str:
    """The topic's name in schemas/topics.yaml."""
    return topic.removesuffix(f".{lane_of(topic)}")


def same_lane(name: str, topic: str) -> str:
    """A topic by its name, in the lane that another topic in Kafka is of."""
    return in_lane(name, lane_of(topic))


def chain_topics() -> list[Topic]:
    """Every topic of the chain in every lane."""
    defaults = _document()["defaults"]
    found: list[Topic] = []
    for name, entry in _document()["topics"].items():
        values = defaults | entry
        found.extend(
            Topic(
                name=in_lane(name, Lane(lane)),
                description=values["description"],
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
            for lane in values["lanes"]
        )
    return found


def cdc_prefix(generation: str) -> str:
    """Debezium's topic.prefix for a snapshot generation."""
    return str(_document()["cdc"]["prefix"].format(generation=generation))


def cdc_topic(name: str, generation: str) -> str:
    """The topic of a captured table, or of Debezium's `notification` or `heartbeat`."""
    cdc = _document()["cdc"]
    entry = cdc["tables"].get(name) or cdc[name]
    return str(entry["topic"].format(generation=generation))


def generations(text: str) -> tuple[str, ...]:
    """The snapshot generations that are captured, from names separated by commas: two while one replaces another."""
    return tuple(name.strip() for name in text.split(","))


def generation_of(topic: str) -> str:
    """The generation of a topic of Debezium's. Errors: ValueError where it is none of its topics."""
    cdc = _document()["cdc"]
    for entry in (*cdc["tables"].values(), cdc["notification"], cdc["heartbeat"]):
        before, after = entry["topic"].split("{generation}")
        if topic.startswith(before) and topic.endswith(after) and len(topic) > len(before) + len(after):
            return topic[len(before) : len(topic) - len(after)]
    raise ValueError(f"{topic} is no topic of change data capture")


def cdc_topics(captured: str) -> list[Topic]:
    """Every topic Debezium writes for the generations that are captured (see generations)."""
    cdc, defaults = _document()["cdc"], _document()["defaults"]
    entries = {**cdc["tables"], "notification": cdc["notification"], "heartbeat": cdc["heartbeat"]}
    return [
        Topic(
            name=entry["topic"].format(generation=generation),
            description=f"Debezium's {name}",
            owner=cdc["owner"],
            schema=None,
            partitions=entry.get("partitions", cdc["partitions"]),
            retention_hours=cdc["retention_hours"],
            cleanup=defaults["cleanup"],
            max_message_bytes=defaults["max_message_bytes"],
            timestamp_ahead_ms=defaults["timestamp_ahead_ms"],
            replication_factor=defaults["replication_factor"],
            producers=tuple(cdc["producers"]),
            consumers=tuple(entry["consumers"]),
        )
        for generation in generations(captured)
        for name, entry in entries.items()
    ]


def served(name: str, lane: Lane) -> list[str]:
    """The topics of a name that functions deployed in a lane read and write.

    Those of bulk serve the small lane and every queue of broadcasts: what keeps them apart is the queue, not who works
    it off.
    """
    lanes = [Lane.SMALL, *BROADCASTS] if lane is Lane.BULK else [lane]
    return list(dict.fromkeys(in_lane(name, each) for each in lanes))


def resolve(name: str, *, lane: Lane, generation: str) -> list[str]:
    """A topic as functions.yaml names it (`build`, `cdc.users`) to those in Kafka that a function of the lane reads.

    generation: the one that is captured, or several (see generations).
    """
    if name.startswith("cdc."):
        return [cdc_topic(name.removeprefix("cdc."), each) for each in generations(generation)]
    return served(name, lane)


def in_turns(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Topics in Kafka as they are served in turns: a name's queues of broadcasts take one turn together.

    So there is a batch of sends to few between any two of broadcasts, however many tenants have one.
    """
    turns: dict[tuple[str, bool], list[str]] = {}
    for topic in names:
        turns.setdefault((base_of(topic), lane_of(topic) in BROADCASTS), []).append(topic)
    return [tuple(turn) for turn in turns.values()]
