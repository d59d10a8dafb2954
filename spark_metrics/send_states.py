"""Merges the statuses of notifications into send_states, and their changes into send_totals."""

from array import array
from collections import defaultdict
from typing import Any, cast

import psycopg

from spark_metrics.sql import read_sql
from spark_metrics.states import BlockKey, StateEntry, blocks_of, merged, restored, stored


def merge(connection: psycopg.Connection[Any], attempt: int) -> None:
    """Merge the staged states of an attempt. A notification moves from its earlier total to its new one."""
    chunks: defaultdict[tuple[str, int, str], list[StateEntry]] = defaultdict(list)
    with connection.cursor(binary=True) as cursor:
        for send_id, chunk_index, channel, *entry in cursor.execute(read_sql("staged_states"), [attempt]):
            chunks[send_id, chunk_index, channel].append(cast("StateEntry", tuple(entry)))
        staged: dict[BlockKey, array[int]] = {
            (*key, block): codes for key, entries in chunks.items() for block, codes in blocks_of(entries).items()
        }
        if not staged:
            return
        keys = [list(column) for column in zip(*staged, strict=True)]
        known = {tuple(key): restored(raw) for *key, raw in cursor.execute(read_sql("known_states"), keys)}
        blocks, moves = merged(known, staged)
        if blocks:
            changed = [list(column) for column in zip(*blocks, strict=True)]
            cursor.execute(read_sql("store_states"), [*changed, [stored(block) for block in blocks.values()]])
        if moves:
            cursor.execute(
                read_sql("merge_totals"), [*(list(c) for c in zip(*moves, strict=True)), list(moves.values())]
            )
            if emptied := {send_id for (send_id, *_), n in moves.items() if n < 0}:
                cursor.execute("delete from send_totals where count_total = 0 and send_id = any(%s)", [list(emptied)])
