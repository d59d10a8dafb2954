"""The plan of a request: a pure function of its arguments."""

from collections.abc import Mapping
from typing import Any

import pytest

from masscomm.decisions.chunk import Chunk
from masscomm.decisions.plan import (
    MAX_HELD,
    UNCONFIRMED,
    DirectoryView,
    Plan,
    Verdict,
    continue_at_send_at,
    decide_recipients,
    decide_without_look_up,
    plan,
    plan_without_look_up,
    verdict_of,
)
from masscomm.domain.delays import RetrySchedule
from masscomm.domain.lanes import Lane
from masscomm.domain.outcomes import EXPIRED, SCHEDULED
from masscomm.domain.preferences import UNKNOWN, Decision
from masscomm.domain.records import RecheckRequested
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.users import User, UserSettings
from tests.support.harness.chain import NOW, recheck

ALLOWED = Decision(None)
OPTED_OUT = Decision(Status.SUPPRESSED, Reason.OPTED_OUT, "user")
HELD = Decision(Status.HELD, None, "user", until_ms=NOW + 1_000)
LATER = NOW + 60_000
RETRIES = RetrySchedule()
ALL_DAY = {"start": "00:00", "end": "23:59"}


def _plan(request: RecheckRequested, decisions: Mapping[str, Mapping[int, Decision]]) -> Plan:
    return plan(request, decisions, now_ms=NOW, retries=RETRIES)


def _view(*user_ids: int, unconfirmed: frozenset[int] = frozenset(), **settings: Any) -> DirectoryView:
    return DirectoryView(
        users={user_id: User(user_id=user_id, club_id=7) for user_id in user_ids},
        settings={user_id: UserSettings(user_id=user_id, **settings) for user_id in user_ids},
        unconfirmed=unconfirmed,
    )


def _emitted(planned: Plan) -> dict[tuple[str, int], Decision]:
    return {(channel, entry.user_id): entry.decision for channel, _, outcomes in planned.outcomes for entry in outcomes}


@pytest.mark.parametrize(
    ("decision", "verdict"),
    [
        (ALLOWED, Verdict.ALLOWED),
        (OPTED_OUT, Verdict.FINAL),
        (EXPIRED, Verdict.FINAL),
        (UNKNOWN, Verdict.FINAL),
        (HELD, Verdict.DEFERRED),
        (UNCONFIRMED, Verdict.DEFERRED),
    ],
)
def test_a_decision_has_one_verdict(decision: Decision, verdict: Verdict) -> None:
    assert verdict_of(decision) is verdict


def test_allowed_recipients_are_in_build_records_by_range() -> None:
    request = recheck([1, 2, 3], positions=[0, 499, 500], range_end=1000)
    planned = _plan(request, {"push": {}})
    assert [(build.range_start, build.range_end, build.user_ids) for build in planned.builds] == [
        (0, 500, [1, 2]),
        (500, 1000, [3]),
    ]
    assert {build.parent_id for build in planned.builds} == {request.record_id}
    assert (planned.delayed, planned.forwarded, _emitted(planned)) == ([], (), {})


def test_final_recipients_have_an_outcome_alone() -> None:
    planned = _plan(recheck([1, 2], channels=["push", "email"]), {"push": {0: OPTED_OUT}, "email": {}})
    assert _emitted(planned) == {("push", 1): OPTED_OUT}
    assert [(build.channel, build.user_ids) for build in planned.builds] == [("push", [2]), ("email", [1, 2])]


def test_held_recipients_have_an_outcome_and_a_delayed_part() -> None:
    planned = _plan(recheck([1, 2], channels=["push", "email"]), {"push": {1: HELD}, "email": {}})
    assert _emitted(planned) == {("push", 2): HELD}
    ((part, due_ms),) = planned.delayed
    assert (part.user_ids, part.channels, part.why, part.held) == ([2], ["push"], "quiet_hours", 1)
    assert (due_ms, part.waited_until) == (HELD.until_ms, HELD.until_ms)
    assert [(build.channel, build.user_ids) for build in planned.builds] == [("push", [1]), ("email", [1, 2])]


def test_a_single_held_recipient_keeps_the_requests_id() -> None:
    request = recheck([1])
    ((part, _),) = _plan(request, {"push": {0: HELD}}).delayed
    assert part.record_id == request.record_id


def test_unconfirmed_recipients_are_delayed_without_an_outcome() -> None:
    request = recheck([1, 2])
    planned = _plan(request, {"push": {0: UNCONFIRMED}})
    ((part, due_ms),) = planned.delayed
    assert (part.user_ids, part.why, part.waits, part.parent_id) == ([1], "directory", 1, request.record_id)
    assert due_ms > NOW
    assert _emitted(planned) == {}
    assert [build.user_ids for build in planned.builds] == [[2]]


