"""A send's chunk as a request of distinct recipients, and its parts after send_at."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from masscomm.domain.categories import NAME_PATTERN, resolve_channels
from masscomm.domain.ids import chunk_id, derived_id, is_record_id, released_id, send_id_of_record
from masscomm.domain.lanes import Lane, shared_queue
from masscomm.domain.limits import (
    END_OF_TIME_MS,
    FAR_FUTURE_MS,
    LONGEST_TEXT,
    MAX_AHEAD_MS,
    MAX_CHANNELS,
    MAX_COPIED_BYTES,
    MAX_RECORD_BYTES,
    MAX_RECORD_ID_BYTES,
    SEND_ID_PATTERN,
)
from masscomm.domain.records import (
    CARRIED,
    BuildRequested,
    DeliveryRequested,
    RecheckRequested,
    SendRequested,
    carry_over,
)
from masscomm.errors import DeadLetter
from masscomm.kafka.dead_letters import original_position
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topics import lane_of

# Longer chunks are split by position first: time and memory of an invocation are bounded.
SPLIT_ABOVE = 10_000
# Most recipients of a part of a long chunk.
PART_SIZE = 5_000
SEND_AT = "send_at"
# Most recipients of a small send.
SMALL_SEND = 100


def chunk_of(send: SendRequested, record: KafkaRecord) -> RecheckRequested:
    """Return the send's distinct recipients, each at its first position.

    record: the send's own; a send without an id gets one from its original position. Channels stay empty if its
    outcomes could not be counted. Errors: DeadLetter (position headers are invalid).
    """
    send_id = send.send_id or send_id_of_record(*original_position(record))
    positions: dict[int, int] = {}
    for position, user_id in enumerate(send.to_users):
        positions.setdefault(user_id, position)
    chunk = chunk_id(send_id, send.chunk_index)
    return carry_over(
        send,
        RecheckRequested,
        record_id=chunk,
        parent_id=chunk,
        why="send",
        send_id=send_id,
        range_start=0,
        range_end=len(send.to_users),
        channels=resolve_channels(send.type, send.channels) if _is_countable(send, record) else [],
        positions=list(positions.values()),
        user_ids=list(positions),
    )


def fault_of_send(send: SendRequested, record: KafkaRecord, now_ms: int) -> DeadLetter | None:
    """Return why a chunk is dead-lettered, else None; checked wherever a send enters the chain."""
    size = len(record.value or b"")
    copied_bytes = sum(len(text.encode()) for name in CARRIED if name != "type" for text in _texts(getattr(send, name)))
    if size > MAX_RECORD_BYTES:
        return DeadLetter("too_large", f"the record has {size} bytes, more than {MAX_RECORD_BYTES}")
    if copied_bytes > MAX_COPIED_BYTES:
        return DeadLetter("too_large", f"data and the like have {copied_bytes} bytes, more than {MAX_COPIED_BYTES}")
    if not _is_countable(send, record):
        return DeadLetter(
            "invalid",
            "a timestamp before 1970 or more than a day after the record was produced, or "
            f"more than {MAX_CHANNELS} channels, or a type, channel or send_id that is empty, holds a NUL or is "
            f"longer than {LONGEST_TEXT} characters",
        )
    if not re.fullmatch(NAME_PATTERN, send.type):
        return DeadLetter("invalid", "type is no category's name: letters, digits, _ . : - and at most 128 of them")
    if send.send_id and not re.fullmatch(SEND_ID_PATTERN, send.send_id):
        return DeadLetter("invalid", "send_id is no id: letters, digits and - and at most 64 of them")
    if not 0 <= send.chunk_index < send.chunk_count:
        return DeadLetter("invalid", f"chunk_index {send.chunk_index} is not one of {send.chunk_count} chunks")
    if send.send_at is not None and send.send_at > now_ms + MAX_AHEAD_MS:
        return DeadLetter("invalid", f"send_at lies more than {MAX_AHEAD_MS // 86_400_000} days ahead")
    return None


def _texts(value: object) -> list[str]:
    """Return the texts of a carried field; a number has none."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    return [value] if isinstance(value, str) else []


