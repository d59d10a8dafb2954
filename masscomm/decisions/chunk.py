"""The request (recipients to decide about) in a consumed record."""

from dataclasses import replace
from typing import NamedTuple

from masscomm.domain.delays import SEND_AT
from masscomm.domain.ids import others_id
from masscomm.domain.lanes import Lane
from masscomm.domain.records import CARRIED, RecheckRequested
from masscomm.domain.send_content import digest_of_fields
from masscomm.domain.sends import Send, SendControl
from masscomm.errors import DeadLetter

# The fields that make up the content of a request. A producer that repeats a chunk of a send may set its times anew;
# the content is still the same.
_CONTENT = tuple(name for name in CARRIED if name not in ("timestamp", "expires_at"))


class Chunk(NamedTuple):
    """The request in a consumed record: the recipients of a send's chunk, or of a recheck record."""

    request: RecheckRequested
    # The lane of the consumed record.
    lane: Lane = Lane.BULK
    # Whether the record came from a topic of new sends.
    is_new: bool = False
    # Whether the lane is already the broadcast queue to which derived records are produced.
    queued: bool = True
    send_at: int | None = None
    # The send as its new record describes it; None for a recheck record, whose chunk was compared before.
    send: Send | None = None
    # Whether the send of these recipients is cancelled.
    cancelled: bool = False
    # The control of the send if the send is paused.
    paused: SendControl | None = None
    # The control of the send if the request waits for a send_at that replaces the one in its record.
    rescheduled: SendControl | None = None
    # The time to which the send was moved.
    moved_to: int | None = None
    # The pace that replaces the send's own, and the revision of the control that has set it.
    per_minute: int | None = None
    pace_revision: int = 0
    # The reason why the record is dead-lettered; None if it is valid.
    fault: DeadLetter | None = None

    @property
    def about(self) -> RecheckRequested:
        """Return the record of these recipients, whose ids log lines contain."""
        return self.request

    def under(self, control: SendControl, now_ms: int) -> "Chunk":
        """Return the chunk with what the control of its send says at a time. Raises Retry if it cannot be read."""
        control.check_readable()
        if not control.cancelled and control.revision == 0:
            return self  # Copying the chunk takes longer than the rest of this function.
        cancelled = control.is_cancelled(now_ms)
        chunk = self._replace(
            cancelled=cancelled,
            paused=control if control.is_paused(now_ms) else None,
            moved_to=control.send_at_ms,
            per_minute=control.per_minute,
            pace_revision=control.pace_revision,
        )
        if control.send_at_ms is None:
            return chunk
        if self.send_at is not None:
            request = replace(self.request, send_at_local=None)
            return chunk._replace(request=request, send_at=control.send_at_ms)
        if self.request.why != SEND_AT and self.request.send_at_local is None:
            return chunk
        waits = control.send_at_ms > now_ms and not cancelled  # guard: send_controls.moved_send
        return chunk._replace(
            request=replace(self.request, waited_until=control.send_at_ms, send_at_local=None),
            rescheduled=control if waits else None,
        )

    def with_others_id(self) -> "Chunk":
        """Return the chunk under another id, because decisions about other users are already recorded under its own
        id.
        """
        record_id = others_id(self.request.record_id, self.request.user_ids)
        return self._replace(request=replace(self.request, record_id=record_id))


def content_of(request: RecheckRequested) -> str:
    """Return a digest of the request's content. Channels are omitted, because the channels of a category may change
    before a redelivery; those that a new send names are in the content of the send.
    """
    return digest_of_fields(request, _CONTENT)
