"""Fallbacks: their form, and the decisions about waiting notifications over all statuses and orders of arrival."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.decisions import fallbacks
from masscomm.domain.fallbacks import (
    NO_STATE,
    NOT_DELIVERED,
    NOT_SENT,
    Fallback,
    FallbackError,
    FallbackState,
    Verdict,
    check_fallbacks,
    fallbacks_in,
    fallbacks_text,
    final_statuses,
    verdict_at_end,
    waiting_for,
)
from masscomm.domain.outcomes import RecipientOutcome, outcome_fields
from masscomm.domain.preferences import Decision
from masscomm.domain.records import ChannelRecord, NotificationOutcome, RecheckRequested
from masscomm.domain.statuses import PUBLISHED, RANK, TERMINAL, Reason, Status
from tests.support.harness.chain import NOW, recheck

TEXT = '[{"channel":"email","if":"not_sent","after":"10m"}]'
WAITING: RecheckRequested = recheck(
    [1, 2, 3], channels=["email"], why="fallback", fallbacks=TEXT, waited_until=NOW + 600_000
)
ALL_STATUSES = [*Status]


def outcome(record_id: str, found: dict[int, tuple[Status, Reason | None]]) -> NotificationOutcome:
    positions = sorted(found)
    recipients = ChannelRecord(
        record_id=record_id,
        parent_id="p",
        send_id=WAITING.send_id,
        chunk_index=0,
        range_start=0,
        range_end=500,
        channel="push",
        positions=positions,
        user_ids=[WAITING.user_ids[position] for position in positions],
    )
    results = [
        RecipientOutcome(position, WAITING.user_ids[position], Decision(*found[position], "provider"))
        for position in positions
    ]
    return outcome_fields(results, step="delivery", now_ms=NOW, requested_at=NOW).added_to(
        NotificationOutcome, WAITING, recipients
    )


def test_fallbacks_are_read_as_they_were_written() -> None:
    found = (
        Fallback(channel="email", condition=NOT_SENT, after_ms=600_000),
        Fallback(channel="sms", condition=NOT_SENT, after_ms=7_200_000),
    )
    assert fallbacks_in(fallbacks_text(found)) == found
    assert fallbacks_in(TEXT) == found[:1]
    assert (fallbacks_text([]), fallbacks_in(None)) == (None, ())
    assert list(waiting_for(fallbacks_text(found), ["push", "email", "sms"])) == ["email", "sms"]


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "{}",
        "[]",
        "[1]",
        "[{}]",
        '[{"channel":1,"if":"not_sent","after":"10m"}]',
        '[{"channel":"email","if":"not_sent","after":10}]',
        '[{"channel":"email","if":"not_sent","after":"90s"}]',
        '[{"channel":"email","if":"not_sent","after":"10m","more":1}]',
        '[{"channel":"%s","if":"not_sent","after":"10m"}]' % ("x" * 1_000),
    ],
)
def test_wrong_form_is_refused(text: str) -> None:
    with pytest.raises(FallbackError):
        check_fallbacks(text, ["push", "email"])


@pytest.mark.parametrize("channels", [["email"], ["push"], ["push", "email", "push"], []])
def test_fallback_of_other_channels_is_refused(channels: list[str]) -> None:
    with pytest.raises(FallbackError):
        check_fallbacks(TEXT, channels)


@pytest.mark.kills(guard="fallbacks.complaint")
def test_complaint_is_about_a_message_that_arrived() -> None:
    found = {
        0: (Status.BOUNCED, Reason.COMPLAINED),
        1: (Status.BOUNCED, Reason.BOUNCED_PERMANENT),
        2: (Status.SENDING, None),
    }
    assert final_statuses(outcome("o", found)) == {0: Status.DELIVERED, 1: Status.BOUNCED}


# (the status, whether the waiting record is at hand), or None: the time of the waiting record has come.
events = st.lists(
    st.one_of(st.none(), st.tuples(st.sampled_from(ALL_STATUSES), st.booleans())), min_size=1, max_size=6
).map(lambda found: [*found, None])


def slow_verdict(arrived: list[tuple[Status, bool] | None], condition: str) -> Verdict:
    """Return the decision about one notification, as the rules say it."""
    best: Status | None = None
    for event in arrived:
        if event is None:
            if best is Status.CANCELLED:
                return Verdict.CANCELLED
            if best is Status.DELIVERED or (best is Status.SENT and condition == NOT_SENT):
                return Verdict.NOT_NEEDED
            return Verdict.GOES
        status, at_hand = event
        if status not in TERMINAL:
            continue
        best = status if best is None or RANK[status] > RANK[best] else best
        if at_hand and (best is Status.BOUNCED or (best not in PUBLISHED and best is not Status.CANCELLED)):
            return Verdict.GOES
    raise AssertionError("the time of each waiting record comes")


@pytest.mark.kills(guard="fallbacks.decided_once")
@pytest.mark.kills(guard="fallbacks.cancelled")
@pytest.mark.guarantee("fallbacks.one_decision")
@given(st.lists(events, min_size=3, max_size=3), st.sampled_from([NOT_SENT, NOT_DELIVERED]), st.randoms())
def test_each_order_of_events_has_one_decision(arriving: list[Any], condition: str, rng: Any) -> None:
    """Three notifications of one waiting record have events of their own, in any order among each other."""
    state, left = NO_STATE, [list(each) for each in arriving]
    number = 0
    while any(left):
        position = rng.choice([index for index, each in enumerate(left) if each])
        event, number = left[position].pop(0), number + 1
        before = state.verdicts
        if event is None:
            state = state.deciding("waiting", {position: verdict_at_end(state.statuses.get(position), condition)})
        else:
            status, at_hand = event
            state = fallbacks.observed(state, outcome(f"o{number}", {position: (status, None)}), can_go=at_hand)
        assert before.items() <= state.verdicts.items()
    assert state.verdicts == {index: slow_verdict(each, condition) for index, each in enumerate(arriving)}


@given(st.lists(st.sampled_from([*TERMINAL]), min_size=3, max_size=3), st.booleans())
def test_each_recipient_goes_once_or_ends_once(statuses: list[Status], is_first_at_hand: bool) -> None:
    """The records that follow, repeated, have each recipient exactly once."""
    found = outcome("o", {position: (status, None) for position, status in enumerate(statuses)})
    state = fallbacks.observed(NO_STATE, found, can_go=is_first_at_hand)
    decided = fallbacks.decide_waiting(WAITING, state, cancelled=False)
    repeated = fallbacks.decide_waiting(WAITING, fallbacks.observed(decided, found, can_go=True), cancelled=True)
    assert repeated == decided
    plan = fallbacks.planned(WAITING, decided)
    ended = [each.position for span in plan.outcomes for each in span.outcomes]
    assert sorted(ended + [position for part in plan.forwarded for position in part.positions]) == [0, 1, 2]
    assert all(part.fallbacks is None and part.channels == ["email"] for part in plan.forwarded)
    assert len({part.record_id for part in plan.forwarded}) == len(plan.forwarded)


def test_cancelled_send_ends_waiting_notifications() -> None:
    state = fallbacks.decide_waiting(WAITING, NO_STATE, cancelled=True)
    assert set(state.verdicts.values()) == {Verdict.CANCELLED}
    assert fallbacks.needs_proof(WAITING, NO_STATE, cancelled=False)
    assert not fallbacks.needs_proof(WAITING, NO_STATE, cancelled=True)


def test_unknown_ends_expire_only_the_silent() -> None:
    state = replace(NO_STATE, statuses={0: Status.SENT, 1: Status.FAILED})
    found: FallbackState = fallbacks.decide_waiting(WAITING, state, cancelled=False, is_late=True)
    assert found.verdicts == {0: Verdict.NOT_NEEDED, 1: Verdict.GOES, 2: Verdict.EXPIRED}
