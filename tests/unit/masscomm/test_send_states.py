"""The states of a send; tests/component/sends_api/test_send_list.py compares them with the list's SQL."""

import pytest

from masscomm.domain.send_states import FINAL, SendCounts, SendState, send_state, states_by_counts


def counts(requested: int = 2, chunks: int = 1, queued: int = 0, **by_status: int) -> SendCounts:
    return SendCounts(chunk_count=1, chunks=chunks, requested=requested, queued=queued, by_status=by_status)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, SendState.ACCEPTED),
        (counts(), SendState.ACCEPTED),
        (counts(scheduled=2), SendState.SCHEDULED),
        (counts(scheduled=1, suppressed=1), SendState.SCHEDULED),
        (counts(scheduled=1, held=1), SendState.IN_PROGRESS),
        (counts(scheduled=1, sent=1, queued=1), SendState.IN_PROGRESS),
        (counts(queued=1), SendState.IN_PROGRESS),
        (counts(sent=2, chunks=0), SendState.IN_PROGRESS),
        (counts(sent=2), SendState.ENDED),
        (counts(sent=1, cancelled=1), SendState.CANCELLED),
        (counts(requested=0), SendState.ENDED),
    ],
)
def test_state_follows_from_counts(found: SendCounts | None, expected: SendState) -> None:
    assert send_state(found) is expected


@pytest.mark.parametrize("found", [None, counts(), counts(scheduled=2), counts(sent=1), counts(sent=2)])
def test_a_control_changes_every_state_but_final_ones(found: SendCounts | None) -> None:
    plain = send_state(found)
    final = plain in FINAL
    assert send_state(found, paused=True) is (plain if final else SendState.PAUSED)
    assert send_state(found, paused=True, cancelled=True) is (plain if final else SendState.CANCELLING)


def test_a_send_to_an_audience_is_expanding_or_failed() -> None:
    assert send_state(None, expanding=True) is SendState.EXPANDING
    assert send_state(None, expanding=True, paused=True) is SendState.PAUSED
    assert send_state(None, failed=True, cancelled=True) is SendState.FAILED


def test_controlled_states_cover_every_unfinished_state() -> None:
    assert states_by_counts([]) == ()
    assert states_by_counts([SendState.ENDED]) == (SendState.ENDED,)
    assert states_by_counts([SendState.PAUSED, SendState.ENDED]) == (
        *(SendState.ACCEPTED, SendState.ENDED, SendState.EXPANDING),
        *(SendState.IN_PROGRESS, SendState.SCHEDULED),
    )
