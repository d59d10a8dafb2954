"""The records of a send, made from its request. Their ids are the same in every attempt to request it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import batched

from functions.send_handler.send_request import SendRequest, bytes_of
from masscomm.domain.categories import announced_channels, resolve_channels
from masscomm.domain.digests import digest_text
from masscomm.domain.fallbacks import fallbacks_text
from masscomm.domain.key_limits import RECIPIENTS
from masscomm.domain.limits import CHUNK_RECIPIENT_DATA_BYTES, CHUNK_SIZE
from masscomm.domain.records import SendRequested
from masscomm.domain.sends import Send
from masscomm.errors import Stop
from masscomm.http.rate_limits import maximum_of
from masscomm.http.rest import Request
from masscomm.observability import traces

# In a record, the position of each recipient is added, with at most four digits.
_CHUNK_BYTES = CHUNK_RECIPIENT_DATA_BYTES - 4 * CHUNK_SIZE


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The caller of the REST API."""

    # The id of the API key, or another principal that the authorizer set.
    principal: str = ""
    trace: traces.Trace | None = None
    # The principal with whose use the limit is counted.
    counted_under: str = ""
    # The limit of the API key; None: it has none.
    recipients_a_day: int | None = None
    # Whether the API key sends to simulator recipients only.
    is_test: bool = False

    @classmethod
    def of(cls, request: Request) -> "Caller":
        """Return the caller of a request. Raises Stop if the authorizer's context is malformed."""
        recipients_a_day = maximum_of(request.authorizer, RECIPIENTS)
        if recipients_a_day is not None and not request.counted_under:
            raise Stop("the authorizer's context has a limit and no principal")
        return cls(
            principal=request.principal,
            counted_under=request.counted_under,
            # The trace of the caller, if the request has valid trace headers.
            trace=traces.parse(request.header(traces.PARENT), request.header(traces.STATE)),
            recipients_a_day=recipients_a_day,
            is_test=request.is_test,
        )


ANONYMOUS = Caller()


@dataclass(frozen=True, kw_only=True)
class SendIdentity:
    """The parts of a send that stay the same in every attempt to request it, because the ids of its records are
    derived from them.
    """

    send_id: str
    # The time of the send in milliseconds since the epoch.
    requested_at_ms: int
    # The number of recipients in each record of the send.
    chunk_size: int
    # The index of the first record, and the number of the send's records as far as known; of a send with several parts,
    # the first record of the part.
    first_chunk: int = 0
    chunk_count: int | None = None
    # Of a part: the registered send, and whether the broker has all records of the part.
    stored: Send | None = None
    is_produced: bool = False


def channels_of(send: SendRequest, identity: SendIdentity) -> list[str]:
    """Return the channels of a send."""
    return resolve_channels(send.type, _named_channels(send, identity), send.club_id, identity.requested_at_ms)


def _named_channels(send: SendRequest, identity: SendIdentity) -> list[str]:
    """Return the channels that the records of a send name; none: those of its category."""
    return send.channel_names or announced_channels(send.type, send.club_id, identity.requested_at_ms)


def record_of(
    send: SendRequest, identity: SendIdentity, caller: Caller, index: int, count: int, users: Sequence[int]
) -> SendRequested:
    """Return a record of a send. It has no recipients if audience_expander adds them."""
    return SendRequested(
        type=send.type,
        club_id=send.club_id,
        timestamp=identity.requested_at_ms,
        to_users=list(users),
        send_id=identity.send_id,
        chunk_index=index,
        chunk_count=count,
        channels=_named_channels(send, identity),
        template=send.template,
        data=send.data,
        recipient_data={
            str(position): own
            for position, user_id in enumerate(users)
            if (own := send.recipient_data.get(str(user_id)))
        }
        if send.recipient_data
        else {},
        locale=send.locale,
        priority=send.priority,
        expires_at=send.expires_at_ms,
        send_at=send.send_at_ms,
        send_at_local=send.send_at_local,
        collapse_key=send.collapse_key,
        reference=send.reference,
        push=send.push_text,
        principal=caller.principal or None,
        is_test=caller.is_test,
        digest=None if send.digest is None else digest_text(send.digest.digest()),
        per_minute=send.per_minute,
        spread_over_ms=send.spread_over_ms,
        fallbacks=fallbacks_text(send.fallbacks),
    )


def count_chunks(send: SendRequest, size: int) -> int:
    """Return the number of a send's chunks."""
    return sum(1 for _ in chunks_of(send, size))


def chunks_of(send: SendRequest, size: int) -> Iterator[Sequence[int]]:
    """Yield the recipients of each chunk: at most `size`, with at most CHUNK_RECIPIENT_DATA_BYTES of own variables. A
    repeated request has the same chunks.
    """
    users, recipient_data = list(dict.fromkeys(send.to_users)), send.recipient_data
    if not recipient_data:
        yield from batched(users, size, strict=False)
        return
    chunk: list[int] = []
    total = 0
    for user_id in users:
        own = bytes_of(recipient_data.get(str(user_id), {}))
        if chunk and (len(chunk) == size or total + own > _CHUNK_BYTES):
            yield chunk
            chunk, total = [], 0
        chunk.append(user_id)
        total += own
    yield chunk
