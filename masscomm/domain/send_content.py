"""The content of a send: what all its chunks have in common, by Kafka and over REST."""

import json
from collections.abc import Collection, Iterable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from masscomm.domain.categories import is_confidential
from masscomm.domain.kept_messages import MAX_MESSAGE_BYTES, KeptMessage, NotKept
from masscomm.domain.lanes import Lane
from masscomm.domain.limits import SMALLEST_GROUP
from masscomm.domain.local_times import last_ms
from masscomm.domain.records import SendRequested
from masscomm.domain.sends import Send, SendKey, Source

# The fields that differ between the chunks or the requests of one send. A producer that repeats a chunk may set its
# times anew, and the topic decides the lane.
_OF_A_CHUNK = (
    *("to_users", "recipient_data", "follows", "send_id", "chunk_index", "chunk_count"),
    *("timestamp", "expires_at", "priority", "principal", "is_test"),
)
_CONTENT = tuple(name for name in SendRequested.__dataclass_fields__ if name not in _OF_A_CHUNK)


def digest_of_fields(record: object, names: Iterable[str]) -> str:
    """Return a digest of some fields of a record. Fields without a value are omitted, so that a field that is added
    to sends does not change recorded digests.
    """
    content = {name: value for name in names if (value := getattr(record, name))}
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def content_of_send(send: SendRequested) -> str:
    """Return a digest of the content of a send, the same for each of its chunks and for each spelling of its times."""
    return digest_of_fields(send, _CONTENT)


def described(
    record: SendRequested, key: SendKey, source: Source, *, lane: Lane, named: Collection[int] = (), **more: Any
) -> Send:
    """Return the send as one of its records describes it.

    Args:
        record: The record.
        key: The send.
        source: How it was requested.
        lane: The lane of the record.
        named: All users of the send, if the request names them in one record. The variables of a send in several
            records, or to an audience, count as those of many users.
        more: Further values of the send: its content at least.
    """
    known = {
        "requested_at_ms": record.timestamp,
        "is_test": record.is_test and source is Source.REST,
        "principal": record.principal,
        "type": record.type,
        "reference": record.reference,
        "send_at_ms": record.send_at if record.send_at_local is None else last_ms(record.send_at_local),
        "send_at_local": record.send_at_local,
        "expires_at_ms": record.expires_at,
        "per_minute": record.per_minute,
        "spread_over_ms": record.spread_over_ms,
        "fallbacks": record.fallbacks,
    }
    send = Send(key=key, source=source, **(known | more))
    if (reason := _not_kept(send, record, lane)) is not None:
        return replace(send, not_kept=reason)
    message = KeptMessage(
        type=record.type,
        channels=send.channels,
        template=record.template,
        locale=record.locale,
        data=record.data,
        push=record.push,
        user_ids=tuple(named) if len(named) < SMALLEST_GROUP else (),
    )
    return replace(send, message=message)


def _not_kept(send: Send, record: SendRequested, lane: Lane) -> NotKept | None:
    """Return why the message of a send is not kept; None if it is."""
    if is_confidential(record.type, record.template, record.timestamp):
        return NotKept.CATEGORY
    if lane is Lane.CRITICAL:  # guard: kept_messages.critical
        return NotKept.CRITICAL
    if send.source is Source.KAFKA and not send.is_listed:  # guard: kept_messages.small
        return NotKept.SMALL
    size = sum(len(name.encode()) + len(value.encode()) for name, value in record.data.items())
    return NotKept.TOO_LARGE if size > MAX_MESSAGE_BYTES else None  # guard: kept_messages.too_large


def content_of_chunk(send: SendRequested, content: str) -> str:
    """Return a digest of the content of one chunk with its recipients' own variables and the object that they follow.
    `content` is that of the send.
    """
    has_own = send.recipient_data or send.follows
    return digest_of_fields(send, (*_CONTENT, "recipient_data", "follows")) if has_own else content
