"""Maps a record of the organisation's topics to an event, or to a dead letter with the reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from masscomm.domain.event_mapping import Unmapped
from masscomm.domain.records import EventOccurred
from masscomm.errors import DeadLetter, Stop
from masscomm.json_reader import InvalidJson, read_json
from masscomm.kafka.avro import KNOWN_SUBJECT, Codec, HttpSchemaRegistry
from masscomm.kafka.avro_documents import AvroDocuments
from masscomm.kafka.dead_letters import dead_letter_headers
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.event_sources import AVRO, EventSources
from masscomm.kafka.producer import Headers
from masscomm.kafka.registry_sign_in import RegistrySignIn
from masscomm.kafka.topics import DEAD_LETTER, EVENT, chain_topics

FUNCTION = "spark_events"
# The prefix of the headers that masscomm adds to records. A producer of these topics is not masscomm.
_OWN_HEADERS = "masscomm."
# The bytes that Kafka and a dead letter's own headers need in a record of the topic dead-letter.
_OVERHEAD_BYTES = 16_384
# Errors of a fault in the code that the content of one record can cause: the record must not stop the others.
_UNLISTED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Output(NamedTuple):
    """A record for Spark's Kafka sink."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers | None


@dataclass(frozen=True, kw_only=True)
class RecordMapper:
    """Maps records in the Python processes of Spark's executors.

    Attributes:
        sources: The sources, whose registry is set if one of them has Avro records.
        topic_ids: Kafka's id of each topic.
        registry_url: masscomm's registry.
        registry_secret: The ARN of the secret with which a process signs in there; empty: it needs no sign-in.
    """

    sources: EventSources
    topic_ids: Mapping[str, str]
    registry_url: str
    registry_secret: str = ""

    def __call__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] | None,
    ) -> Output:
        """Return the event of a record, or its dead letter. Raises Retry if a schema registry is unavailable."""
        record = KafkaRecord(
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp_ms=timestamp_ms,
            key=None if key is None else bytes(key),
            value=None if value is None else bytes(value),
            # A header with an original position would have the dead letter replayed to the topic that it names.
            # guard: own_topics.headers_of_masscomm
            headers=tuple((name, bytes(each or b"")) for name, each in headers or () if not _is_own(name)),
        )
        try:
            event = self.event(record)
            codec = _codec(self.registry_url, self.registry_secret)
            encoded = codec.encode(EVENT, EventOccurred.__name__, event.to_avro())
        except DeadLetter as error:
            return dead_letter(record, error)
        except _UNLISTED as error:  # guard: own_topics.unlisted_error
            return dead_letter(record, DeadLetter("unlisted", f"an error that is in no table: {error!r}"[:500]))
        return Output(EVENT, event.event_id.encode(), encoded, None)

    def event(self, record: KafkaRecord) -> EventOccurred:
        """Return the event of a record. Raises DeadLetter, or Retry if a schema registry is unavailable."""
        source = self.sources.source_of(record.topic)
        topic_id = self.topic_ids.get(record.topic)
        if source is None or topic_id is None:
            # The query reads no other topics, and starts again for a topic whose id has changed.
            raise Stop(f"{record.topic} has no source or no id")
        if source.format == AVRO:
            document: Any = _documents(*self._registry()).decode(record.value)
        else:
            document = _json(record.value)
        try:
            return source.mapping.event(
                document,
                {name.lower(): value.decode(errors="replace") for name, value in record.headers},
                default_event_id=event_id(topic_id, record.partition, record.offset),
                default_occurred_at=record.timestamp_ms,
            )
        except Unmapped as error:
            raise DeadLetter("invalid", f"no event of {source.name}: {error}") from error

    def _registry(self) -> tuple[str, str, str]:
        if self.sources.registry_url is None:
            return self.registry_url, self.registry_secret, KNOWN_SUBJECT
        # The credentials of one registry are not sent to another one.
        return self.sources.registry_url, "", self.sources.known_subject or KNOWN_SUBJECT


def event_id(topic_id: str, partition: int, offset: int) -> str:
    """Return the id of the event of a record. A topic that is deleted and created again has another id, so that its
    records are not taken for those that were at the same offsets.
    """
    return f"{topic_id}:{partition}:{offset}"  # guard: own_topics.event_id_of_recreated_topic


def dead_letter(record: KafkaRecord, error: DeadLetter) -> Output:
    """Return the dead letter of a record: without the record's bytes, if they are too many for the topic."""
    size = sum(map(len, (record.key or b"", record.value or b"")))
    size += sum(len(name.encode()) + len(value) for name, value in record.headers)
    if size > _largest_dead_letter() - _OVERHEAD_BYTES:  # guard: own_topics.size_of_dead_letter
        error = DeadLetter("too_large", f"{size} bytes are too many for a dead letter, so they are only in the topic")
        record = record._replace(key=None, value=None, headers=())
    return Output(DEAD_LETTER, record.key, record.value, dead_letter_headers(record, error, FUNCTION))


@cache
def _largest_dead_letter() -> int:
    return next(topic.max_message_bytes for topic in chain_topics() if topic.name == DEAD_LETTER)


def _is_own(header: str) -> bool:
    return header.startswith(_OWN_HEADERS)


def _json(value: bytes | None) -> Any:
    if not value:
        raise DeadLetter("undecodable", "the record has no value")
    try:
        return read_json(value)
    except InvalidJson as error:
        raise DeadLetter("undecodable", f"the value is not JSON: {error}") from error


# Each Python process of an executor asks a registry once.
@cache
def _codec(registry_url: str, secret: str) -> Codec:
    return Codec(HttpSchemaRegistry(registry_url, sign_in=RegistrySignIn.with_secret(secret)))


@cache
def _documents(registry_url: str, secret: str, known_subject: str) -> AvroDocuments:
    sign_in = RegistrySignIn.with_secret(secret)
    return AvroDocuments(HttpSchemaRegistry(registry_url, sign_in=sign_in, known_subject=known_subject))
