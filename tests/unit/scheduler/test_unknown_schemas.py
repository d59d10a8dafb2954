"""A record with an unknown schema id waits in the delay store and holds no partition."""

import json

import pytest

from functions.catalogue import read_catalogue
from functions.scheduler.release_due_records import ReleaseDueRecords
from masscomm.domain.time_limits import DENIED_SCHEMA_RETRY_S
from masscomm.kafka import topics
from masscomm.kafka.avro import own_schema
from masscomm.kafka.dead_letters import SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TIMESTAMP, SOURCE_TOPIC
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.on_failure import on_failure_value
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.stores.sends.in_memory import InMemorySends
from schemas import read_text
from tests.support.harness.chain import NOW, entry, registry_with_all_schemas, send
from tests.support.harness.reschedule_records import Rescheduler

# The id of the next schema that is registered.
_ID = registry_with_all_schemas().register("late-value", {})
# Of each schema, an example, and the topic to which its records are released, without their lane; those of the other
# schemas return to their own.
_EXAMPLES = {
    "SendRequested": ("SendRequested.full", topics.RECHECK),
    "RecheckRequested": ("RecheckRequested.split", topics.RECHECK),
    "BuildRequested": ("BuildRequested.push", topics.BUILD),
    "DeliveryRequested": ("DeliveryRequested.push", topics.DELIVERY),
    "AudienceRequested": ("AudienceRequested.segment", topics.AUDIENCE),
    "NotificationOutcome": ("NotificationOutcome.sent", topics.OUTCOME),
    "ReceiptReceived": ("ReceiptReceived.bounce", topics.RECEIPT),
    "DeviceStatusChanged": ("DeviceStatusChanged.inactive", topics.DEVICE_STATUS),
    "EventOccurred": ("EventOccurred.match_finished", topics.EVENT),
    "WebhookRequested": ("WebhookRequested.two_messages", ""),
}


def _consumed() -> list[topics.Topic]:
    """Return each topic with a schema that invokes a function."""
    sources = [each.event_source for each in read_catalogue(generation="g1") if each.event_source is not None]
    consumed = {topic for source in sources for topic in source.topics}
    return [each for each in topics.chain_topics() if each.schema is not None and each.name in consumed]


def _hand_over(rescheduler: Rescheduler, record: KafkaRecord) -> None:
    value = on_failure_value(record, "UnknownSchema", rescheduler.clock.now_ms())
    assert rescheduler.run(rescheduler.use_case, entry(value, topic=topics.ON_FAILURE)) == []


def _release(rescheduler: Rescheduler) -> None:
    """Release the delayed on-failure record when it is due, and consume it again."""
    rescheduler.clock.advance(DENIED_SCHEMA_RETRY_S)
    assert _sweep(rescheduler) == 1
    ((topic, key, value, headers),) = rescheduler.producer.produced
    rescheduler.forget()
    released = entry(value, topic=topic, key=key, headers=headers, timestamp=rescheduler.clock.now_ms())
    assert rescheduler.run(rescheduler.use_case, released) == []


def _sweep(rescheduler: Rescheduler) -> int:
    release_due_records = ReleaseDueRecords(
        store=rescheduler.store,
        sends=InMemorySends(),
        producer=rescheduler.producer,
        clock=rescheduler.clock,
        logger=rescheduler.driver.logger,
    )
    return release_due_records.sweep(lambda: 60.0).released


def _record(rescheduler: Rescheduler, topic: topics.Topic) -> KafkaRecord:
    """Return a record with a schema id that is not registered yet."""
    example, _ = _EXAMPLES[topic.schema or ""]
    value = json.loads(read_text(f"examples/{example}.json"))
    known = rescheduler.codec.encode(topic.name, topic.schema or "", value)
    return KafkaRecord(
        topic=topic.name,
        partition=3,
        offset=41,
        timestamp_ms=NOW,
        key=b"key",
        value=b"\0" + _ID.to_bytes(4, "big") + known[5:],
        headers=(("trace", b"\xff"),),
    )


def _send(**values: object) -> bytes:
    rescheduler = Rescheduler()
    value = rescheduler.codec.encode(topics.SEND_MONOLITH, "SendRequested", send([1, 2], **values).to_avro())
    return b"\0" + _ID.to_bytes(4, "big") + value[5:]


def _of_send(value: bytes) -> KafkaRecord:
    return KafkaRecord(topics.SEND_MONOLITH, 3, 41, NOW, b"key", value, (("trace", b"1"),))


def _learn(rescheduler: Rescheduler, schema: str) -> None:
    assert rescheduler.registry.register("late-value", own_schema(schema) | {"doc": "late"}) == _ID


@pytest.mark.parametrize("topic", _consumed(), ids=lambda topic: topic.name)
@pytest.mark.guarantee("schema_registry.late_schema_is_read")
def test_record_of_a_late_schema_returns_to_its_function(topic: topics.Topic) -> None:
    rescheduler = Rescheduler()
    _hand_over(rescheduler, _record(rescheduler, topic))
    assert rescheduler.delayed_record().topic == topics.ON_FAILURE
    _learn(rescheduler, topic.schema or "")
    _release(rescheduler)
    assert rescheduler.dead_letters() == []
    item = rescheduler.delayed_record()
    assert topics.base_of(item.topic) == (_EXAMPLES[topic.schema or ""][1] or topic.name)
    assert item.topic.endswith(".critical") == topic.name.endswith(".critical")
    assert ("trace", b"\xff") in item.headers


@pytest.mark.guarantee("schema_registry.denied_id_expires")
@pytest.mark.kills(guard="on_failure.denied_id_expires")
def test_record_of_an_unknown_schema_is_dead_lettered() -> None:
    rescheduler = Rescheduler()
    record = _of_send(_send())
    _hand_over(rescheduler, record)
    _release(rescheduler)
    (letter,) = rescheduler.dead_letters()
    assert letter["masscomm.reason"] == "unknown_schema"
    position = [letter[name] for name in (SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET, SOURCE_TIMESTAMP)]
    assert position == [record.topic, "3", "41", str(NOW)]
    assert letter["trace"] == "1"
    ((_, key, value, _),) = rescheduler.producer.produced
    assert (key, value) == (record.key, record.value)
    assert not rescheduler.store.items


def test_redelivered_on_failure_record_is_delayed_once() -> None:
    rescheduler = Rescheduler()
    for _ in range(2):
        _hand_over(rescheduler, _of_send(_send()))
    assert rescheduler.delayed_record().due_ms == NOW + DENIED_SCHEMA_RETRY_S * 1000


def test_send_of_a_late_schema_derives_the_same_ids() -> None:
    """A send without a send_id has the one of its original position."""
    late, direct = Rescheduler(), Rescheduler()
    record = _of_send(_send(send_id=None))
    _hand_over(late, record)
    _learn(late, "SendRequested")
    _release(late)
    direct.reschedule(send([1, 2], send_id=None), topics.SEND_MONOLITH)
    assert _values(late.delayed_record()) == _values(direct.delayed_record())


def _values(item: DelayedRecord) -> tuple[str, bytes]:
    return item.topic, item.value
