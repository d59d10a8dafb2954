"""The tests that every store of expansions must pass, in memory and real."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from masscomm.domain.send_controls import SendKey
from masscomm.domain.send_states import SendState
from masscomm.stores.expansions import ExpandedChunk, Expansion, Expansions, ListedExpansion, Progress

NOW = 1_700_000_000_500
SEND = SendKey(7, "8a6e0804-2bd0-4672-b79d-d97027f9071a")


def chunk(*user_ids: int, before: int = 0) -> ExpandedChunk:
    return ExpandedChunk(user_ids=list(user_ids), up_to=max(user_ids, default=5), users_before=before)


class ExpansionsContract:
    """Subclasses define the fixture `expansions`, an empty store."""

    def test_recorded_chunks_are_read_in_order(self, expansions: Expansions) -> None:
        assert expansions.last(SEND) is None
        chunks = [chunk(1, 2, 9), chunk(before=3), chunk(2**62, 2**63 - 1, before=3)]
        for index, each in enumerate(chunks):
            assert expansions.record(SEND, index, each, now_ms=NOW) == each
            assert expansions.last(SEND) == (index, each)
        assert list(expansions.chunks(SEND, 0, 3)) == chunks
        assert list(expansions.chunks(SEND, 1, 2)) == [chunks[1]]
        assert list(expansions.chunks(SEND, 3, 3)) == []

    def test_last_of_many_chunks_is_the_highest(self, expansions: Expansions) -> None:
        for index in range(12):
            expansions.record(SEND, index, chunk(index + 1, before=index), now_ms=NOW)
        assert expansions.last(SEND) == (11, chunk(12, before=11))

    @pytest.mark.kills(guard="audiences.recorded_chunk")
    def test_first_chunk_of_an_index_is_kept(self, expansions: Expansions) -> None:
        first = chunk(1, 2)
        expansions.record(SEND, 0, first, now_ms=NOW)
        assert expansions.record(SEND, 0, chunk(1, 3), now_ms=NOW) == first
        assert expansions.record(SEND, 0, first, now_ms=NOW) == first
        assert list(expansions.chunks(SEND, 0, 1)) == [first]

    def test_chunks_with_users_are_counted(self, expansions: Expansions) -> None:
        """Those after the end belong to another invocation, which read the directory at another time."""
        chunks = [chunk(), chunk(1, 2), chunk(before=2), chunk(3, before=2), chunk(4, before=3)]
        for index, each in enumerate(chunks):
            expansions.record(SEND, index, each, now_ms=NOW)
        counted = [
            expansions.records(Expansion(send=SEND, chunks=end, users=chunks[end - 1].users, requested=0))
            for end in range(1, 6)
        ]
        assert counted == [0, 1, 1, 2, 3]

    def test_latest_progress_is_read(self, expansions: Expansions) -> None:
        assert expansions.progress(SEND) == Progress()
        for progress in (Progress(share=1), Progress(share=1, chunks=51, records=50, record_count=90)):
            expansions.advance(SEND, progress, now_ms=NOW)
            assert expansions.progress(SEND) == progress
        assert (expansions.find(SEND), expansions.last(SEND)) == (None, None)
        assert expansions.progress(SendKey(8, SEND.send_id)) == Progress()

    def test_first_end_is_kept(self, expansions: Expansions) -> None:
        assert expansions.find(SEND) is None
        ended = Expansion(send=SEND, chunks=2, users=3, requested=6)
        assert expansions.end(ended, now_ms=NOW) == ended
        assert expansions.end(Expansion(send=SEND, chunks=9, users=9, requested=9, error="x"), now_ms=NOW) == ended
        assert expansions.find(SEND) == ended

    def test_error_is_kept(self, expansions: Expansions) -> None:
        failed = Expansion(send=SEND, chunks=0, users=0, requested=0, error="the audience is invalid")
        expansions.end(failed, now_ms=NOW)
        assert expansions.find(SEND) == failed

    def test_expansions_are_those_of_a_tenant_and_a_send(self, expansions: Expansions) -> None:
        expansions.record(SEND, 0, chunk(1), now_ms=NOW)
        expansions.end(Expansion(send=SEND, chunks=1, users=1, requested=1), now_ms=NOW)
        for other in (SendKey(8, SEND.send_id), SendKey(7, "other")):
            assert (expansions.last(other), expansions.find(other)) == (None, None)

    def test_largest_chunk_fits(self, expansions: Expansions) -> None:
        step = 2**63 // 5_001
        largest = chunk(*(step * number + number * number % 9_973 for number in range(1, 5_001)))
        expansions.record(SEND, 0, largest, now_ms=NOW)
        assert expansions.last(SEND) == (0, largest)

    def test_sends_of_a_club_are_listed_latest_first(self, expansions: Expansions) -> None:
        """Those of other clubs are not, nor is one whose chunks are counted."""
        listed = [
            ListedExpansion(
                send=SendKey(club_id, f"s{number}"),
                requested_at_ms=NOW + number,
                type="news",
                state=SendState.EXPANDING,
            )
            for club_id, number in ((7, 0), (7, 1), (7, 2), (77, 0), (8, 3))
        ]
        for each in listed:
            expansions.enlist(each, now_ms=NOW)
        failed = replace(listed[1], state=SendState.FAILED)
        expansions.enlist(failed, now_ms=NOW)
        assert list(expansions.listed(7, before_ms=NOW + 9)) == [listed[2], failed, listed[0]]
        assert list(expansions.listed(7, before_ms=NOW + 2)) == [failed, listed[0]]
        for _ in range(2):
            expansions.strike(listed[0])
        assert list(expansions.listed(7, before_ms=NOW + 1)) == []
        assert expansions.find(SendKey(7, "s1")) is None

    def test_many_sends_of_a_club_are_listed(self, expansions: Expansions) -> None:
        """More than one answer of DynamoDB, which has at most 1 MB."""
        for number in range(30):
            expansions.enlist(
                ListedExpansion(
                    send=SendKey(7, f"s{number}"), requested_at_ms=NOW, type="n" * 50_000, state=SendState.ENDED
                ),
                now_ms=NOW,
            )
        assert len(list(expansions.listed(7, before_ms=NOW + 1))) == 30


class ConcurrentExpansionsContract:
    def test_of_concurrent_chunks_one_is_kept(self, expansions: Expansions) -> None:
        with ThreadPoolExecutor(8) as pool:
            stored = list(pool.map(lambda n: expansions.record(SEND, 0, chunk(n), now_ms=NOW), range(1, 9)))
        assert all(each == stored[0] for each in stored)
