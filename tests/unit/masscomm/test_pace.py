"""The pace of a send: places of minutes are taken, and recipients without one are planned behind all others."""

from collections import Counter, deque
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from masscomm.domain.pace import (
    MAX_MINUTES,
    MINUTE_MS,
    Pace,
    PaceBook,
    PaceError,
    check_pace,
    ends_late,
    is_too_slow,
    limit_of,
    plan,
    release,
    spread_ms_in,
    spread_text,
    take,
    under,
)

START = 28_333_333  # A minute.
DAY_MS = 86_400_000


def pace_of(limit: int, **values: int) -> Pace:
    return Pace(limit=limit, start_ms=START * MINUTE_MS, **values)


def spread_of(minutes: int, chunks: int, size: int) -> Pace:
    spread_ms = minutes * MINUTE_MS
    limit = limit_of(spread_ms, chunks * size)
    return pace_of(limit, spread_ms=spread_ms, chunks=chunks, chunk_size=size)


class Run:
    """Passes over the records of a send, minute by minute."""

    def __init__(self, pace: Pace, chunks: int, size: int) -> None:
        self.pace = self.own = pace
        self.book = PaceBook()
        self.waiting = {(0, chunk): list(range(size)) for chunk in range(chunks)}
        self.queue: deque[tuple[int, list[int]]] = deque()
        self.released: Counter[tuple[int, int]] = Counter()
        self.in_minute: Counter[int] = Counter()
        self.limits: dict[int, int] = {}
        self.passes = 0

    def arrive(self, minute: int) -> None:
        """Release the delayed records that are due, as the scheduler does."""
        for key in sorted(key for key in self.waiting if key[0] <= minute):
            self.queue.append((key[1], self.waiting.pop(key)))

    def process(self, minute: int, records: int | None = None) -> None:
        """Process the first records of the topic."""
        while self.queue and records != 0:
            chunk, positions = self.queue.popleft()
            due = {position: self.pace.due_minute(chunk, position) for position in positions}
            taken = take(self.book, self.pace, minute * MINUTE_MS, due)
            self.passes += 1
            self.book = taken.book
            self.limits[minute] = max(self.limits.get(minute, 0), self.book.limit)
            assert not taken.expired
            gone = set(taken.waits) | set(taken.uncounted)
            for position in positions:
                if position not in gone:
                    self.released[chunk, position] += 1
                    self.in_minute[minute] += 1
            assert len(set(taken.waits.values())) <= MAX_MINUTES
            assert all(at > minute for at in taken.waits.values())
            for position, at in taken.waits.items():
                self.waiting.setdefault((at, chunk), []).append(position)
            if taken.uncounted:
                self.queue.append((chunk, list(taken.uncounted)))
            records = None if records is None else records - 1


@pytest.mark.guarantee("pace.minute")
@given(
    st.sampled_from(["per_minute", "spread"]),
    st.integers(1, 3),
    st.integers(1, 150),
    st.integers(1, 40),
    st.lists(st.sampled_from(["run", "stop", "slow", "change"]), max_size=12),
    st.lists(st.integers(1, 60), min_size=12, max_size=12),
)
@example("per_minute", 1, 150, 1, [], [1] * 12)
def test_any_lateness_releases_each_once_within_the_limit(
    kind: str, chunks: int, size: int, number: int, moments: list[str], limits: list[int]
) -> None:
    pace = pace_of(number) if kind == "per_minute" else spread_of(number, chunks, size)
    run = Run(pace, chunks, size)
    recipients = chunks * size
    minute = START
    for turn in range(len(moments) + 6 * recipients + 200):
        moment = moments[turn] if turn < len(moments) else "run"
        minute += 1
        if moment == "change":  # The scheduler releases the waiting records at once.
            run.pace = pace_of(limits[turn], revision=turn + 1)
            run.arrive(minute + 10**6)
        if moment != "stop":
            run.arrive(minute)
            run.process(minute, 1 if moment == "slow" else None)
        if not run.waiting and not run.queue:
            break
    assert set(run.released.values()) == {1}
    assert len(run.released) == recipients
    assert all(count <= run.limits[at] for at, count in run.in_minute.items())
    # Each delay or change makes further passes over each waiting minute at most.
    assert run.passes <= (len(moments) + 3) * (recipients + chunks) + 20


