"""A send's chunk as the recipients it names, and as what goes on once its send_at has come."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from masscomm.categories import resolve_channels
from masscomm.ids import chunk_id, derived_id, released_id, send_id_of_record
from masscomm.records import BuildRequested, DeliveryRequested, RecheckRequested, SendRequested
from masscomm.topics import Lane, lane_of, shared_queue

# A longer chunk is split by position first: an invocation's time and memory do not grow with what a producer sends.
SPLIT_ABOVE = 10_000
# Recipients a part of a long chunk has at most.
PART_SIZE = 5_000
SEND_AT = "send_at"
# A send to so many at most is a small one.
SMALL_SEND = 100


def chunk_of(send: SendRequested, position: tuple[str, int, int, int], *, channels: bool = True) -> RecheckRequested:
    """The send's distinct recipients, each at the first position it is named at.

    position: where the record first stood (topic, partition, offset, timestamp ms), from which the send's id follows
    where it has none; channels: whether they are resolved, or left empty.
    """
    send_id = send.send_id or send_id_of_record(*position)
    positions: dict[int, int] = {}
    for place, user_id in enumerate(send.to_users):
        positions.setdefault(user_id, place)
    chunk = chunk_id(send_id, send.chunk_index)
    return RecheckRequested(
        record_id=chunk,
        parent_id=chunk,
        why="send",
        send_id=send_id,
        chunk_index=send.chunk_index,
        range_start=0,
        range_end=len(send.to_users),
        club_id=send.club_id,
        type=send.type,
        timestamp=send.timestamp,
        channels=resolve_channels(send.type, send.channels) if channels else [],
        template=send.template,
        data=send.data,
        locale=send.locale,
        expires_at=send.expires_at,
        collapse_key=send.collapse_key,
        reference=send.reference,
        positions=list(positions.values()),
        user_ids=list(positions),
    )


def lane_of_send(send: SendRequested, topic: str) -> Lane:
    """Where what becomes of a send's chunk belongs, by what the chunk says and the topic it stands on.

    Of a broadcast it is the queue that its tenant shares with others; the checker may know of a better one.
    """
    asked = lane_of(topic)
    if asked is not Lane.BULK:
        return asked
    small = send.chunk_count == 1 and len(send.to_users) <= SMALL_SEND
    return Lane.SMALL if small else shared_queue(send.club_id)


def split_parts(whole: RecheckRequested) -> list[RecheckRequested]:
    """A long chunk by position."""
    return [
        _part(whole, derived_id(whole.record_id, "recheck", "split", start, end), "split", start, end, rows)
        for start, end, rows in ranges(whole, PART_SIZE)
    ]


def after_send_at(chunk: RecheckRequested, send_at: int) -> list[RecheckRequested]:
    """What goes on of a chunk that had a send_at, in parts; empty where it has no recipients.

    The same records whether the chunk waited or came too late to: a redelivery that finds its time come must derive
    what the one before it has left to the scheduler.
    """
    waited = replace(chunk, waited_until=send_at)
    return [
        _part(waited, released_id(chunk.record_id, SEND_AT, start, end), SEND_AT, start, end, rows)
        for start, end, rows in ranges(chunk, PART_SIZE)
    ]


def _part(
    whole: RecheckRequested, record_id: str, why: str, start: int, end: int, rows: Sequence[int]
) -> RecheckRequested:
    return replace(
        whole,
        record_id=record_id,
        parent_id=whole.record_id,
        why=why,
        range_start=start,
        range_end=end,
        positions=[whole.positions[row] for row in rows],
        user_ids=[whole.user_ids[row] for row in rows],
    )


def ranges(
    asked: RecheckRequested | BuildRequested | DeliveryRequested, size: int
) -> Iterator[tuple[int, int, list[int]]]:
    """(start, end, rows) for each range of positions that has recipients; ranges lie on multiples of size."""
    rows: list[int] = []
    current = -1
    for row, position in enumerate(asked.positions):
        if position // size != current:
            if rows:
                yield current * size, min((current + 1) * size, asked.range_end), rows
            current, rows = position // size, []
        rows.append(row)
    if rows:
        yield current * size, min((current + 1) * size, asked.range_end), rows