def _is_countable(send: SendRequested, record: KafkaRecord) -> bool:
    """Return whether metrics can count the send's outcomes; otherwise nothing of the send is counted."""
    if not 0 <= send.timestamp <= min(record.timestamp_ms + FAR_FUTURE_MS, END_OF_TIME_MS - 1):
        return False
    texts = [send.type, *send.channels, *([send.send_id] if send.send_id else [])]
    return len(send.channels) <= MAX_CHANNELS and all(
        0 < len(text) <= LONGEST_TEXT and "\0" not in text for text in texts
    )


def checked[R: RecheckRequested | BuildRequested | DeliveryRequested](record: R) -> R:
    """Return the record. Errors: DeadLetter (invalid record_id, or positions and user_ids differ in number)."""
    if not is_record_id(record.record_id):
        raise DeadLetter("invalid", f"record_id is empty or longer than {MAX_RECORD_ID_BYTES} bytes")
    if len(record.positions) != len(record.user_ids):
        raise DeadLetter("invalid", f"{len(record.positions)} positions of {len(record.user_ids)} users")
    return record


def recheck_of(value: Mapping[str, Any]) -> RecheckRequested:
    """Decode a recheck record. Errors: DeadLetter (positions do not match users or range)."""
    request = checked(RecheckRequested.from_avro(value))
    ascending = all(one < next_one for one, next_one in pairwise(request.positions))
    inside = not request.positions or (
        request.range_start <= request.positions[0] and request.positions[-1] < request.range_end
    )
    if not ascending or not inside or request.range_start < 0:
        raise DeadLetter("invalid", "no recheck record: its positions are not its users', ascending and in its range")
    return request


def lane_of_send(send: SendRequested, topic: str) -> Lane:
    """Return the lane for a send's derived records, by its topic and size.

    For a broadcast, it is the queue that its tenant shares with others; preference_checker may lease another one.
    """
    lane = lane_of(topic)
    if lane is not Lane.BULK:
        return lane
    small = send.chunk_count == 1 and len(send.to_users) <= SMALL_SEND
    return Lane.SMALL if small else shared_queue(send.club_id)


def split_parts(whole: RecheckRequested) -> list[RecheckRequested]:
    """Return a long chunk in parts, by position."""
    return _parts(whole, "split", lambda start, end: derived_id(whole.record_id, "recheck", "split", start, end))


def after_send_at(chunk: RecheckRequested, send_at: int) -> list[RecheckRequested]:
    """Return the parts of a chunk that continue at its send_at; empty where it has no recipients.

    The parts are the same before and after send_at: a redelivery after it derives the records that an earlier delivery
    stored in the delay store.
    """
    released = replace(chunk, waited_until=send_at)
    return _parts(released, SEND_AT, lambda start, end: released_id(chunk.record_id, SEND_AT, start, end))


def _parts(whole: RecheckRequested, why: str, id_of: Callable[[int, int], str]) -> list[RecheckRequested]:
    return [
        whole.part(
            indices, record_id=id_of(start, end), parent_id=whole.record_id, why=why, range_start=start, range_end=end
        )
        for start, end, indices in ranges(whole, PART_SIZE)
    ]


def ranges(
    request: RecheckRequested | BuildRequested | DeliveryRequested, size: int
) -> Iterator[tuple[int, int, list[int]]]:
    """(start, end, rows) for each range of positions that has recipients; ranges lie on multiples of size."""
    indices: list[int] = []
    current = -1
    for index, position in enumerate(request.positions):
        if position // size != current:
            if indices:
                yield current * size, min((current + 1) * size, request.range_end), indices
            current, indices = position // size, []
        indices.append(index)
    if indices:
        yield current * size, min((current + 1) * size, request.range_end), indices
