"""Faults of the matrix: records that cannot be processed, between valid records."""

import time
from collections.abc import Sequence

from masscomm.domain.records import MAX_COPIED_BYTES, SendRequested
from masscomm.kafka import topics
from tests.support.fault_stack.bench import Bench, Sent
from tests.support.fault_stack.cell import FaultOf, Send
from tests.support.fault_stack.population import CATEGORIES, CLUB

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
