"""Two states of a notification are merged into one, in any order."""

import itertools
import json
import random
import struct
from array import array
from collections import Counter

from masscomm.domain.notification_codes import (
    BLOCK,
    REASONS,
    RUN,
    StateEntry,
    blocks_of,
    code_of,
    merged,
    restored,
    status_of,
    stored,
)
from masscomm.domain.statuses import RANK, Reason, Status, merge

KEY = ("s", 0, "push", 0)


def test_each_status_and_reason_has_its_own_code() -> None:
    """A reason that this version does not know has the code of "other"."""
    assert {reason.value for reason in Reason} <= set(REASONS)
    pairs = [(status.value, reason) for status in Status for reason in (*REASONS, "a new one")]
    codes = {(status, reason): code_of(status, reason) for status, reason in pairs}
    assert code_of("nonsense", "") == 0
    assert code_of("sent", None) == codes["sent", ""]
    assert len(set(codes.values())) == len(pairs)
    # Merging two blocks of 16-bit codes needs the top bit.
    assert max(codes.values()) < 2**15
    for (status, reason), code in codes.items():
        assert status_of(code) == (status, "other" if reason == "a new one" else reason)


def test_reason_numbers_never_change() -> None:
    """Stored blocks contain the numbers, so a changed number would change their reasons."""
    assert REASONS[:13] == (
        *("", "opted_out", "unknown_user", "no_device", "no_address", "device_inactive"),
        *("no_template", "template_error", "provider_rejected", "dead_letter", "unknown_channel", "too_large"),
        "expired",
    )


def code(status: Status) -> int:
    return (RANK[status] + 1) * 256


def listed(*placed: tuple[int, Status]) -> StateEntry:
    statuses = [status.value for _, status in placed]
    return (
        "sent",
        None,
        None,
        json.dumps(
            {
                "positions": [position for position, _ in placed],
                "index": list(range(len(placed))),
                "statuses": statuses,
                "reasons": [None] * len(placed),
            }
        ),
    )


def runs(status: Status, *runs: tuple[int, int]) -> StateEntry:
    """Return the state entry of these runs of positions, each as (first, number)."""
    return status.value, None, b"".join(struct.pack("!q", first * RUN + n) for first, n in runs), None


def block_of(*entries: StateEntry) -> array[int]:
    return blocks_of([*entries]).get(0, array("H", bytes(2 * BLOCK)))


def test_the_higher_of_two_codes_is_the_merge_of_the_statuses() -> None:
    codes = {status: code(status) for status in Status}
    for a, b in itertools.product(Status, Status):
        assert status_of(max(codes[a], codes[b]))[0] == merge(a, b)


def test_moves_in_any_order_add_up_to_the_blocks() -> None:
    rng = random.Random(7)  # noqa: S311
    statuses = list(Status)
    accounts = [
        [
            listed(*((rng.randrange(BLOCK), rng.choice(statuses)) for _ in range(200))),
            *(runs(rng.choice(statuses), (rng.randrange(400), rng.randrange(1, 100))) for _ in range(5)),
        ]
        for _ in range(6)
    ]
    ends = []
    for order in (accounts, accounts[::-1], [*accounts, *accounts]):
        known, totals = {KEY: block_of()}, Counter[tuple[str, str, str, str]]()
        for account in order:
            blocks, moves = merged(known, {KEY: block_of(*account)})
            totals.update(moves)
            if blocks:
                known = {KEY: restored(stored(blocks[KEY]))}
        held = Counter(("s", "push", *status_of(c)) for c in known[KEY] if c)
        assert +totals == held
        ends.append(held)
    assert ends[0] == ends[1] == ends[2]


def test_block_is_stored_without_trailing_unknown_positions() -> None:
    block = block_of(listed((3, Status.SENT)))
    assert len(stored(block)) == 8
    assert restored(stored(block)) == block
    assert stored(block_of()) == b""


def test_positions_fall_into_blocks() -> None:
    last = BLOCK - 1
    blocks = blocks_of([listed((last, Status.HELD), (BLOCK, Status.SENT), (BLOCK, Status.HELD))])
    assert {n: [c for c in codes if c] for n, codes in blocks.items()} == {
        0: [code(Status.HELD)],
        1: [code(Status.SENT)],
    }
    assert blocks[1][0] == code(Status.SENT)


def test_run_of_positions_equals_the_listed_positions() -> None:
    rng = random.Random(11)  # noqa: S311
    for _ in range(50):
        status = rng.choice(list(Status))
        several = [(rng.randrange(3 * BLOCK), rng.randrange(1, 2 * BLOCK)) for _ in range(rng.randrange(1, 6))]
        each = [(position, status) for first, n in several for position in range(first, first + n)]
        assert blocks_of([runs(status, *several)]) == blocks_of([listed(*each)])


def test_invalid_result_or_position_is_ignored() -> None:
    nowhere = {"positions": [-1, 0, 1, 2], "index": [0, 1, -1, 0], "statuses": ["sent"], "reasons": [None]}
    blocks = blocks_of(
        [("sent", None, None, json.dumps(nowhere)), ("nonsense", None, struct.pack("!q", RUN + 3), None)]
    )
    assert {n: {p for p, c in enumerate(codes) if c} for n, codes in blocks.items()} == {0: {2}}


def test_merge_keeps_the_higher_code_of_each_position() -> None:
    """Blocks are compared by one subtraction; the top bit keeps a borrow from reaching the next position."""
    rng = random.Random(20261121)  # noqa: S311
    some = [0, *(code_of(status.value, reason) for status in Status for reason in (None, "opted_out", "a new one"))]
    for _ in range(50):
        old, new = (array("H", rng.choices(some, k=BLOCK)) for _ in range(2))
        blocks, _ = merged({KEY: old}, {KEY: new})
        assert blocks[KEY] == array("H", map(max, old, new))


def test_lower_codes_change_nothing() -> None:
    block = array("H", [code(Status.SENT)] * BLOCK)
    assert merged({KEY: block}, {KEY: array("H", [code(Status.HELD)] * BLOCK)}) == ({}, {})
