"""Splits a request into parts, by the positions of its recipients in the send."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from masscomm.domain.delays import SEND_AT
from masscomm.domain.ids import derived_id, released_id
from masscomm.domain.records import BuildRequested, DeliveryRequested, RecheckRequested

# A record with more recipients than this is split into ranges of positions first, so that the time and memory of an
# invocation are bounded.
SPLIT_ABOVE = 10_000
# The largest number of recipients in a part of a split record.
PART_SIZE = 5_000


def split_parts(whole: RecheckRequested) -> list[RecheckRequested]:
    """Split a chunk (one record of a send) with many recipients into parts, by their position in the list."""
    return _parts(whole, "split", lambda start, end: derived_id(whole.record_id, "recheck", "split", start, end))


def after_send_at(chunk: RecheckRequested, send_at: int) -> list[RecheckRequested]:
    """Return the parts of a chunk (one record of a send) that are processed at its send_at; none if the chunk has no
    recipients.

    The parts are the same before and after send_at: a redelivery after that time derives the same records that an
    earlier delivery put into the delay store.
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
    """Yield (start, end, indices of recipients) for each range of positions in the send that contains recipients.
    Ranges begin at multiples of `size`.
    """
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
