"""Produces records again whose schema was registered after the job had read them.

The job quarantines a record with an unknown schema id at once, so that no other record waits for it. The chain may
still deliver it: a function reads the record later than the job, and the scheduler decodes it once more when it has
waited. So the job asks for the schema ids of its quarantined records for LATE_SCHEMA_S. Once the registry has one, the
records are produced again to their topics with their original positions, as an operator replays dead letters. Their
ids are those of the first copies, so they are counted and published once, whatever the functions have done with those.
The first positions stay in the quarantine, and the archive stays true: a decision is never changed.
"""

import logging
from collections.abc import Callable

from masscomm.domain.time_limits import LATE_SCHEMA_S, PRODUCER_MESSAGE_S
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka.dead_letters import with_position
from masscomm.kafka.producer import Producer
from masscomm.kafka.source_records import SourceRecords
from masscomm.kafka.topics import chain_topics
from spark_metrics.common.sources import kinds_of_topics
from spark_metrics.counting.problems import Problem
from spark_metrics.counting.sink import PostgresSink
from spark_metrics.counting.writers import KnownWriters
from spark_metrics.sql import read_sql

_log = logging.getLogger(__name__)

# How many records one call reads and produces.
_SLICE = 100
# The look-ups of a run that ends: as many as those of a stream in the same quarter of an hour.
LOOK_UPS = 900

type Place = tuple[str, int, int]


class LateSchemas:
    """Looks up the schema ids of quarantined records, one id at each call, so that a flood of ids costs little.

    Args:
        sink: The sink of the calling thread.
        writers: The schemas that this object learns; not those of the running query.
        source: Reads the records.
        producer: Connects a producer, when the first record is produced.
    """

    def __init__(
        self, sink: PostgresSink, writers: KnownWriters, source: SourceRecords, producer: Callable[[], Producer]
    ) -> None:
        self._sink, self._writers, self._source, self._producer = sink, writers, source, producer
        self._kinds = kinds_of_topics()
        self._looked_up = 0

    def produce_all(self) -> None:
        """Look up each schema id once, but at most LOOK_UPS of them. Raises as produce_next."""
        seen: set[int] = set()
        while self._looked_up not in seen and len(seen) <= LOOK_UPS:
            seen.add(self._looked_up)
            self.produce_next()

    def produce_next(self) -> int:
        """Look up the next schema id, and produce records again if the registry has it. Return their number.

        Raises Retry or psycopg.OperationalError: a server is down, and the call can be repeated.
        """
        wait_s = LATE_SCHEMA_S  # guard: metrics.late_schema_is_not_too_late
        names = {
            "reason": Problem.UNKNOWN_SCHEMA,
            "topics": written_topics(),
            "wait_s": wait_s,
            "after": self._looked_up,
            "most": _SLICE,
        }
        rows = self._sink.connected().execute(read_sql("late_schemas"), names).fetchall()
        if not rows:
            return 0
        self._looked_up = schema_id = rows[0][0]
        self._writers.learn({(self._kinds[topic], schema_id) for _, topic, _, _ in rows})
        known = self._writers.known
        places = [place for _, *place in rows if schema_id in known[self._kinds[place[0]]]]
        return self._produce([(topic, partition, offset) for topic, partition, offset in places])

    def _produce(self, places: list[Place]) -> int:
        if not places:
            return 0
        results: dict[Place, Exception | None] = {}
        producer = self._producer()
        for place in places:
            record = self._source.at(*place)
            if record is None:
                results[place] = DeadLetter("invalid", "the topic has deleted the record")
                continue

            def report(error: Exception | None, place: Place = place) -> None:
                results[place] = error

            producer.produce(record.topic, record.key, record.value, with_position(record), report)
        producer.flush(PRODUCER_MESSAGE_S)
        for place, error in results.items():
            if error is not None:
                _log.warning("the record at %s-%d@%d is not produced again: %s", *place, error)
        # A record that Kafka has not acknowledged is produced again by a later call.
        # guard: metrics.unacknowledged_late_record
        done = [place for place, error in results.items() if not isinstance(error, Retry)]
        if done:
            columns = [list(column) for column in zip(*done, strict=True)]
            self._sink.connected().execute(read_sql("late_schemas_done"), [Problem.LATE_SCHEMA, *columns])
        produced = sum(error is None for error in results.values())
        _log.info("produced %d records again, whose schema was registered late", produced)
        return produced


def written_topics() -> list[str]:
    """Return the topics to which the job produces according to schemas/topics.yaml."""
    return [topic.name for topic in chain_topics() if "spark_metrics" in topic.producers]
