"""Outcome records: the results of a range's recipients, each distinct result stored once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from masscomm.domain.preferences import Decision
from masscomm.domain.records import BuildRequested, DeliveryRequested, NotificationOutcome, RecheckRequested, Result
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.users import DirectoryPosition
from masscomm.untrusted import mask

# Most recipients of a derived record.
RANGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class RecipientOutcome:
    """One recipient's entry in an outcome record."""

    position: int
    user_id: int
    decision: Decision
    # One for each device whose message the provider accepted.
    message_ids: tuple[str, ...] = ()


def outcome(
    parent: RecheckRequested | BuildRequested | DeliveryRequested,
    outcomes: Sequence[RecipientOutcome],
    *,
    channel: str,
    step: str,
    start: int,
    end: int,
    now_ms: int,
    directory: DirectoryPosition | None,
) -> NotificationOutcome:
    """Return the outcome record for recipients of positions [start, end); outcomes must not be empty.

    A dead letter's outcome record has an id of its own: an earlier outcome record of the range may be on the topic
    already, and consumers ignore an id that they have seen. A record of only HELD recipients has an id of its own, too:
    a record of a single recipient keeps the parent's id, and this recipient gets another outcome later.

    Raises:
        ValueError: A decision has no status.
    """
    decisions = [entry.decision for entry in outcomes]
    kind = ""
    if any(decision.reason is Reason.DEAD_LETTER for decision in decisions):
        kind = ".dead_letter"
    elif all(decision.status is Status.HELD for decision in decisions):
        kind = ".held"
    counts = Counter(decisions)
    distinct = list(counts)
    index_of = {decision: index for index, decision in enumerate(distinct)}
    any_published = any(entry.message_ids for entry in outcomes)
    return parent.derive(
        NotificationOutcome,
        f"outcome.{step}{kind}",
        channel,
        (start, end),
        [entry.position for entry in outcomes],
        [entry.user_id for entry in outcomes],
        step=step,
        timestamp=now_ms,
        requested_at=parent.timestamp,
        results=[_result(decision, counts[decision], now_ms, directory) for decision in distinct],
        result_index=[index_of[decision] for decision in decisions],
        provider_message_ids=[list(entry.message_ids) for entry in outcomes] if any_published else [],
    )


def _result(decision: Decision, count: int, now_ms: int, directory: DirectoryPosition | None) -> Result:
    if decision.status is None:
        raise ValueError("a notification that goes on has no outcome yet")
    return Result(
        status=decision.status,
        reason=decision.reason,
        count=count,
        layer=decision.layer,
        rule=decision.rule and mask(decision.rule),  # guard: masking.outcomes
        settings_version=decision.settings_version,
        cdc_position=directory.lsn if directory else None,
        staleness_ms=max(0, now_ms - directory.ts_ms) if directory else None,
    )


SENT = Decision(Status.SENT, None, "provider")
DEAD_LETTERED = Decision(Status.FAILED, Reason.DEAD_LETTER)
EXPIRED = Decision(Status.EXPIRED, Reason.EXPIRED)
SCHEDULED = Decision(Status.SCHEDULED)
