"""Two accounts of a notification become one, whatever their order."""

import itertools
import random
from array import array
from collections import Counter

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from masscomm.statuses import RANK, Reason, Status, merge
from spark_metrics.states import BLOCK, REASONS, blocks_of, code_of, merged, restored, stored, told

KEY = ("s", 0, "push", 0)


def test_every_status_and_reason_has_a_code_of_its_own_and_an_unknown_reason_is_other(spark: SparkSession) -> None:
    assert {reason.value for reason in Reason} <= set(REASONS)
    pairs = [(status.value, reason) for status in Status for reason in (*REASONS, "a new one")]
    frame = spark.createDataFrame([*pairs, ("nonsense", "")], "status string, reason string")
    rows = frame.select("status", "reason", code_of(F.col("status"), F.col("reason")).alias("code")).collect()
    codes = {(row["status"], row["reason"]): row["code"] for row in rows}
    assert codes.pop(("nonsense", "")) is None
    assert len(set(codes.values())) == len(pairs)
    assert max(codes.values()) < 2**16
    for (status, reason), code in codes.items():
        assert told(code) == (status, "other" if reason == "a new one" else reason)


def test_the_numbers_of_reasons_never_change() -> None:
    """They stand in stored blocks."""
    assert REASONS[:14] == (
        *("", "opted_out", "unknown_user", "other_tenant", "no_device", "no_address", "device_inactive"),
        *("no_template", "template_error", "provider_rejected", "dead_letter", "unknown_channel", "too_large"),
        "expired",
    )


def code(status: Status) -> int:
    return (RANK[status] + 1) * 256


def block_of(placed: list[int]) -> array[int]:
    return blocks_of([0, *placed])[0]


def test_the_higher_of_two_codes_is_the_merge_of_the_statuses() -> None:
    codes = {status: code(status) for status in Status}
    for a, b in itertools.product(Status, Status):
        assert told(max(codes[a], codes[b]))[0] == merge(a, b)


def test_moves_add_up_to_what_the_blocks_hold_in_any_order() -> None:
    rng = random.Random(7)  # noqa: S311
    codes = [code(status) for status in Status]
    accounts = [[rng.randrange(BLOCK) << 16 | rng.choice(codes) for _ in range(200)] for _ in range(6)]
    ends = []
    for order in (accounts, accounts[::-1], [*accounts, *accounts]):
        known, totals = {KEY: block_of([])}, Counter[tuple[str, str, str, str]]()
        for account in order:
            blocks, moves = merged(known, {KEY: block_of(account)})
            totals.update(moves)
            known = {KEY: restored(stored(blocks[KEY]))}
        held = Counter(("s", "push", *told(c)) for c in known[KEY] if c)
        assert +totals == held
        ends.append(held)
    assert ends[0] == ends[1] == ends[2]


def test_a_block_is_stored_without_what_is_unknown_at_its_end() -> None:
    block = block_of([3 << 16 | 51 * 256])
    assert len(stored(block)) == 8
    assert restored(stored(block)) == block
    assert stored(block_of([])) == b""


def test_positions_fall_into_blocks() -> None:
    blocks = blocks_of([(BLOCK - 1) << 16 | 5, BLOCK << 16 | 6, BLOCK << 16 | 4])
    assert {number: [c for c in codes if c] for number, codes in blocks.items()} == {0: [5], 1: [6]}
    assert blocks[1][0] == 6
