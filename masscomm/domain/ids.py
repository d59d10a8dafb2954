"""Deterministic ids: a redelivered record derives the same ones, so that everything downstream can recognise it."""

from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b, sha256
from uuid import UUID, uuid5

from masscomm.domain.limits import MAX_RECORD_ID_BYTES

NAMESPACE = UUID("6d617373-636f-5d6d-8000-6e6f74696679")
# In place of a person's user id where their row must stay: no user has it.
ERASED_USER = 0


def is_record_id(text: str) -> bool:
    """Whether the text can be a record's id: a key of every table and index of ours."""
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
    """Stands for the record's id where that one is recorded for other users: these have outcomes of their own."""
    return str(uuid5(NAMESPACE, f"{record_id}/others/{','.join(map(str, user_ids))}"))


def receipt_id(body: str) -> str:
    """The id of a receipt, from its text: what a provider says twice is one receipt."""
    return str(uuid5(NAMESPACE, f"receipt/{body}"))


def address_id(address: str) -> str:
    """The id of an e-mail address, however it is written; it says nothing of the address."""
    name, _, domain = address.strip().lower().rpartition("@")
    with suppress(UnicodeError):  # no domain's name: nothing is sent to it either
        domain = domain.encode("idna").decode()
    return sha256(f"{name}@{domain}".encode()).hexdigest()


def notification_id(send_id: str, user_id: int, channel: str) -> str:
    """The id of one notification: one user on one channel."""
    return str(uuid5(NAMESPACE, f"{send_id}/{user_id}/{channel}"))
