"""Registers the sends of a batch: an id stays the id of the send that came first."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from masscomm.decisions.chunk import Chunk
from masscomm.domain.sends import Send, SendControl, SendKey, Source, digest_of_users
from masscomm.errors import DeadLetter, MasscommError, OtherContent, OtherRecipients
from masscomm.stores.decision_log.port import DecisionLog, unpack_decisions
from masscomm.stores.sends.port import Sends, send_of


@dataclass(frozen=True)
class StoredSends:
    """The sends that are stored under the ids of a batch's records, or the errors of their registration."""

    found: dict[SendKey, Send] = field(default_factory=dict)
    registered: dict[str, Send | MasscommError] = field(default_factory=dict)

    def of(self, key: SendKey) -> Send | MasscommError | None:
        """Return the send under an id, which may be another one; None if none is registered."""
        return self.found.get(key) or self.registered.get(key.send_id)

    def control(self, chunk: Chunk) -> SendControl:
        """Return the control of a request's send."""
        key = send_of(chunk.request)
        stored = self.of(key)
        if not isinstance(stored, Send) or stored.of(key) is None:
            return SendControl(send=key)
        return stored.control


@dataclass(frozen=True, kw_only=True)
class Register:
    """Reads and records the sends of requests. Each function environment has one instance."""

    sends: Sends
    decision_log: DecisionLog

    def sends_of(self, chunks: Iterable[Chunk]) -> StoredSends:
        """Return the stored sends of requests, after those that are missing are recorded. Raises Retry or Stop.

        A whole send by Kafka is recorded without a look: nearly always it is new. Other sends are read, because one
        item is the same for thousands of records.
        """
        written: dict[str, Send] = {}
        described: dict[SendKey, Send | None] = {}
        for chunk in chunks:
            key, send = send_of(chunk.request), chunk.send
            if not key.is_valid or chunk.fault is not None or send is None:
                described.setdefault(key, None)
            elif send.source is Source.KAFKA and send.chunks == 1:
                written.setdefault(key.send_id, send)
            else:
                described[key] = described.get(key) or send
        found = dict(self.sends.read(described)) if described else {}
        for key, send in described.items():
            if send is not None and key not in found:  # guard: sends.completed_registration
                written.setdefault(key.send_id, send)
        return StoredSends(found, dict(self.sends.register(written.values())) if written else {})

    def check(self, chunk: Chunk, sends: StoredSends) -> None:
        """Check that the send under the id of a new record is the record's own.

        Raises:
            DeadLetter: The id belongs to another send.
            MasscommError: The send could not be registered.
        """
        if chunk.send is None:
            return
        stored = sends.of(chunk.send.key)
        if isinstance(stored, MasscommError):
            raise stored
        if stored is not None and not stored.is_same(chunk.send):  # guard: sends.record_of_another_send
            raise self._refusal(chunk, chunk.send, stored)

    def _refusal(self, chunk: Chunk, send: Send, stored: Send) -> DeadLetter:
        """Return the error of a record of another send, by whether its recipients have outcomes under its id."""
        request = chunk.request
        if stored.recipients is not None and request.chunk_index == 0:
            same_users = stored.key == send.key and stored.recipients == digest_of_users(request.user_ids)
            return OtherContent() if same_users else OtherRecipients()
        packed = self.decision_log.find(request.record_id)
        if packed is None:
            return DeadLetter("invalid", "the send_id belongs to a send with another content, or of another tenant")
        try:
            unpack_decisions(packed, positions=request.positions, user_ids=request.user_ids)
        except OtherRecipients as error:
            return error
        return OtherContent()
