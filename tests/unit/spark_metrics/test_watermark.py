"""The watermark advances only to consumed offsets."""

from spark_metrics.common.broker import Ends
from spark_metrics.counting.status import Watermark

A, B = ("send.api", 0), ("outcome", 0)


def ends(a: int, b: int, *, first: int = 0) -> Ends:
    return Ends({A: first, B: first}, {A: a, B: b})


def test_an_idle_stream_is_counted_up_to_now() -> None:
    watermark = Watermark()
    assert watermark.look(1000, ends(5, 7), {A: 5, B: 7}) == 0
    assert watermark.ms == 1000


def test_empty_topics_do_not_hold_the_watermark_back() -> None:
    watermark = Watermark()
    assert watermark.look(1000, ends(0, 7), {B: 7}) == 0
    assert watermark.ms == 1000


def test_offsets_deleted_by_retention_are_not_awaited() -> None:
    watermark = Watermark()
    assert watermark.look(1000, ends(90, 90, first=90), {A: 40}) == 0
    assert watermark.ms == 1000


def test_watermark_waits_only_for_the_first_seen_ends() -> None:
    watermark = Watermark()
    assert watermark.look(1000, ends(5, 7), {A: 5, B: 4}) == 3
    assert watermark.ms is None
    assert watermark.look(2000, ends(9, 12), {A: 5, B: 6}) == 10
    assert watermark.ms is None
    assert watermark.look(3000, ends(20, 20), {A: 5, B: 7}) == 28
    assert watermark.ms == 1000


def test_one_lagging_partition_holds_the_watermark_back() -> None:
    watermark = Watermark()
    watermark.look(1000, ends(5, 7), {A: 500, B: 6})
    watermark.look(2000, ends(5, 8), {A: 500, B: 6})
    assert watermark.ms is None
