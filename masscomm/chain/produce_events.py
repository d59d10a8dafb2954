"""Produces occurred events to the topic `event`."""

from collections.abc import Iterable

from masscomm.domain.records import EventOccurred
from masscomm.domain.time_limits import API_FLUSH_S
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer
from masscomm.observability import traces
from masscomm.stores.event_ids.port import EventKey


def produce_events(
    events: Iterable[EventOccurred], codec: Codec, producer: Producer
) -> dict[EventKey, Exception | None]:
    """Produce events with distinct keys, and wait until Kafka has answered. Return the error of each, None for one that
    Kafka has acknowledged. Raises Retry.
    """
    errors: dict[EventKey, Exception | None] = {}
    for event in events:
        key = EventKey.of(event)
        value = codec.encode(topics.EVENT, "EventOccurred", event.to_avro())

        def report(error: Exception | None, key: EventKey = key) -> None:
            errors[key] = error

        # The events of a key share a partition, so that they keep their order.
        # guard: events.partition_of_a_key
        record_key = event.event_id if event.key is None else f"{event.club_id}/{event.key}"
        headers = traces.begun_by(f"{key.club_id}/{key.event_id}").headers
        producer.produce(topics.EVENT, record_key.encode(), value, list(headers), report)
    producer.flush(API_FLUSH_S)
    return errors
