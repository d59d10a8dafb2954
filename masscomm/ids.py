"""Deterministic ids: a redelivered record derives the same ones, so that everything downstream can recognise it."""

from contextlib import suppress
from hashlib import sha256
from uuid import UUID, uuid5

NAMESPACE = UUID("6d617373-636f-5d6d-8000-6e6f74696679")


def send_id_of_record(topic: str, partition: int, offset: int, timestamp_ms: int) -> str:
    """The send id of a record that names none, from its original position."""
    return str(uuid5(NAMESPACE, f"{topic}/{partition}/{offset}/{timestamp_ms}"))


def chunk_id(send_id: str, chunk_index: int) -> str:
    """The id of one chunk of a send."""
    return str(uuid5(NAMESPACE, f"{send_id}/{chunk_index}"))


def derived_id(parent_id: str, step: str, channel: str, start: int, end: int) -> str:
    """The id of the record a step derives from its parent for positions [start, end) on a channel."""
    return str(uuid5(NAMESPACE, f"{parent_id}/{step}/{channel}/{start}-{end}"))


def released_id(parent_id: str, why: str, n: int, start: int, end: int) -> str:
    """The id of the record that goes on for positions [start, end) of its parent after the nth wait for the reason."""
    return str(uuid5(NAMESPACE, f"{parent_id}/released.{why}/{n}/{start}-{end}"))


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
