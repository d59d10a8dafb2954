"""Replays dead letters to their source topics, and discards dead letters.

A replayed record and its mark are written in one Kafka transaction, so that no record is produced again without a mark.
All operators share one transactional id: if two operators work at the same time, Kafka fences the first one and aborts
its open transaction.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from masscomm.domain.time_limits import MARK_POLL_S, MARK_SHOWN_S, REPLAYED_WITHIN_S
from masscomm.kafka.dead_letters import replay_headers
from masscomm.kafka.topic_reading import NO_SECURITY, TopicReader
from masscomm.kafka.topics import (
    AUDIENCE,
    BUILD,
    DEAD_LETTER_STATUS,
    DELIVERY,
    ON_FAILURE,
    RECHECK,
    SEND_API,
    SEND_MONOLITH,
    base_of,
    cdc_topics,
    chain_topics,
)
from masscomm.operations.dead_letter_marks import Mark, MarkKind, read_marks
from masscomm.operations.dead_letters import DeadLetter
from masscomm.texts import Text

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

TIMEOUT_S = 15
# The topics whose records notify users and are counted. A repeated record of another topic is harmless at any time.
_OF_SENDS = frozenset({SEND_MONOLITH, SEND_API, AUDIENCE, RECHECK, BUILD, DELIVERY})


@dataclass(frozen=True, kw_only=True)
class Done:
    """The result of one operation on a dead letter."""

    letter: DeadLetter
    ok: bool  # False if the operation was refused and changed nothing.
    # Whether an earlier attempt of the same request has executed the operation.
    repeated: bool = False
    message: str  # The new status, or the reason why the operation was refused: a CodedText.


def transactional_id(status_topic: str) -> str:
    """Return the transactional id that all operators share."""
    return f"masscomm.dead-letters.{status_topic}"


def sources(generation: str) -> frozenset[str]:
    """Return the topics that a replay may write to. They are limited, because a header could name any topic."""
    chain = {topic.name for topic in chain_topics() if topic.schema is not None and topic.name != "outcome"}
    # Dead letters of the scheduler's on-failure topic may be replayed too; the record's count of attempts then starts
    # again.
    chain.add(ON_FAILURE)
    for topic in cdc_topics(generation):
        # In a changelog, the last record of a row stays: an earlier version would replace the newest one.
        if topic.compaction is None:  # guard: cdc.replayed_row
            chain.add(topic.name)
    return frozenset(chain)


def refusal(
    letter: DeadLetter, mark: Mark | None, allowed: frozenset[str] | None, *, now: datetime, request: str = ""
) -> Done | None:
    """Return the result of an operation that is refused, or that the request has executed before; None if it is to be
    executed.

    Args:
        letter: The dead letter.
        mark: The mark of an earlier operation, if there is one.
        allowed: The topics to which a replay may write; None for another operation.
        now: The current time.
        request: The digest of the request; "" without an Idempotency-Key.
    """
    if (
        mark is not None and request and mark.history[-1].get("request") == request
    ):  # guard: dead_letters.repeated_request
        return Done(letter=letter, ok=True, repeated=True, message=mark.kind)
    if mark is not None:
        return Done(
            letter=letter, ok=False, message=Text.LETTER_DONE.filled(status=mark.kind, at=mark.history[-1]["at"])
        )
    if allowed is not None and letter.topic not in allowed:
        return Done(letter=letter, ok=False, message=Text.LETTER_SOURCE.filled(topic=repr(letter.topic)))
    if allowed is not None and _is_forgotten(letter, now):  # guard: dead_letters.forgotten_ids
        message = Text.LETTER_FORGOTTEN.filled(days=REPLAYED_WITHIN_S // 86_400)
        return Done(letter=letter, ok=False, message=message)
    return None


def _is_forgotten(letter: DeadLetter, now: datetime) -> bool:
    """Return whether the record is so old that the ids that make its repetition harmless may have expired."""
    try:
        produced = datetime.fromisoformat(letter.timestamp).astimezone(UTC)
    except (ValueError, OverflowError):  # The header may contain anything.
        produced = datetime.fromisoformat(letter.dead_at)
    return base_of(letter.topic) in _OF_SENDS and now - produced > timedelta(seconds=REPLAYED_WITHIN_S)


class Desk:
    """Replays and discards dead letters for one operator at a time (see the module's docstring).

    Args:
        bootstrap: The address of the Kafka broker.
        operator: The name of the operator in marks.
        request: The digest of the operator's request; "" without an Idempotency-Key.
        allowed: The topics that may be written to.
        status_topic: The topic of the marks.
        topic_id: Kafka's id of the topic of dead letters; None if it is older than topic ids.
        now: Returns the current time, with a time zone.
        security: Further configuration of the Kafka client, for authentication.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        operator: str,
        request: str = "",
        allowed: frozenset[str],
        status_topic: str = DEAD_LETTER_STATUS,
        topic_id: str | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        security: Mapping[str, Any] = NO_SECURITY,
    ) -> None:
        from confluent_kafka import Producer

        self._operator, self._request = operator, request
        self._allowed = allowed
        self._status_topic = status_topic
        self._topic_id = topic_id
        self._now = now
        self._producer: Producer = Producer(
            {
                **security,
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id(status_topic),
                "compression.type": "lz4",
                "message.max.bytes": 5_000_000,
                "broker.address.family": "v4",
                "linger.ms": 0,
            }
        )
        # init_transactions aborts the open transaction of another operator, so the marks that are read next are final.
        self._producer.init_transactions(TIMEOUT_S)
        self._marks = read_marks(bootstrap, status_topic, security, of=topic_id)
        self._reader: Callable[[], TopicReader] = lambda: TopicReader(bootstrap, security)
        # The offset of the last mark of this desk on the status topic.
        self._last_mark: int | None = None

    def replay(self, letters: Iterable[DeadLetter], *, repeat: bool = False) -> list[Done]:
        """Produce the bytes of each dead letter to its source topic, once.

        Args:
            letters: The dead letters.
            repeat: Replay letters that were replayed or discarded before, too.

        Raises:
            KafkaException: The broker does not respond, or another operator fenced this one. Dead letters whose
                transaction was committed stay replayed.
        """
        done = [self._replay(letter, repeat) for letter in letters]
        self._await_marks()
        return done

    def discard(self, letters: Iterable[DeadLetter], why: str, *, repeat: bool = False) -> list[Done]:
        """Mark each dead letter as discarded.

        Args:
            letters: The dead letters.
            why: The reason, stored in the mark.
            repeat: Discard letters that were replayed or discarded before, too.

        Raises:
            ValueError: The reason is empty.
            KafkaException: As in `replay`.
        """
        if not why.strip():
            raise ValueError("a letter is not discarded without a reason")
        done = [self._discard(letter, why, repeat) for letter in letters]
        self._await_marks()
        return done

    def _await_marks(self) -> None:
        """Wait until every reader sees the marks: the broker acknowledges a commit before it shows the records."""
        from confluent_kafka import KafkaError, KafkaException

        if self._last_mark is None:
            return
        until = time.monotonic() + MARK_SHOWN_S
        with self._reader() as reader:
            # guard: dead_letters.marks_are_seen
            while reader.bounds(self._status_topic, 0)[1] <= self._last_mark:
                if time.monotonic() > until:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the marks are written and not shown yet"))
                time.sleep(MARK_POLL_S)

    def _replay(self, letter: DeadLetter, repeat: bool) -> Done:
        if refused := refusal(
            letter, self._mark(letter, repeat), self._allowed, now=self._now(), request=self._request
        ):
            return refused

        def produce() -> None:
            kept = replay_headers(letter.headers, letter.letter)
            self._producer.produce(letter.topic, letter.value, letter.key, headers=list(kept))

        return self._commit(letter, MarkKind.REPLAYED, {"to": letter.topic}, produce)

    def _discard(self, letter: DeadLetter, why: str, repeat: bool) -> Done:
        refused = refusal(letter, self._mark(letter, repeat), None, now=self._now(), request=self._request)
        return refused or self._commit(letter, MarkKind.DISCARDED, {"why": why}, lambda: None)

    def _mark(self, letter: DeadLetter, repeat: bool) -> Mark | None:
        return None if repeat else self._marks.get(letter.position)

    def _commit(self, letter: DeadLetter, kind: MarkKind, more: dict[str, str], produce: Callable[[], None]) -> Done:
        from confluent_kafka import KafkaException

        before = self._marks.get(letter.position)
        entry = {"status": kind.value, "at": self._now().isoformat(timespec="seconds"), "by": self._operator, **more}
        entry |= {"request": self._request} if self._request else {}
        history = (*(before.history if before else ()), entry)
        mark = Mark(kind=kind, history=history, topic_id=self._topic_id)
        try:
            self._producer.begin_transaction()
            produce()
            self._producer.produce(
                self._status_topic, mark.encode(), letter.position.encode(), on_delivery=self._keep_offset
            )
            self._producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(TIMEOUT_S)
            return Done(letter=letter, ok=False, message=Text.LETTER_REFUSED.filled(reason=error.args[0].str()))
        self._marks[letter.position] = mark
        return Done(letter=letter, ok=True, message=kind.value)

    def _keep_offset(self, error: "KafkaError | None", message: "Message") -> None:
        """Keep the offset of a mark. An error is raised by the commit of its transaction."""
        if error is None:
            self._last_mark = message.offset()
