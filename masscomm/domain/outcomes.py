"""Builds outcome records: the status and reason of each recipient in a range, with each distinct result stored once."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from masscomm.domain.preferences import Decision
from masscomm.domain.records import (
    BuildRequested,
    DeliveryRequested,
    NotificationOutcome,
    OutcomeFields,
    RecheckRequested,
    Result,
)
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.users import DirectoryPosition
from masscomm.untrusted import mask

# The largest number of recipients of a derived record.
RANGE_SIZE = 500


class RecipientOutcome(NamedTuple):
    """One recipient's entry in an outcome record."""

    position: int
    user_id: int
    decision: Decision
    # The provider's message ids, one for each device whose message it accepted.
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
    """Return the outcome record for recipients at positions [start, end). `outcomes` must not be empty.

    Consumers ignore a record whose id they have seen. Therefore the outcome record of a dead letter has an id of its
    own: an earlier outcome record of the same range may already be on the topic. The same holds for a record with only
    recipients that are HELD or wait for send_at_local: a delayed record of a single recipient keeps its parent's id,
    and the recipient gets another outcome later.

    Raises:
        ValueError: A decision has no status.
    """
    decisions = {entry.decision for entry in outcomes}
    kind = ""
    if any(decision.reason is Reason.DEAD_LETTER for decision in decisions):
        kind = ".dead_letter"
    elif all(decision.status is Status.HELD for decision in decisions):
        kind = ".held"
    elif all(decision.status is Status.SCHEDULED and decision.until_ms is not None for decision in decisions):
        kind = ".scheduled"
    return parent.derive(
        NotificationOutcome,
        f"outcome.{step}{kind}",
        channel,
        (start, end),
        [entry.position for entry in outcomes],
        [entry.user_id for entry in outcomes],
        outcome_fields(
            outcomes,
            step=step,
            now_ms=now_ms,
            requested_at=parent.timestamp,
            due_at=parent.due_ms if isinstance(parent, DeliveryRequested) else None,
            directory=directory,
        ),
    )


def outcome_fields(
    outcomes: Sequence[RecipientOutcome],
    *,
    step: str,
    now_ms: int,
    requested_at: int,
    due_at: int | None = None,
    directory: DirectoryPosition | None = None,
) -> OutcomeFields:
    """Return the fields of an outcome record that its parent record does not have.

    Raises:
        ValueError: A decision has no status.
    """
    counts = Counter(entry.decision for entry in outcomes)
    index_of = {decision: index for index, decision in enumerate(counts)}
    any_published = any(entry.message_ids for entry in outcomes)
    return OutcomeFields(
        step=step,
        timestamp=now_ms,
        requested_at=requested_at,
        results=[_result(decision, count, now_ms, directory) for decision, count in counts.items()],
        result_index=[index_of[entry.decision] for entry in outcomes],
        provider_message_ids=[list(entry.message_ids) for entry in outcomes] if any_published else [],
        due_at=due_at,
    )


def _result(decision: Decision, count: int, now_ms: int, directory: DirectoryPosition | None) -> Result:
    if decision.status is None:
        raise ValueError("an allowed notification has no outcome yet")
    return Result(
        status=decision.status,
        reason=decision.reason,
        count=count,
        layer=decision.layer,
        rule=decision.rule and mask(decision.rule),  # guard: masking.outcomes
        settings_version=decision.settings_version,
        settings_changed_at=decision.settings_changed_at,
        cdc_position=directory.lsn if directory else None,
        staleness_ms=max(0, now_ms - directory.ts_ms) if directory else None,
    )


SENT = Decision(Status.SENT, None, "provider")
DEAD_LETTERED = Decision(Status.FAILED, Reason.DEAD_LETTER)
EXPIRED = Decision(Status.EXPIRED, Reason.EXPIRED)
CANCELLED = Decision(Status.CANCELLED, Reason.CANCELLED)
SCHEDULED = Decision(Status.SCHEDULED)
