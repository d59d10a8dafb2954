"""Lists, replays and discards dead letters: the records of the topic dead-letter, which has one partition."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, Self

from masscomm import environment
from masscomm.aws.authentication import kafka_client_config
from masscomm.errors import Retry
from masscomm.integers import integer_or
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.topic_ids import topic_ids
from masscomm.kafka.topic_reading import NO_SECURITY, TopicReader
from masscomm.kafka.topics import DEAD_LETTER, DEAD_LETTER_STATUS
from masscomm.operations.dead_letter_marks import Mark, MarkKind, decode
from masscomm.operations.dead_letter_replays import Desk, Done, refusal, sources
from masscomm.operations.dead_letters import DeadLetter, read

if TYPE_CHECKING:
    from collections.abc import Iterator

# Records are read backwards in windows. One page reads at most MAX_READ records, so that a filter without matches ends.
WINDOW, MAX_READ = 100, 2_000


@dataclass(frozen=True, kw_only=True)
class LetterPage[T]:
    # The chosen letters, the latest first.
    rows: Sequence[T]
    # The offset before which the next page begins; None if no earlier letter exists. The page may have fewer rows than
    # its limit although earlier letters exist.
    before: int | None


class DeadLetterStore(Protocol):
    """Methods raise Retry if Kafka does not answer."""

    def page[T](
        self, choose: Callable[[DeadLetter], T | None], *, before: int | None, limit: int, budget_s: float
    ) -> LetterPage[T]:
        """Return the latest dead letters for which `choose` returns a row.

        Args:
            choose: Returns the row of a dead letter, or None.
            before: Only letters with lower offsets.
            limit: The maximum number of rows.
            budget_s: The number of seconds after which the page ends.
        """
        ...

    def find(self, position: str) -> DeadLetter | None:
        """Return the dead letter at a position (partition@offset); None if there is none."""
        ...

    def marks(self) -> Mapping[str, Mark]:
        """Return the mark of each replayed or discarded dead letter, by its position."""
        ...

    def open_count(self) -> int:
        """Return the number of dead letters without a mark."""
        ...

    def replay(self, letter: DeadLetter, *, operator: str, request: str = "") -> Done:
        """Produce a dead letter to its source topic, once. `request` is the digest of a request with an
        Idempotency-Key, which may be repeated.
        """
        ...

    def discard(self, letter: DeadLetter, why: str, *, operator: str, request: str = "") -> Done:
        """Mark a dead letter as discarded, with a reason. `request` is as in `replay`."""
        ...


class KafkaDeadLetters:
    """The dead letters in Kafka, for one thread. It connects at the first call.

    Args:
        bootstrap: The address of the Kafka broker.
        allowed: The topics to which letters may be replayed.
        security: Further configuration of the Kafka client, for authentication.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        allowed: frozenset[str],
        topic: str = DEAD_LETTER,
        status_topic: str = DEAD_LETTER_STATUS,
        security: Mapping[str, Any] = NO_SECURITY,
    ) -> None:
        self._bootstrap, self._security = bootstrap, security
        self._allowed, self._topic, self._status_topic = allowed, topic, status_topic
        self._reader: TopicReader | None = None
        self._admin = KafkaAdmin({**security, "bootstrap.servers": bootstrap, "broker.address.family": "v4"})
        self._marks: dict[str, Mark] = {}
        # The offset of the first mark that is not read yet.
        self._marks_read = 0

    @classmethod
    def from_environment(cls) -> Self:
        """Return the dead letters of the brokers in KAFKA_BOOTSTRAP_SERVERS. Raises Stop if a variable is missing."""
        return cls(
            environment.required("KAFKA_BOOTSTRAP_SERVERS"),
            allowed=sources(environment.required("CDC_GENERATION")),
            security=kafka_client_config(),
        )

    def page[T](
        self, choose: Callable[[DeadLetter], T | None], *, before: int | None, limit: int, budget_s: float
    ) -> LetterPage[T]:
        until = time.monotonic() + budget_s
        rows: list[T] = []
        with self._reading() as reader:
            first, end = reader.bounds(self._topic, 0)
            end = end if before is None else min(end, before)
            lowest = max(first, end - MAX_READ)
            while end > lowest and len(rows) < limit and time.monotonic() < until:
                start = max(lowest, end - WINDOW)
                found = [
                    (message.offset() or 0, row)
                    for message in reader.read_range(self._topic, 0, start, end)
                    if (row := choose(read(message))) is not None
                ]
                taken = found[::-1][: limit - len(rows)]
                rows += [row for _, row in taken]
                end = taken[-1][0] if len(taken) < len(found) else start
        return LetterPage(rows=rows, before=end if end > first else None)

    def find(self, position: str) -> DeadLetter | None:
        offset = offset_of(position)
        if offset is None:
            return None
        with self._reading() as reader:
            first, end = reader.bounds(self._topic, 0)
            if not first <= offset < end:
                return None
            return next((read(each) for each in reader.read_range(self._topic, 0, offset, offset + 1)), None)

    def marks(self) -> Mapping[str, Mark]:
        with self._reading() as reader:
            first, end = reader.bounds(self._status_topic, 0)
            if end > max(first, self._marks_read):
                for message in reader.read_range(self._status_topic, 0, max(first, self._marks_read), end):
                    key, value = message.key(), message.value()
                    if isinstance(key, bytes) and isinstance(value, bytes):
                        self._marks[key.decode()] = decode(value)
                self._marks_read = end
        topic_id = self._topic_id()
        return {position: mark for position, mark in self._marks.items() if mark.is_of(topic_id)}

    def _topic_id(self) -> str | None:
        return topic_ids(self._admin, [self._topic]).get(self._topic)

    def open_count(self) -> int:
        with self._reading() as reader:
            first, end = reader.bounds(self._topic, 0)
        closed = [position for position in self.marks() if first <= (offset_of(position) or 0) < end]
        return end - first - len(closed)

    def replay(self, letter: DeadLetter, *, operator: str, request: str = "") -> Done:
        return self._operated(operator, request, lambda desk: desk.replay([letter]))

    def discard(self, letter: DeadLetter, why: str, *, operator: str, request: str = "") -> Done:
        return self._operated(operator, request, lambda desk: desk.discard([letter], why))

    def _operated(self, operator: str, request: str, operate: Callable[[Desk], list[Done]]) -> Done:
        from confluent_kafka import KafkaException

        try:
            # Each operation has a desk of its own: another environment's desk fences an earlier one for good.
            desk = Desk(
                self._bootstrap,
                operator=operator,
                request=request,
                allowed=self._allowed,
                status_topic=self._status_topic,
                topic_id=self._topic_id(),
                security=self._security,
            )
            (done,) = operate(desk)
        except KafkaException as error:
            raise Retry(f"Kafka did not finish the operation: {error}") from error
        return done

    @contextmanager
    def _reading(self) -> "Iterator[TopicReader]":
        from confluent_kafka import KafkaException

        if self._reader is None:
            self._reader = TopicReader(self._bootstrap, self._security)
        try:
            yield self._reader
        except KafkaException as error:
            self._reader.close()
            self._reader = None
            raise Retry(f"Kafka does not return dead letters: {error}") from error


