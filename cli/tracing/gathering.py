"""Finds the records, table rows and log lines of a send."""

from collections.abc import Iterable

from confluent_kafka import Message

from cli.installation import Installation
from cli.tracing import lines, records, tables
from cli.tracing.records import Read
from cli.tracing.steps import Asked, Kind, Trace
from masscomm.domain.categories import resolve_channels
from masscomm.domain.ids import notification_id
from masscomm.kafka import dead_letters, topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.payloads import payload_of, schemas
from masscomm.kafka.topic_reading import read_topics
from masscomm.observability import traces


def gather(installation: Installation, an_id: str) -> Trace | None:
    """Return the trace of a send or a notification by its id; None if no retained record mentions it.

    Raises KafkaException, Retry or botocore's errors if a server does not respond.
    """
    codec = Codec(installation.registry())
    everything = _records(installation, codec)
    asked = _asked(everything, an_id)
    if asked is None:
        return None
    found = [read for read in everything if asked.concerns(read.value)]
    steps = [records.step(read, asked) for read in found]
    steps += tables.steps(installation, asked, found, codec)
    contexts = [traces.of_headers(read.headers) for read in found]
    trace_ids = dict.fromkeys([context.trace_id for context in contexts if context is not None])
    # This is the trace id that functions give to monolith records without a trace header.
    trace_ids[traces.begun_by(asked.send_id).trace_id] = None
    if installation.logs is not None:
        positions = {read.position for read in found}
        steps += lines.steps(installation.logs, asked, set(trace_ids), positions)
    mentioned = {str(step.details.get("trace_id")) for step in steps}
    kept = tuple(name for name in trace_ids if name in mentioned)
    order = {Kind.SPAN: 1, Kind.LINE: 2}
    return Trace(
        asked=asked,
        trace_ids=kept,
        steps=tuple(sorted(steps, key=lambda step: (step.at_ms, order.get(step.kind, 0), step.where))),
    )


def _asked(everything: Iterable[Read], an_id: str) -> Asked | None:
    """Return the send or notification with this id. Notification ids are computed from the users and channels of
    each record.
    """
    for read in everything:
        value = read.value
        send_id = value.get("send_id")
        if send_id is None:
            continue
        if send_id == an_id:
            return Asked(send_id=an_id)
        for user_id in value.get("user_ids") or value.get("to_users") or ():
            for channel in _channels(read):
                if notification_id(send_id, user_id, channel) == an_id:
                    return Asked(send_id=send_id, user_id=user_id, channel=channel)
    return None


def _channels(read: Read) -> Iterable[str]:
    if read.schema == "SendRequested":
        return resolve_channels(
            read.value["type"], read.value["channels"], read.value["club_id"], read.value["timestamp"]
        )
    return [read.value["channel"]] if "channel" in read.value else read.value.get("channels", ())


def _records(installation: Installation, codec: Codec) -> list[Read]:
    """Return every record of masscomm's topics that can be decoded, oldest first; of two with the same time,
    requests come first.
    """
    names = [*schemas(), topics.DEAD_LETTER]
    order = {"SendRequested": 0, "RecheckRequested": 1, "BuildRequested": 2, "DeliveryRequested": 3}
    found = (
        _read(message, codec) for message in read_topics(installation.kafka_bootstrap, names, installation.security)
    )
    return sorted(
        (read for read in found if read is not None), key=lambda read: (read.at_ms, order.get(read.schema, 4))
    )


def _read(message: Message, codec: Codec) -> Read | None:
    headers, topic = records.headers_of(message), message.topic() or ""
    # A dead letter is decoded with the schema of its source topic.
    source = dict(headers).get(dead_letters.SOURCE_TOPIC, b"").decode(errors="replace")
    kind = source if topic == topics.DEAD_LETTER else topic
    value = message.value()
    payload = payload_of(kind, value if isinstance(value, bytes) else None, codec)
    schema = schemas().get(kind)
    if payload.value is None or schema is None:
        return None
    return records.read(message, topic=topic, schema=schema, value=payload.value, headers=headers)
