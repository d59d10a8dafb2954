"""Adds the results of a small send that the metrics job has not counted yet to the send's totals.

The results are those of the same outcome records, merged by the job's ranks with the states that it has counted. So a
result that is counted already changes nothing, and a missing one is seen once it is counted. When the job's watermark
has passed all results of a send, its counts alone are its totals.
"""

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from functions.sends_api.routes.known_sends import KnownSend, with_requested
from masscomm.domain.notification_codes import BlockKey, Moves, merged, restored
from masscomm.domain.send_results import MOST_USERS, SendResult
from masscomm.domain.sends import Send
from masscomm.domain.statuses import PUBLISHED
from masscomm.domain.time_limits import RESULTS_UNCOUNTED_S
from masscomm.errors import Retry
from masscomm.observability import logs
from masscomm.stores.metrics.port import ChannelTotals, MetricsStore, SendTotals
from masscomm.stores.send_results.port import SendResults

logger = logs.logger("sends_api")


@dataclass(frozen=True)
class ResultsAtOnce:
    """Reads the results of small sends."""

    store: MetricsStore
    results: SendResults

    def added_to(self, known: KnownSend) -> KnownSend:
        """Return a send with the results that are not counted yet; without them if a store does not answer."""
        if not known.counts_known or not _is_small(known.send):
            return known
        watermark = None if known.counted is None else known.counted.watermark
        since = None if watermark is None else watermark - timedelta(seconds=RESULTS_UNCOUNTED_S)
        try:
            found = self.results.since(known.key, None if since is None else round(since.timestamp() * 1000))
            if not found:
                return known
            # Totals and states of one moment: the job may have counted results meanwhile.
            counted = self.store.send(known.key.send_id, with_states=True)
        except Retry as error:  # guard: results.unreadable
            logger.warning("a send is answered with its counts alone", error=str(error))
            return known
        if counted is not None and counted.club_id != known.key.club_id:  # guard: tenancy.counted_states
            counted = None
        return replace(known, counted=_with_results(replace(known, counted=counted), found))


def _is_small(send: Send) -> bool:
    """Return whether all users of a send are known, and few."""
    parts, users = send.parts, send.users
    if parts is not None and parts.registered < parts.count:  # guard: results.registered_parts
        return False
    if send.is_to_audience:
        users = None if send.expansion is None or send.expansion.error is not None else send.expansion.users
    return users is not None and users <= MOST_USERS


def _with_results(known: KnownSend, found: Iterable[SendResult]) -> SendTotals:
    """Return the totals of a send with results. All that it requests is known, so its chunks count as counted."""
    totals = with_requested(known)
    blocks: dict[BlockKey, array[int]] = {
        (totals.send_id, 0, channel, block): restored(codes) for (channel, block), codes in totals.states.items()
    }
    moves: Moves = Counter()
    for result in found:
        changed, moved = merged(blocks, result.blocks())
        blocks |= changed
        moves.update(moved)
    channels = {name: replace(each, by_status=_copied(each.by_status)) for name, each in totals.channels.items()}
    for (_, channel, status, reason), change in moves.items():
        reasons = channels.setdefault(channel, ChannelTotals()).by_status.setdefault(status, {})
        reasons[reason] = reasons.get(reason, 0) + change
        if not reasons[reason]:
            del reasons[reason]
    for each in channels.values():
        published = sum(sum(each.by_status.get(status, {}).values()) for status in PUBLISHED)
        each.queued = max(each.queued, published)
    chunks = max(1, totals.chunks)
    return replace(totals, channels=channels, chunk_count=chunks, chunks=chunks)


def _copied(by_status: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {status: dict(reasons) for status, reasons in by_status.items()}
