"""Deterministic ids: a redelivered record produces records with the same ids, so that later consumers recognise
duplicates.
"""

from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b, sha1, sha256
from uuid import UUID

from masscomm.domain.addresses import trimmed_address
from masscomm.domain.limits import MAX_RECORD_ID_BYTES
from masscomm.domain.mail_domains import domain_in_ascii

NAMESPACE = UUID("6d617373-636f-5d6d-8000-6e6f74696679")
# This number replaces the user id of an erased person in rows that cannot be deleted; no user has this id.
ERASED_USER = 0
# The beginning of the ids of sends that are messages of digests.
DIGEST_SENDS = "digest-"


def _uuid5(name: str) -> str:
    """Return str(uuid.uuid5(NAMESPACE, name)) in a quarter of its time; each push needs one."""
    digest = sha1(NAMESPACE.bytes + name.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def is_record_id(text: str) -> bool:
    """Return whether the text can be the id of a record: our tables and indices use it as a key."""
    return 0 < len(text.encode()) <= MAX_RECORD_ID_BYTES


def send_id_of_record(topic: str, partition: int, offset: int, timestamp_ms: int) -> str:
    """Return the send id for a record that has none, derived from its original position in Kafka."""
    return _uuid5(f"{topic}/{partition}/{offset}/{timestamp_ms}")


def chunk_id(send_id: str, chunk_index: int) -> str:
    """Return the id of one chunk (one record with a range of the recipients) of a send."""
    return _uuid5(f"{send_id}/{chunk_index}")


def event_send_id(club_id: int, event_id: str, rule: str) -> str:
    """Return the id of the send that a rule derives from an event. No caller of the REST API can choose it: theirs are
    UUIDs.
    """
    return f"event-{_uuid5(f'{club_id}/{event_id}/rule/{rule}')}"  # guard: rules.derived_send_id


def digest_send_id(club_id: int, user_id: int, channel: str, key: str, number: int) -> str:
    """Return the id of the message of a user's digest on a channel. No caller of the REST API can choose it."""
    return f"{DIGEST_SENDS}{_uuid5(f'{club_id}/{user_id}/{channel}/digest/{key}/{number}')}"


def recurring_send_id(schedule_id: str, local_time: str) -> str:
    """Return the id of the send of a schedule at one of its local times: the same for each repetition."""
    return _uuid5(f"{schedule_id}/{local_time}")


def joint_send_id(send_ids: Sequence[str]) -> str:
    """Return the id under which the recipients of several sends are counted together, in any order."""
    return _uuid5(f"sends/{'/'.join(sorted(send_ids))}")


def batched_send_id(batch_id: str, index: int) -> str:
    """Return the id of one send of a batch of sends that one request contains."""
    return _uuid5(f"{batch_id}/batch/{index}")


def derived_id(parent_id: str, step: str, channel: str, start: int, end: int) -> str:
    """Return the id of the record that a processing step derives from its parent record, for positions [start, end)
    on a channel.
    """
    return _uuid5(f"{parent_id}/{step}/{channel}/{start}-{end}")  # guard: ids.derived_id


def released_id(parent_id: str, delay_reason: str, start: int, end: int) -> str:
    """Return the id of a record that is delayed and released later, derived from its parent record, for recipients'
    positions [start, end).

    The id does not depend on the number of earlier delays, so that every redelivery of the parent derives the same
    record.
    """
    return _uuid5(f"{parent_id}/released.{delay_reason}/1/{start}-{end}")


def envelope_id(record_id: str, value: bytes, attempt: int = 0) -> str:
    """Return the key in the delay store for a record that keeps its own id when it is released.

    No counted or published id is derived from this key. It depends on the whole value, because a producer may use a
    record's id for two sets of users: both records are then delayed, and the function that consumes them reports the
    wrong one.

    Args:
        value: The record as it is released.
        attempt: The number of the delay.
    """
    return _uuid5(f"{record_id}/waits/{attempt}/{blake2b(value, digest_size=16).hexdigest()}")


def others_id(record_id: str, user_ids: Sequence[int]) -> str:
    """Return an id that replaces a record's id if that id is already recorded for other users.

    The users in `user_ids` thereby get outcomes of their own.
    """
    return _uuid5(f"{record_id}/others/{','.join(map(str, user_ids))}")


def receipt_id(body: str) -> str:
    """Return the id of a provider's receipt, derived from its text: a receipt that is sent twice has one id."""
    return _uuid5(f"receipt/{body}")


def address_id(address: str) -> str:
    """Return a digest of an e-mail address, the same for each of its spellings. It does not reveal the address."""
    name, _, domain = trimmed_address(address).rpartition("@")
    # The domain is not a valid name. No e-mail is sent to such an address either.
    with suppress(ValueError):
        domain = domain_in_ascii(domain)
    return sha256(f"{name}@{domain}".lower().encode()).hexdigest()


def notification_id(send_id: str, user_id: int, channel: str) -> str:
    """Return the id of one notification: one user of a record on one channel."""
    return _uuid5(f"{send_id}/{user_id}/{channel}")


def own_event_id(club_id: int, subject: str, transition: str) -> str:
    """Return the id of masscomm's event of one transition of a send or a notification, such as
    (7, "8a6e…", "send.completed").
    """
    return f"evt_{_uuid5(f'webhook/{club_id}/{subject}/{transition}').replace('-', '')}"


def event_message_id(club_id: int, event_id: str, endpoint_id: str) -> str:
    """Return the id of the message with an occurred event for one endpoint: each repetition has the same id, and
    receivers recognise it by `webhook-id`.
    """
    return f"evt_{_uuid5(f'event/{club_id}/{endpoint_id}/{event_id}').replace('-', '')}"


def contact_send_id(club_id: int, event_id: str) -> str:
    """Return the id of the send that an event of a disabled endpoint makes to the endpoint's contact."""
    return _uuid5(f"event/{club_id}/{event_id}/contact")


def incoming_event_id(source_id: str, webhook_id: str) -> str:
    """Return the id of the event in an incoming webhook whose mapping has none, derived from the sender's id."""
    return _uuid5(f"incoming/{source_id}/{webhook_id}")


def webhook_record_id(topic: str, partition: int, start: int, end: int, bucket: int) -> str:
    """Return the id of the record with the messages of one bucket of endpoints for the events of a topic's partition
    with an offset in [start, end).
    """
    return _uuid5(f"webhook/{topic}/{partition}/{start}-{end}/{bucket}")


def webhook_batch_id(message_ids: Sequence[str]) -> str:
    """Return the webhook-id of a request with several messages, derived from their ids: a repeated one has the same."""
    return f"bat_{_uuid5(f'webhook/batch/{",".join(message_ids)}').replace('-', '')}"


def webhook_part_id(purpose: str, attempt: int, messages: Sequence[str]) -> str:
    """Return the id of a record of repeated messages, or of results: it is the same if a batch is processed again.

    Args:
        purpose: What the record is for.
        attempt: The number of attempts.
        messages: The messages, each by its endpoint and its id.
    """
    return _uuid5(f"webhook/{purpose}/{attempt}/{','.join(messages)}")
