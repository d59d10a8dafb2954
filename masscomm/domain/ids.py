"""Deterministic ids: a redelivered record derives the same ids, so that every later step recognises duplicates."""

from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b, sha256
from uuid import UUID, uuid5

from masscomm.domain.limits import MAX_RECORD_ID_BYTES

NAMESPACE = UUID("6d617373-636f-5d6d-8000-6e6f74696679")
# Replaces the user id of an erased person in rows that must stay: no user has this id.
ERASED_USER = 0


def is_record_id(text: str) -> bool:
    """Whether the text can be a record's id: our tables and indices use it as a key."""
    return 0 < len(text.encode()) <= MAX_RECORD_ID_BYTES


def send_id_of_record(topic: str, partition: int, offset: int, timestamp_ms: int) -> str:
    """The send id of a record that names none, from its original position."""
    return str(uuid5(NAMESPACE, f"{topic}/{partition}/{offset}/{timestamp_ms}"))


def chunk_id(send_id: str, chunk_index: int) -> str:
    """The id of one chunk of a send."""
    return str(uuid5(NAMESPACE, f"{send_id}/{chunk_index}"))


def derived_id(parent_id: str, step: str, channel: str, start: int, end: int) -> str:
    """The id of the record a step derives from its parent for positions [start, end) on a channel."""
    return str(uuid5(NAMESPACE, f"{parent_id}/{step}/{channel}/{start}-{end}"))  # guard: ids.derived_id


def released_id(parent_id: str, delay_reason: str, start: int, end: int) -> str:
    """The id of the record that a delay derives from its parent for positions [start, end).

    It does not depend on the number of earlier delays: every redelivery of the parent derives the same record.
    """
    return numbered_id(parent_id, delay_reason, 1, start, end)


def numbered_id(parent_id: str, delay_reason: str, attempt: int, start: int, end: int) -> str:
    """The id after that delay, as earlier versions derived it: such records may still be delayed."""
    return str(uuid5(NAMESPACE, f"{parent_id}/released.{delay_reason}/{attempt}/{start}-{end}"))


def envelope_id(record_id: str, value: bytes, attempt: int = 0) -> str:
    """The id of a delayed record that is released under its own id; value: as it will be released; attempt: number
    of the delay.

    Nothing that is counted or published derives from it. It includes the whole value, because a producer may use a
    record's id for other users: both records are delayed, and the receiver of both reports the wrong one.
    """
    return str(uuid5(NAMESPACE, f"{record_id}/waits/{attempt}/{blake2b(value, digest_size=16).hexdigest()}"))


def others_id(record_id: str, user_ids: Sequence[int]) -> str:
    """Return the id that replaces a record's id if that id is already recorded for other users.

    The users in `user_ids` thereby have outcomes of their own.
    """
    return str(uuid5(NAMESPACE, f"{record_id}/others/{','.join(map(str, user_ids))}"))


def receipt_id(body: str) -> str:
    """Return the id of a receipt, derived from its text: a receipt that the provider sends twice has one id."""
    return str(uuid5(NAMESPACE, f"receipt/{body}"))


def address_id(address: str) -> str:
    """Return the id of an e-mail address, the same for each of its spellings; it does not reveal the address."""
    name, _, domain = address.strip().lower().rpartition("@")
    with suppress(UnicodeError):  # not a domain name: no e-mail is sent to it either
        domain = domain.encode("idna").decode()
    return sha256(f"{name}@{domain}".encode()).hexdigest()


def notification_id(send_id: str, user_id: int, channel: str) -> str:
    """The id of one notification: one user on one channel."""
    return str(uuid5(NAMESPACE, f"{send_id}/{user_id}/{channel}"))
