"""Merges the statuses of notifications into send_states, and their changes into send_totals."""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from masscomm.domain.notification_codes import BlockKey, StateEntry, blocks_of, merged, restored, stored
from spark_metrics.sql import read_sql

# Send id, chunk index, channel.
type Chunk = tuple[str, int, str]


def merge(connection: psycopg.Connection[Any], chunks: Mapping[Chunk, Sequence[StateEntry]]) -> None:
    """Merge the states of chunks. A notification moves from its earlier total to its new one."""
    given: dict[BlockKey, array[int]] = {
        (*key, block): codes for key, entries in chunks.items() for block, codes in blocks_of(entries).items()
    }
    if not given:
        return
    with connection.cursor(binary=True) as cursor:
        keys = [list(column) for column in zip(*given, strict=True)]
        known = {tuple(key): restored(raw) for *key, raw in cursor.execute(read_sql("known_states"), keys)}
        blocks, moves = merged(known, given)
        if blocks:
            changed = [list(column) for column in zip(*blocks, strict=True)]
            cursor.execute(read_sql("store_states"), [*changed, [stored(block) for block in blocks.values()]])
        if moves:
            cursor.execute(
                read_sql("merge_totals"), [*(list(c) for c in zip(*moves, strict=True)), list(moves.values())]
            )
            if emptied := {send_id for (send_id, *_), n in moves.items() if n < 0}:
                cursor.execute("delete from send_totals where count_total = 0 and send_id = any(%s)", [list(emptied)])
