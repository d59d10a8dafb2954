"""The tests that every producer must pass, in memory and real."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from masscomm.errors import DeadLetter, Retry
from masscomm.kafka.producer import Producer

# Kafka limits the compressed size of a record; these bytes do not compress.
TOO_LARGE = hashlib.shake_128(b"too large").digest(2_000_000)


@dataclass
class DeliveryReports:
    """The errors reported for each record, in the order of the reports."""

    of: dict[str, list[Exception | None]] = field(default_factory=dict)

    def to(self, name: str) -> Callable[[Exception | None], None]:
        """Return the callback that receives the delivery report of one record."""
        return lambda error: self.of.setdefault(name, []).append(error)


@dataclass(frozen=True)
class Target:
    """A producer with a topic that accepts up to 1 MB.

    Attributes:
        values: Returns the values on the topic, in any order.
        compacted: The name of a compacted topic.
    """

    producer: Producer
    topic: str
    values: Callable[[], list[bytes | None]]
    compacted: str


class ProducerContract:
    """Subclasses define the fixtures `target` and `unreachable`, a producer whose broker does not respond."""

    def test_record_is_on_its_topic_and_reported_once_after_flush(self, target: Target) -> None:
        reports = DeliveryReports()
        for name in ("a", "b", "c"):
            target.producer.produce(target.topic, name.encode(), name.encode(), [], reports.to(name))
        target.producer.flush(20)
        target.producer.flush(20)
        assert reports.of == {"a": [None], "b": [None], "c": [None]}
        assert sorted(target.values(), key=repr) == [b"a", b"b", b"c"]

    def test_tombstone_with_headers_is_produced(self, target: Target) -> None:
        reports = DeliveryReports()
        target.producer.produce(target.topic, None, None, [("a", b"\xff"), ("a", b"")], reports.to("tombstone"))
        target.producer.flush(20)
        assert reports.of == {"tombstone": [None]}
        assert target.values() == [None]

    @pytest.mark.guarantee("kafka_answer.record_too_large")
    def test_oversized_record_alone_is_a_dead_letter(self, target: Target) -> None:
        reports = DeliveryReports()
        for name, value in (("before", b"1"), ("large", TOO_LARGE), ("after", b"2")):
            target.producer.produce(target.topic, name.encode(), value, [], reports.to(name))
        target.producer.flush(20)
        (error,) = reports.of.pop("large")
        assert isinstance(error, DeadLetter)
        assert error.reason == "too_large"
        assert reports.of == {"before": [None], "after": [None]}

    def test_oversized_headers_are_a_dead_letter(self, target: Target) -> None:
        reports = DeliveryReports()
        target.producer.produce(target.topic, None, b"1", [("a", TOO_LARGE)], reports.to("large"))
        target.producer.flush(20)
        (error,) = reports.of["large"]
        assert isinstance(error, DeadLetter)
        assert error.reason == "too_large"

    @pytest.mark.guarantee("kafka_answer.header_encoding")
    def test_unencodable_header_is_a_dead_letter(self, target: Target) -> None:
        reports = DeliveryReports()
        target.producer.produce(target.topic, None, b"1", [("\ud800", b"")], reports.to("bad"))
        target.producer.produce(target.topic, None, b"2", [], reports.to("good"))
        target.producer.flush(20)
        (error,) = reports.of["bad"]
        assert isinstance(error, DeadLetter)
        assert error.reason == "invalid"
        assert reports.of["good"] == [None]
        assert target.values() == [b"2"]

    @pytest.mark.guarantee("kafka_answer.record_without_key")
    def test_record_without_key_for_a_compacted_topic_is_refused(self, target: Target) -> None:
        reports = DeliveryReports()
        target.producer.produce(target.compacted, None, b"1", [], reports.to("bad"))
        target.producer.produce(target.topic, None, b"2", [], reports.to("good"))
        target.producer.flush(20)
        assert [getattr(error, "reason", error) for error in reports.of["bad"]] == ["invalid"]
        assert reports.of["good"] == [None]

    @pytest.mark.guarantee("kafka_answer.no_acknowledgement")
    def test_unreachable_broker_is_reported_once_as_retry(self, unreachable: Producer) -> None:
        reports = DeliveryReports()
        unreachable.produce("topic", b"key", b"value", [], reports.to("a"))
        unreachable.produce("topic", b"key", b"value", [], reports.to("b"))
        unreachable.flush(2)
        unreachable.flush(0.1)
        assert [[type(error) for error in errors] for errors in reports.of.values()] == [[Retry], [Retry]]
