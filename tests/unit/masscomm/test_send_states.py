"""The states of a send; tests/component/sends_api/test_send_list.py compares them with the list's SQL."""

from dataclasses import replace

import pytest

from masscomm.domain.send_states import BY_COUNTS, FINAL, SendCounts, SendState, send_state, states_by_counts
from masscomm.domain.sends import Expansion, Send, SendKey, Source, controlled

NOW = 1_700_000_000_000
SEND = Send(key=SendKey(7, "s"), source=Source.REST, requested_at_ms=NOW)


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
    assert send_state(SEND, found, NOW) is expected


@pytest.mark.parametrize("found", [None, counts(), counts(scheduled=2), counts(sent=1), counts(sent=2)])
def test_a_control_changes_every_state_but_final_ones(found: SendCounts | None) -> None:
    plain = send_state(SEND, found, NOW)
    final = plain in FINAL
    assert send_state(controlled(SEND, paused_at_ms=NOW), found, NOW) is (plain if final else SendState.PAUSED)
    assert send_state(controlled(SEND, paused_at_ms=NOW, cancelled_at_ms=NOW), found, NOW) is (
        plain if final else SendState.CANCELLING
    )


def test_a_send_to_an_audience_is_expanding_or_failed() -> None:
    send = replace(SEND, is_to_audience=True)
    ended = Expansion(chunks=0, users=0, requested=0, ended_at_ms=NOW)
    failed = replace(send, expansion=replace(ended, error="why"))
    assert send_state(send, None, NOW) is SendState.EXPANDING
    assert send_state(controlled(send, paused_at_ms=NOW), None, NOW) is SendState.PAUSED
    assert send_state(controlled(failed, cancelled_at_ms=NOW), None, NOW) is SendState.FAILED
    assert send_state(failed, counts(), NOW) is SendState.FAILED
    assert send_state(replace(send, expansion=ended), None, NOW) is SendState.ENDED


def test_an_uncounted_send_waits_for_its_time() -> None:
    later = replace(SEND, send_at_ms=NOW + 1)
    assert send_state(later, None, NOW) is SendState.SCHEDULED
    assert send_state(later, None, NOW + 1) is SendState.ACCEPTED
    assert send_state(controlled(later, send_at_ms=NOW + 9), None, NOW + 1) is SendState.SCHEDULED


def test_controlled_states_cover_every_unfinished_state() -> None:
    assert states_by_counts([]) == ()
    assert states_by_counts([SendState.ENDED]) == (SendState.ENDED,)
    assert states_by_counts([SendState.PAUSED, SendState.ENDED]) == (
        *(SendState.ACCEPTED, SendState.ENDED, SendState.EXPANDING),
        *(SendState.IN_PROGRESS, SendState.SCHEDULED),
    )
    assert states_by_counts([SendState.FAILED]) == tuple(sorted({*BY_COUNTS, SendState.FAILED}))
