"""Faults of the matrix: records that cannot be processed, between valid records."""

import logging
import time
from collections.abc import Mapping, Sequence

from functions.catalogue import read_catalogue
from masscomm.domain.records import MAX_COPIED_BYTES, SendRequested
from masscomm.kafka import topics
from tests.support.fault_stack.bench import Bench, Sent
from tests.support.fault_stack.cell import FaultOf, Send
from tests.support.fault_stack.population import CATEGORIES, CLUB
from tests.support.until import until

_log = logging.getLogger(__name__)
VALID = 5
POISON = {
    "undecodable": b"this is no Avro",
    "unknown_schema": b"\x00" + (2**31 - 1).to_bytes(4, "big") + b"whatever",
}
# A text that exceeds the limit of the texts that each record of a send repeats.
TOO_MUCH = "x" * (MAX_COPIED_BYTES + 1)


def among_valid(kind: str, *, positions: Sequence[int]) -> FaultOf:
    """Produce valid sends to one partition, with a broken record at each of these positions."""

    def fault(bench: Bench, _: Send) -> None:
        values = [
            _encoded(bench, bench.shared[start : start + 20]) for start in range(0, (VALID - len(positions)) * 20, 20)
        ]
        for position in positions:
            values.insert(position, POISON[kind])
        bench.produce(topics.SEND_MONOLITH, values, partition=0)

    return fault


def unknown_schemas_everywhere(bench: Bench, send: Send) -> None:
    """A record of an unknown schema waits, and the record after it in its partition does not: on each topic that
    functions read, in each lane. The scheduler is frozen, so that the first record waits in any case. The second one
    is undecodable, so that its dead letter shows that its function has read it.
    """
    names, first_id = _topics_with_a_schema(bench.stack.generation), 2**30 + time.time_ns() % 2**29
    bench.freeze("scheduler")
    try:
        before = bench.records(topics.ON_FAILURE)
        values = {name: b"\0" + (first_id + number).to_bytes(4, "big") + b"any" for number, name in enumerate(names)}
        unknown = {_produced(bench, name, value) for name, value in values.items()}

        def handed_over() -> int:
            return bench.records(topics.ON_FAILURE) - before

        until("each is handed over", lambda: handed_over() == len(names), every_s=0.1, progress=handed_over)
        send()
        waits = _wait_for_each(bench, {_produced(bench, name, POISON["undecodable"]) for name in names})
        assert not unknown & _dead_lettered(bench)
    finally:
        bench.thaw("scheduler")
    _log.info("seconds behind a record of an unknown schema: %s", waits)
    until(
        "each record of an unknown schema is dead-lettered",
        lambda: unknown <= _dead_lettered(bench),
        every_s=0.1,
        progress=lambda: len(unknown & _dead_lettered(bench)),
    )
    bench.settle()
    bench.accept_dead_letters()


def _topics_with_a_schema(generation: str) -> list[str]:
    entries = [each.event_source for each in read_catalogue(generation=generation) if each.event_source is not None]
    consumed = {name for entry in entries for name in entry.topics}
    return [topic.name for topic in topics.chain_topics() if topic.schema is not None and topic.name in consumed]


def _produced(bench: Bench, topic: str, value: bytes) -> tuple[str, int | None]:
    """Produce a value to partition 0; return its topic and offset."""
    (message,) = bench.produce(topic, [value], partition=0)
    return topic, message.offset()


def _dead_lettered(bench: Bench) -> set[tuple[str, int | None]]:
    return {(letter.topic, letter.offset) for letter in bench.letters.all() if letter.partition == 0}


def _wait_for_each(bench: Bench, records: set[tuple[str, int | None]]) -> Mapping[str, float]:
    """Wait for the dead letter of each record. Return the seconds until it was seen, by topic."""
    began, waits = time.monotonic(), dict[str, float]()

    def all_seen() -> bool:
        for topic, _ in records & _dead_lettered(bench):
            waits.setdefault(topic, round(time.monotonic() - began, 2))
        return len(waits) == len(records)

    until("each record behind one is read", all_seen, every_s=0.05, progress=lambda: len(waits))
    return waits


def oversize(bench: Bench, _: Send) -> None:
    """A send whose data is too large is dead-lettered and its recipients fail; the next send is delivered."""
    large = _encoded(bench, bench.shared[:20], data={"headline": TOO_MUCH})
    [sent] = bench.sends
    sent.fates = {user_id: frozenset({"dead_letter"}) for user_id in sent.fates}
    sent.calls = {}
    bench.produce(topics.SEND_MONOLITH, [large, _encoded(bench, bench.shared[20:40])], partition=0)


def chunk_index_reused(bench: Bench, _: Send) -> None:
    """Sends to different users have the same send_id and chunk index: only the first user gets the message."""
    users = [user_id for user_id in bench.shared if user_id % 10 >= 6][:3]
    sent = bench.expect_send(f"{time.time_ns():x}-{len(bench.sends)}", users)
    sent.uncounted = frozenset(users[1:])
    for user_id in sent.uncounted:
        sent.fates[user_id] = frozenset({"dead_letter"})
        del sent.calls[user_id]
    bench.produce(topics.SEND_MONOLITH, [_value(bench, sent, [user_id]) for user_id in users], partition=0)


def _encoded(bench: Bench, users: Sequence[int], data: dict[str, str] | None = None) -> bytes:
    """Return a send to these users as the monolith encodes it, and expect its results."""
    return _value(bench, bench.expect_send(f"{time.time_ns():x}-{len(bench.sends)}", users), users, data)


def _value(bench: Bench, sent: Sent, users: Sequence[int], data: dict[str, str] | None = None) -> bytes:
    send = SendRequested(
        type=CATEGORIES[sent.channel],
        club_id=CLUB,
        timestamp=time.time_ns() // 1_000_000,
        to_users=list(users),
        send_id=sent.send_id,
        data=data or {},
    )
    return bench.codec.encode(topics.SEND_MONOLITH, "SendRequested", send.to_avro())
