"""Replay dead letters to their source topics, and discard them.

A replayed record and its mark are one Kafka transaction: no record is on its source topic again without a mark. All
operators share one transactional id: of two who work at the same time, the first is fenced and its open transaction is
aborted.
"""

import getpass
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import KafkaException, Producer

from devstack.client_log import KAFKA_LOGGER
from devstack.dead_letters.letters import DeadLetter
from devstack.dead_letters.marks import Mark, MarkKind, read_marks
from devstack.topic_reading import NO_SECURITY
from masscomm.kafka.dead_letters import replay_headers
from masscomm.kafka.topics import DEAD_LETTER_STATUS, ON_FAILURE, cdc_topics, chain_topics

TIMEOUT_S = 15


@dataclass(frozen=True, kw_only=True)
class Done:
    """Result of one operation on a dead letter."""

    letter: DeadLetter
    ok: bool  # False if the operation was refused and changed nothing
    said: str  # the new status, or why the operation was refused


def sources(generation: str) -> frozenset[str]:
    """The topics that a replay may write to: a header can name any topic."""
    chain = {topic.name for topic in chain_topics() if topic.schema is not None and topic.name != "outcome"}
    # Dead letters of the scheduler's on-failure topic; a replayed record starts again with all its reschedulings.
    chain.add(ON_FAILURE)
    return frozenset(chain | {topic.name for topic in cdc_topics(generation)})


class Desk:
    """Replays and discards dead letters for one operator at a time (see the module's docstring).

    Args:
        bootstrap: The broker's address.
        allowed: The topics that may be written to.
        status_topic: The topic of the marks.
        now: The current time, with a time zone.
        security: Further configuration of the Kafka client, to sign in.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        allowed: frozenset[str],
        status_topic: str = DEAD_LETTER_STATUS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        security: Mapping[str, Any] = NO_SECURITY,
    ) -> None:
        self._allowed = allowed
        self._status_topic = status_topic
        self._now = now
        self._producer = Producer(
            {
                **security,
                "bootstrap.servers": bootstrap,
                "transactional.id": f"masscomm.dead-letters.{status_topic}",
                "compression.type": "lz4",
                "message.max.bytes": 5_000_000,
                "broker.address.family": "v4",
                "linger.ms": 0,
                "logger": KAFKA_LOGGER,
            }
        )
        # Only after init_transactions is no other operator's mark in flight.
        self._producer.init_transactions(TIMEOUT_S)
        self._marks = read_marks(bootstrap, status_topic, security)

    def replay(self, letters: Iterable[DeadLetter], *, again: bool = False) -> list[Done]:
        """Produce each letter's bytes on its source topic, once.

        Args:
            letters: The dead letters.
            again: Replay letters that were replayed or discarded before, too.

        Raises:
            KafkaException: The broker does not answer or another operator fenced this one. Letters committed until then
                stay replayed.
        """
        return [self._replay(letter, again) for letter in letters]

    def discard(self, letters: Iterable[DeadLetter], why: str, *, again: bool = False) -> list[Done]:
        """Mark each letter as discarded.

        Args:
            letters: The dead letters.
            why: The reason, stored in the mark.
            again: Discard letters that were replayed or discarded before, too.

        Raises:
            ValueError: The reason is empty.
            KafkaException: As in `replay`.
        """
        if not why.strip():
            raise ValueError("a letter is not discarded without a reason")
        return [self._discard(letter, why, again) for letter in letters]

    def _replay(self, letter: DeadLetter, again: bool) -> Done:
        if refused := self._refused(letter, again):
            return refused
        if letter.topic not in self._allowed:
            return Done(letter=letter, ok=False, said=f"no source topic: {letter.topic!r}")

        def produce() -> None:
            kept = replay_headers(letter.headers, letter.letter)
            self._producer.produce(letter.topic, letter.value, letter.key, headers=list(kept))

        return self._commit(letter, MarkKind.REPLAYED, {"to": letter.topic}, produce)

    def _discard(self, letter: DeadLetter, why: str, again: bool) -> Done:
        return self._refused(letter, again) or self._commit(letter, MarkKind.DISCARDED, {"why": why}, lambda: None)

    def _refused(self, letter: DeadLetter, again: bool) -> Done | None:
        mark = self._marks.get(letter.position)
        if mark is None or again:
            return None
        return Done(letter=letter, ok=False, said=f"already {mark.kind} at {mark.history[-1]['at']}")

    def _commit(self, letter: DeadLetter, kind: MarkKind, more: dict[str, str], produce: Callable[[], None]) -> Done:
        before = self._marks.get(letter.position)
        entry = {"status": kind.value, "at": self._now().isoformat(timespec="seconds"), "by": getpass.getuser(), **more}
        mark = Mark(kind=kind, history=(*(before.history if before else ()), entry))
        try:
            self._producer.begin_transaction()
            produce()
            self._producer.produce(self._status_topic, mark.encode(), letter.position.encode())
            self._producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(TIMEOUT_S)
            return Done(letter=letter, ok=False, said=f"Kafka refuses it: {error.args[0].str()}")
        self._marks[letter.position] = mark
        return Done(letter=letter, ok=True, said=kind.value)