def test_decisions_are_about_recipients_not_allowed() -> None:
    chunk = Chunk(request=recheck([1, 2, 3]))
    assert decide_recipients(chunk, _view(1, 2), NOW, LATER) == {"push": {2: UNKNOWN}}


def test_recipients_with_rows_are_decided_the_others_delayed() -> None:
    chunk = Chunk(request=recheck([1, 2]))
    view = _view(1, unconfirmed=frozenset({2}))
    assert decide_recipients(chunk, view, NOW, LATER) == {"push": {1: UNCONFIRMED}}
    assert decide_recipients(chunk, view, LATER, LATER) == {"push": {1: EXPIRED}}


def test_nothing_is_decided_while_every_row_is_missing() -> None:
    chunk, view = Chunk(request=recheck([1, 2])), _view(unconfirmed=frozenset({1, 2}))
    assert decide_recipients(chunk, view, NOW, LATER) is None
    assert decide_recipients(chunk, view, LATER, LATER) == {"push": {0: EXPIRED, 1: EXPIRED}}


def test_quiet_hours_hold_recipients_unless_critical() -> None:
    view = _view(1, quiet_hours=ALL_DAY)
    held = decide_recipients(Chunk(request=recheck([1])), view, NOW, LATER)
    assert held is not None
    assert held["push"][0].status is Status.HELD
    assert decide_recipients(Chunk(request=recheck([1]), lane=Lane.CRITICAL), view, NOW, LATER) == {"push": {}}


def test_a_recipient_held_too_often_expires() -> None:
    chunk = Chunk(request=recheck([1], held=MAX_HELD))
    decisions = decide_recipients(chunk, _view(1, quiet_hours=ALL_DAY), NOW, LATER)
    assert decisions is not None
    assert decisions["push"][0].status is Status.EXPIRED


def test_missing_rows_are_those_that_could_change_a_decision() -> None:
    assert _view(1).missing(recheck([1, 2])) == [2]
    assert _view(1).missing(recheck([1, 2], channels=["pigeon"])) == []


def test_a_chunk_before_its_send_at_is_scheduled() -> None:
    planned = plan_without_look_up(Chunk(request=recheck([1, 2]), send_at=LATER), NOW)
    assert planned is not None
    assert [(part.user_ids, due_ms) for part, due_ms in planned.delayed] == [([1, 2], LATER)]
    assert _emitted(planned) == {("push", 1): SCHEDULED, ("push", 2): SCHEDULED}


def test_a_chunk_that_expires_before_its_send_at_is_expired() -> None:
    planned = plan_without_look_up(Chunk(request=recheck([1], expires_at=LATER), send_at=LATER), NOW)
    assert planned is not None
    assert _emitted(planned) == {("push", 1): EXPIRED}
    assert planned.delayed == ()


def test_a_chunk_after_its_send_at_continues_as_the_delayed_part() -> None:
    chunk = Chunk(request=recheck([1, 2]), send_at=NOW)
    before = plan_without_look_up(chunk, NOW - 1)
    assert before is not None
    assert [part for part, _ in before.delayed] == [continue_at_send_at(chunk, NOW).request]
    assert plan_without_look_up(continue_at_send_at(chunk, NOW), NOW) is None


def test_a_long_chunk_after_its_send_at_is_forwarded_in_parts() -> None:
    chunk = Chunk(request=recheck(range(5_001), range_end=5_001), send_at=NOW)
    planned = plan_without_look_up(continue_at_send_at(chunk, NOW), NOW)
    assert planned is not None
    assert [len(part.user_ids) for part in planned.forwarded] == [5_000, 1]


@pytest.mark.parametrize(
    ("count", "chunk", "forwarded"),
    [
        (10_001, {}, [5_000, 5_000, 1]),
        (501, {"is_new": True}, [501]),
        (501, {"is_new": True, "lane": Lane.CRITICAL}, None),
        (501, {}, None),
        (500, {"is_new": True}, None),
    ],
)
def test_long_chunks_and_new_broadcasts_are_forwarded(
    count: int, chunk: dict[str, Any], forwarded: list[int] | None
) -> None:
    planned = plan_without_look_up(Chunk(request=recheck(range(count), range_end=count), **chunk), NOW)
    assert (planned and [len(part.user_ids) for part in planned.forwarded]) == forwarded


def test_a_request_without_recipients_has_an_empty_plan() -> None:
    assert plan_without_look_up(Chunk(request=recheck([])), NOW) == Plan()


def test_an_expired_request_expires_for_each_recipient() -> None:
    expired = Chunk(request=recheck([1, 2], expires_at=NOW))
    assert decide_without_look_up(expired, NOW) == {"push": {0: EXPIRED, 1: EXPIRED}}
    assert decide_without_look_up(Chunk(request=recheck([1, 2], expires_at=LATER)), NOW) is None
    assert decide_without_look_up(Chunk(request=recheck([1, 2])), NOW) is None