def test_punctual_records_are_released_as_planned() -> None:
    run = Run(pace_of(10), 1, 95)
    for minute in range(START, START + 10):
        run.arrive(minute)
        run.process(minute)
    assert list(run.in_minute.values()) == [10] * 9 + [5]
    assert run.passes == 10


def test_spread_follows_from_positions() -> None:
    run = Run(spread_of(60, 2, 300), 2, 300)
    for minute in range(START, START + 60):
        run.arrive(minute)
        run.process(minute)
    assert list(run.in_minute.values()) == [10] * 60
    assert run.book.planned_minute == 0


@pytest.mark.kills(guard="pace.limit_of_a_minute")
def test_minute_releases_no_more_than_the_limit() -> None:
    book, first = release(PaceBook(limit=10), START, 7)
    book, second = release(book, START, 7)
    assert (first, second) == (7, 3)
    # The clock of another environment is behind.
    assert release(book, START - 1, 1)[1] == 0
    assert release(book, START + 1, 99)[1] == 10


def test_plan_continues_behind_the_planned() -> None:
    book, found = plan(PaceBook(limit=10), START, 15, last=START + 9)
    assert found == [(START, 10), (START + 1, 5)]
    book, found = plan(book, START, 8, last=START + 9)
    assert found == [(START + 1, 5), (START + 2, 3)]
    assert plan(book, START, 1_000, last=START + 3)[1] == [(START + 2, 7), (START + 3, 10)]
    assert len(plan(book, START, 10_000, last=START + 9_999)[1]) == MAX_MINUTES


def test_recipients_without_a_minute_before_the_end_expire() -> None:
    now_ms = START * MINUTE_MS
    taken = take(PaceBook(), pace_of(2), now_ms, dict.fromkeys(range(7), 0), expires_at=now_ms + 2 * MINUTE_MS)
    assert (taken.waits, taken.expired) == ({2: START + 1, 3: START + 1}, [4, 5, 6])
    late_ms = now_ms + 7 * DAY_MS
    assert take(PaceBook(), pace_of(1), late_ms, dict.fromkeys(range(3), 0)).expired == [1, 2]
    # A moved send may have minutes after its end.
    moved = spread_of(10, 1, 10)
    due = {position: moved.due_minute(0, position) for position in range(10)}
    assert take(PaceBook(), moved, now_ms, due, expires_at=now_ms + 9 * MINUTE_MS).expired == [9]


@pytest.mark.kills(guard="pace.earlier_revision")
def test_environment_with_an_earlier_pace_keeps_the_later_one() -> None:
    book = under(PaceBook(planned_minute=START + 50, planned=5), pace_of(100, revision=3))
    assert (book.limit, book.planned_minute, book.pace_revision) == (100, 0, 3)
    assert under(replace(book, planned_minute=START), pace_of(900)) == replace(book, planned_minute=START)


def test_smaller_last_record_keeps_the_limit() -> None:
    book = under(PaceBook(), spread_of(60, 2, 600))
    assert under(book, spread_of(60, 2, 6)).limit == book.limit == 20


@pytest.mark.parametrize(
    ("per_minute", "spread_ms"), [(1, MINUTE_MS), (0, None), (-1, None), (1_000_001, None), (None, 0), (None, 90_000)]
)
def test_invalid_pace_is_refused(per_minute: int | None, spread_ms: int | None) -> None:
    with pytest.raises(PaceError):
        check_pace(per_minute, spread_ms)


def test_spread_is_read_and_written() -> None:
    for text, minutes in (("90m", 90), ("2h", 120), ("1d", 1_440), ("7d", 10_080)):
        assert spread_ms_in(text) == minutes * MINUTE_MS
        check_pace(None, spread_ms_in(text))
        assert spread_text(spread_ms_in(text)) == text
    for text in ("8d", "0m", "2", "1w", " 2h", "1.5h"):
        with pytest.raises(PaceError):
            spread_ms_in(text)


def test_send_that_takes_too_long_is_recognised() -> None:
    assert not is_too_slow(1, 10_080)
    assert is_too_slow(1, 10_081)
    assert not is_too_slow(None, 10**9)
    assert ends_late(MINUTE_MS, 0, MINUTE_MS - 1)
    assert not ends_late(MINUTE_MS, 0, MINUTE_MS)