class InMemoryDeadLetters:
    """Dead letters in a list, for unit tests."""

    def __init__(self, letters: Sequence[DeadLetter], *, allowed: frozenset[str], now: datetime) -> None:
        self._letters = {offset_of(letter.position) or 0: letter for letter in letters}
        self._allowed = allowed
        self._now = now
        self._marks: dict[str, Mark] = {}
        # The replayed letters, in the order of their replays.
        self.replayed: list[DeadLetter] = []

    def page[T](
        self, choose: Callable[[DeadLetter], T | None], *, before: int | None, limit: int, budget_s: float
    ) -> LetterPage[T]:
        del budget_s
        offsets = sorted((each for each in self._letters if before is None or each < before), reverse=True)
        chosen = [(offset, row) for offset in offsets if (row := choose(self._letters[offset])) is not None]
        taken = chosen[:limit]
        return LetterPage(rows=[row for _, row in taken], before=taken[-1][0] if len(chosen) > limit else None)

    def find(self, position: str) -> DeadLetter | None:
        offset = offset_of(position)
        return None if offset is None else self._letters.get(offset)

    def marks(self) -> Mapping[str, Mark]:
        return self._marks

    def open_count(self) -> int:
        return len(self._letters) - len(self._marks)

    def replay(self, letter: DeadLetter, *, operator: str, request: str = "") -> Done:
        if refused := refusal(letter, self._marks.get(letter.position), self._allowed, now=self._now, request=request):
            return refused
        self.replayed.append(letter)
        return self._marked(letter, MarkKind.REPLAYED, {"by": operator, "to": letter.topic, "request": request})

    def discard(self, letter: DeadLetter, why: str, *, operator: str, request: str = "") -> Done:
        if refused := refusal(letter, self._marks.get(letter.position), None, now=self._now, request=request):
            return refused
        return self._marked(letter, MarkKind.DISCARDED, {"by": operator, "why": why, "request": request})

    def _marked(self, letter: DeadLetter, kind: MarkKind, more: Mapping[str, str]) -> Done:
        entry = {"status": kind.value, "at": self._now.isoformat(), **more}
        self._marks[letter.position] = Mark(kind=kind, history=(entry,))
        return Done(letter=letter, ok=True, message=kind.value)


def offset_of(position: str) -> int | None:
    """Return the offset in a position (partition@offset) on the topic's one partition; None if it is malformed."""
    partition, _, offset = position.partition("@")
    return integer_or(offset, None, lowest=0) if partition == "0" else None
