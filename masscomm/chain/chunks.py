"""Converts a send's chunk (one record with a range of its recipients) to a request of distinct recipients, and
splits it into parts.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from masscomm.domain.categories import category, digest_of, passes_opt_outs_of, resolve_channels
from masscomm.domain.digests import DigestError, contents_in, digest_in
from masscomm.domain.fallbacks import FallbackError, check_fallbacks, ends_before, fallbacks_in, unreported
from masscomm.domain.ids import chunk_id, is_record_id, send_id_of_record
from masscomm.domain.lanes import Lane, shared_queue
from masscomm.domain.limits import (
    FAR_FUTURE_MS,
    LONGEST_TEXT,
    MAX_AHEAD_MS,
    MAX_CHANNELS,
    MAX_RECORD_BYTES,
    MAX_RECORD_ID_BYTES,
    NAME_PATTERN,
    SEND_ID_PATTERN,
)
from masscomm.domain.local_times import first_ms, parse_local_time
from masscomm.domain.memberships import follows_problem
from masscomm.domain.pace import PaceError, check_pace, ends_late, is_paced, is_too_slow
from masscomm.domain.push_options import PUSH, InvalidPush, check_push, is_silent
from masscomm.domain.records import (
    COPIED_TEXTS,
    MAX_COPIED_BYTES,
    BuildRequested,
    ContentFields,
    DeliveryRequested,
    DerivedRecord,
    RecheckFields,
    RecheckRequested,
    SendRequested,
)
from masscomm.domain.sends import SMALL_SEND
from masscomm.domain.time_limits import LONGEST_PACE_S, TOO_OLD_S
from masscomm.domain.units import unit_problem
from masscomm.environment import complete_receipts
from masscomm.errors import DeadLetter
from masscomm.kafka.dead_letters import original_position
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topics import lane_of


def chunk_of(send: SendRequested, record: KafkaRecord) -> RecheckRequested:
    """Return a request with the distinct recipients of a chunk (one record of a send), each at its first position in
    the list.

    If metrics cannot count the chunk (see _is_countable), the request has no channels, so that no outcome is produced.

    Args:
        record: The Kafka record of the chunk. If the send has no id, its id is derived from the record's original
            position.

    Raises:
        DeadLetter: The headers with the original position are invalid.
    """
    send_id = send.send_id or send_id_of_record(*original_position(record))
    positions: dict[int, int] = {}
    for position, user_id in enumerate(send.to_users):
        positions.setdefault(user_id, position)
    chunk = chunk_id(send_id, send.chunk_index)
    recipients = DerivedRecord(
        record_id=chunk,
        parent_id=chunk,
        send_id=send_id,
        chunk_index=send.chunk_index,
        range_start=0,
        range_end=len(send.to_users),
        positions=list(positions.values()),
        user_ids=list(positions),
    )
    channels = (
        resolve_channels(send.type, send.channels, send.club_id, send.timestamp) if _is_countable(send, record) else []
    )
    fields = RecheckFields(why="send", channels=channels)
    if is_paced(send):
        fields = replace(
            fields,
            pace_from=send_at_of(send) or send.timestamp,
            chunk_count=send.chunk_count,
            chunk_size=len(send.to_users),
        )
    return fields.added_to(RecheckRequested, send, recipients)


def fault_of_send(send: SendRequested, record: KafkaRecord, now_ms: int) -> DeadLetter | None:
    """Return the reason why a chunk (one record of a send) must be dead-lettered, else None. Every function that
    consumes new sends calls this function.
    """
    size = len(record.value or b"")
    copied_bytes = sum(len(text.encode()) for name in COPIED_TEXTS for text in _texts(getattr(send, name)))
    if size > MAX_RECORD_BYTES:
        return DeadLetter("too_large", f"the record has {size} bytes, more than {MAX_RECORD_BYTES}")
    if copied_bytes > MAX_COPIED_BYTES:
        return DeadLetter("too_large", f"data and the like have {copied_bytes} bytes, more than {MAX_COPIED_BYTES}")
    if problem := _problem_of_units(send):  # guard: sends.unit_of_time
        return DeadLetter("invalid", problem)
    if not _is_countable(send, record):
        return DeadLetter(
            "invalid",
            f"a timestamp more than {FAR_FUTURE_MS // 60_000} minutes after or {TOO_OLD_S // 86_400} days before the "
            "record was produced, or "
            f"more than {MAX_CHANNELS} channels, or a type, channel or send_id that is empty, holds a NUL or is "
            f"longer than {LONGEST_TEXT} characters",
        )
    if not re.fullmatch(NAME_PATTERN, send.type):
        return DeadLetter("invalid", "type is no category's name: letters, digits, _ . : - and at most 128 of them")
    if problem := _problem_of_digest(send):
        return DeadLetter("invalid", problem)
    if problem := follows_problem(send.follows):  # guard: follows.invalid_record
        return DeadLetter("invalid", problem)
    if problem := _problem_of_fallbacks(send, record):  # guard: fallbacks.invalid_record
        return DeadLetter("invalid", problem)
    if problem := _problem_of_pace(send, record):  # guard: pace.invalid_record
        return DeadLetter("invalid", problem)
    if passes_opt_outs_of(send.type, send.template, send.timestamp):  # guard: sends.mandatory_template
        return DeadLetter("invalid", "the type is mandatory, and the template is named after a category that is not")
    if send.send_id and not re.fullmatch(SEND_ID_PATTERN, send.send_id):
        return DeadLetter("invalid", "send_id is no id: letters, digits and - and at most 64 of them")
    if (problem := _problem_of_push(send.push)) is not None:  # guard: push.invalid_field
        return DeadLetter("invalid", problem)
    if not 0 <= send.chunk_index < send.chunk_count:
        return DeadLetter("invalid", f"chunk_index {send.chunk_index} is not one of {send.chunk_count} chunks")
    send_at = send.send_at
    if send.send_at_local is not None:
        first = first_ms(send.send_at_local)
        if first is None or send_at is not None:
            return DeadLetter("invalid", "send_at_local is no date and time without a zone, or is given with send_at")
        send_at = first
    if send_at is not None and send_at > now_ms + MAX_AHEAD_MS:
        return DeadLetter("invalid", f"send_at lies more than {MAX_AHEAD_MS // 86_400_000} days ahead")
    return None


def send_at_of(send: SendRequested) -> int | None:
    """Return the time before which no recipient of a chunk is decided about, in ms since the epoch; None if there is
    none.

    Before the first clocks show send_at_local, all recipients wait together. A redelivery must have the same result, so
    it does not depend on the present time.
    """
    first = None if send.send_at_local is None else first_ms(send.send_at_local)
    if first is None:
        return send.send_at
    return first if first > send.timestamp else None


def _problem_of_push(push: str | None) -> str | None:
    if push is not None:
        try:
            check_push(push)
        except InvalidPush as error:
            return str(error)
    return None


def _texts(value: object) -> list[str]:
    """Return the texts in the value of a field that derived records copy; a number contains none."""
    if isinstance(value, dict):
        return [text for name, each in value.items() for text in (name, *_texts(each))]
    return [value] if isinstance(value, str) else []


def _problem_of_units(send: SendRequested) -> str | None:
    """Return the problem of the first time of a send that is not in milliseconds; None if there is none."""
    times = {"timestamp": send.timestamp, "send_at": send.send_at, "expires_at": send.expires_at}
    return next(filter(None, (unit_problem(field, value) for field, value in times.items())), None)


def _problem_of_digest(content: ContentFields) -> str | None:
    """Return why a send with a digest of its own, or the message of a digest, cannot be processed."""
    try:
        if content.digest is not None:
            digest_in(content.digest)
        if content.collected is not None:
            contents_in(content.collected)
    except DigestError as error:
        return f"digest: {error}"
    if content.digest is not None and category(content.type, content.club_id, content.timestamp).mandatory:
        return "digest: the category is mandatory, so its notifications are not collected"
    return None


def _problem_of_fallbacks(send: SendRequested, record: KafkaRecord) -> str | None:
    """Return why the fallbacks of a chunk are not valid; None if they are, or if there are none."""
    if send.fallbacks is None:
        return None
    try:
        check_fallbacks(send.fallbacks, send.channels)
        fallbacks = fallbacks_in(send.fallbacks)
    except FallbackError as error:
        return f"fallbacks: {error}"
    if (channel := unreported(send.fallbacks, send.channels, complete_receipts())) is not None:
        return f"fallbacks: not_delivered needs complete receipts, and {channel} has none"
    lane = lane_of_send(send, record.topic)
    if digest_of(send.type, send.club_id, send.timestamp, lane, send.digest) is not None:
        return "fallbacks: the notifications of a send with fallbacks are not collected in digests"
    if PUSH in send.channels and is_silent(send.push, PUSH):
        return "fallbacks: a silent push has none"
    if ends_before(fallbacks, send_at_of(send) or send.timestamp, send.expires_at):
        return "fallbacks: they wait until after expires_at"
    return None


def _problem_of_pace(send: SendRequested, record: KafkaRecord) -> str | None:
    """Return why the pace of a chunk is not valid; None if it is, or if there is none."""
    if not is_paced(send):
        return None
    if lane_of_send(send, record.topic) is Lane.CRITICAL:
        return "a send of the critical lane or of a critical category has no pace"
    begins_at = send_at_of(send) or send.timestamp
    try:
        check_pace(send.per_minute, send.spread_over_ms)
    except PaceError as error:
        return str(error)
    if ends_late(send.spread_over_ms, begins_at, send.expires_at):
        return "spread_over ends after expires_at"
    # The number of recipients in the other records is not known.
    if is_too_slow(send.per_minute, len(set(send.to_users))):
        return f"the send would take more than {round(LONGEST_PACE_S) // 86_400} days with this per_minute"
    return None


def _problem_of_recheck_pace(record: RecheckRequested) -> str | None:
    """Return why the pace of a recheck record is not valid; None if it is, or if there is none."""
    if not is_paced(record):
        return None
    try:
        check_pace(record.per_minute, record.spread_over_ms)
    except PaceError as error:
        return str(error)
    return unit_problem("send_at", record.pace_from)


def _is_countable(send: SendRequested, record: KafkaRecord) -> bool:
    """Return whether metrics can count the send and its outcomes."""
    if unit_problem("timestamp", send.timestamp) or send.timestamp > record.timestamp_ms + FAR_FUTURE_MS:
        return False
    if send.timestamp < record.timestamp_ms - TOO_OLD_S * 1000:  # guard: sends.too_old
        return False
    texts = [send.type, *send.channels, *([send.send_id] if send.send_id else [])]
    return len(send.channels) <= MAX_CHANNELS and all(
        0 < len(text) <= LONGEST_TEXT and "\0" not in text for text in texts
    )


def checked[R: RecheckRequested | BuildRequested | DeliveryRequested](record: R) -> R:
    """Return the record after checking it.

    Raises:
        DeadLetter: The record_id, the digest or the field push is invalid, or positions and user_ids differ in number.
    """
    if not is_record_id(record.record_id):
        raise DeadLetter("invalid", f"record_id is empty or longer than {MAX_RECORD_ID_BYTES} bytes")
    if len(record.positions) != len(record.user_ids):
        raise DeadLetter("invalid", f"{len(record.positions)} positions of {len(record.user_ids)} users")
    if isinstance(record, ContentFields) and (problem := _problem_of_digest(record)):
        raise DeadLetter("invalid", problem)
    if (problem := _problem_of_push(record.push)) is not None:
        raise DeadLetter("invalid", problem)
    if isinstance(record, RecheckRequested) and (problem := _problem_of_recheck_pace(record)) is not None:
        raise DeadLetter("invalid", problem)
    if isinstance(record, RecheckRequested):
        try:
            fallbacks_in(record.fallbacks)
        except FallbackError as error:
            raise DeadLetter("invalid", f"fallbacks: {error}") from error
    return record


def recheck_of(value: Mapping[str, Any]) -> RecheckRequested:
    """Decode a recheck record (recipients that preference_checker decides about later).

    Raises:
        DeadLetter: The positions do not match the users or the range, or send_at_local is invalid.
    """
    request = checked(RecheckRequested.from_avro(value))
    ascending = all(one < next_one for one, next_one in pairwise(request.positions))
    inside = not request.positions or (
        request.range_start <= request.positions[0] and request.positions[-1] < request.range_end
    )
    if not ascending or not inside or request.range_start < 0:
        raise DeadLetter("invalid", "no recheck record: its positions are not its users', ascending and in its range")
    if request.send_at_local is not None and parse_local_time(request.send_at_local) is None:
        raise DeadLetter("invalid", "no recheck record: its send_at_local is no date and time without a zone")
    return request


def lane_of_send(send: SendRequested, topic: str) -> Lane:
    """Return the lane (the group of topics) of all records derived from a send, by its topic, its category and its
    number of recipients. A critical category has the critical lane, whichever topic the send is on.

    For a broadcast, this is the queue that its tenant shares with others; preference_checker may lease another queue
    for it.
    """
    lane = lane_of(topic)
    if lane is not Lane.BULK:
        return lane
    if category(send.type, at_ms=send.timestamp).critical:  # guard: lanes.critical_category
        return Lane.CRITICAL
    small = send.chunk_count == 1 and len(send.to_users) <= SMALL_SEND
    return Lane.SMALL if small else shared_queue(send.club_id)
