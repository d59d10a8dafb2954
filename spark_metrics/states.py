"""What is known of each notification, two bytes each, and how two accounts of one become one.

A code is 256 times the status' rank (one more than masscomm.statuses.RANK, so that 0 says "nothing known") and the
reason's number. The merge of two codes is the higher one: that is masscomm.statuses.merge, and between two reasons of
one status the higher number stays, so that the order in which records come never matters.

A block is the codes of BLOCK consecutive positions of one chunk on one channel; docs/decisions/024 says what it costs.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from masscomm.statuses import RANK, Status

BLOCK = 512
OTHER = "other"

# The numbers stand in stored blocks: add at the end only. A reason that is not here is told as `other`.
REASONS = (
    "",
    *("opted_out", "unknown_user", "other_tenant", "no_device", "no_address", "device_inactive"),
    *("no_template", "template_error", "provider_rejected", "dead_letter", "unknown_channel", "too_large"),
    "expired",
    *("address_suppressed", "bounced_permanent", "bounced_transient", "complained"),
)
_OTHER = 255
_RANKS = {status: RANK[status] + 1 for status in Status}
_STATUS_OF = {rank: status for status, rank in _RANKS.items()}

# Send id, chunk index, channel, block.
type BlockKey = tuple[str, int, str, int]
# {(send_id, channel, status, reason): how many more, or fewer}
type Moves = Counter[tuple[str, str, str, str]]


def code_of(status: Column, reason: Column) -> Column:
    """The code of a status and a reason; null where the status is not of the vocabulary."""
    rank = F.lit(None).cast("int")
    for name, number in _RANKS.items():
        rank = F.when(status == name.value, F.lit(number)).otherwise(rank)
    why = F.lit(_OTHER)
    for number, text in enumerate(REASONS):
        why = F.when(F.coalesce(reason, F.lit("")) == text, F.lit(number)).otherwise(why)
    return rank * 256 + why


def told(code: int) -> tuple[str, str]:
    """The status and reason of a code above 0."""
    number = code % 256
    return _STATUS_OF[code // 256].value, REASONS[number] if number < len(REASONS) else OTHER


def blocks_of(placed: Iterable[int]) -> dict[int, array[int]]:
    """{block: codes} of what Spark tells of a chunk: position * 65,536 + code, in any order and number."""
    blocks: dict[int, array[int]] = {}
    for entry in placed:
        number, place = divmod(entry >> 16, BLOCK)
        block = blocks.get(number)
        if block is None:
            block = blocks[number] = array("H", bytes(2 * BLOCK))
        code = entry & 0xFFFF
        if code > block[place]:
            block[place] = code
    return blocks


def stored(block: array[int]) -> bytes:
    """A block as it is stored: little-endian, without what is unknown at its end."""
    raw = block.tobytes().rstrip(b"\0")
    return raw + bytes(len(raw) % 2)


def restored(raw: bytes) -> array[int]:
    """A block of its stored form."""
    return array("H", raw + bytes(2 * BLOCK - len(raw)))


def merged(
    known: Mapping[BlockKey, array[int]], told_now: Mapping[BlockKey, array[int]]
) -> tuple[dict[BlockKey, array[int]], Moves]:
    """The blocks after the merge, and what it moves in the sends' totals: -old, +new."""
    blocks: dict[BlockKey, array[int]] = {}
    moves: Moves = Counter()
    for key, new in told_now.items():
        send_id, _, channel, _ = key
        old = known.get(key)
        blocks[key] = new if old is None else array("H", map(max, old, new))
        changes = Counter(blocks[key])
        if old is not None:
            changes.subtract(old)
        for code, n in changes.items():
            if code and n:
                moves[send_id, channel, *told(code)] += n
    return blocks, Counter({key: n for key, n in moves.items() if n})
