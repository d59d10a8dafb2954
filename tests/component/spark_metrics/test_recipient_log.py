"""The log of recipients, as the lanes write it."""

from collections.abc import Iterator, Sequence

import pytest

from spark_metrics.counting.lane_merge import LaneRow, run_lane
from spark_metrics.counting.sink import PostgresSink

type User = int | None


@pytest.fixture
def sink(database: str) -> Iterator[PostgresSink]:
    sink = PostgresSink(database, recipients=True)
    sink.take_over()
    yield sink
    sink.close()


def outcome(send_id: str, users: Sequence[User], index: Sequence[int | None]) -> LaneRow:
    """Return an outcome with the results sent and suppressed."""
    return LaneRow(
        lane=0,
        hash=0,
        topic="outcome",
        partition=0,
        kafka_offset=ord(send_id),
        record_id=send_id.encode() * 16,
        send_id=send_id,
        club_id=7,
        type="news",
        at_ms=5,
        several=[["push", "push"], ["sent", "suppressed"], [None, "opted_out"], ["2", "1"]],
        listed='{"positions": [], "index": [], "statuses": [], "reasons": []}',
        user_ids=users,
        result_index=index,
    )


def logged(sink: PostgresSink, *rows: LaneRow) -> list[tuple[object, ...]]:
    plan = sink.begin(1)
    sink.complete(list(run_lane(plan, rows)), batch_id=0)
    found = "select send_id, user_id, status, reason from recipient_log order by 1, 3, 2"
    return sink.connected().execute(found).fetchall()


def test_each_user_is_listed_under_their_result(sink: PostgresSink) -> None:
    assert logged(sink, outcome("a", [30, -(2**63), 10], [0, 1, 0]), outcome("b", [2**63 - 1], [0])) == [
        ("a", 10, "sent", ""),
        ("a", 30, "sent", ""),
        ("a", -(2**63), "suppressed", "opted_out"),
        ("b", 2**63 - 1, "sent", ""),
    ]


def test_position_without_user_or_result_is_ignored(sink: PostgresSink) -> None:
    rows = [outcome("a", [1, 2, 3, 4, None], [0, 9, -1, None, 0]), outcome("b", [1], [0, 0]), outcome("c", [], [])]
    assert logged(sink, *rows) == [("a", 1, "sent", ""), ("b", 1, "sent", "")]
