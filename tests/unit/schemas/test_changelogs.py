"""The topics of captured rows are changelogs: Kafka keeps the last record of each key."""

import re

from masscomm.cdc.change_events import HEARTBEAT_PREFIX
from masscomm.cdc.debezium import debezium_config
from masscomm.kafka.topics import cdc_topic, cdc_topics

TOPICS = {topic.name: topic for topic in cdc_topics("g1")}
CHANGELOG = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "604800000",
    "max.compaction.lag.ms": "691200000",
    "segment.ms": "86400000",
    "delete.retention.ms": "2592000000",
}


def test_every_topic_but_the_outbox_is_compacted() -> None:
    outbox = cdc_topic("outbox", "g1")
    for topic in TOPICS.values():
        if topic.name == outbox:
            assert (topic.cleanup, topic.compaction) == ("delete", None), "each row is an event"
            assert not CHANGELOG.keys() - {"cleanup.policy"} & topic.config.keys()
        else:
            assert topic.config.items() >= CHANGELOG.items(), topic.name
    assert {cdc_topic(name, "g1") for name in ("users", "heartbeat", "notification")} <= TOPICS.keys()


def test_logical_messages_of_other_writers_are_not_captured() -> None:
    """The topic would keep the last message of each prefix."""
    captured = debezium_config("g1")["message.prefix.include.list"]
    assert re.fullmatch(captured, HEARTBEAT_PREFIX)
    assert "," not in captured
    assert not re.fullmatch(captured, "another.writer")
