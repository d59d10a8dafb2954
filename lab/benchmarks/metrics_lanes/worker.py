"""Counts batches of records in lanes on one database, each lane in a process of its own, as executors do.

The checkout is the one that PYTHONPATH names, so that the same file measures checkouts of any age. It reads a line of
JSON for each round from its standard input, and answers with a line.
"""

import json
import multiprocessing
import os
import struct
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4
from zlib import crc32

from spark_metrics.common.database import connect
from spark_metrics.counting import lane_merge
from spark_metrics.counting.sink import PostgresSink
from spark_metrics.counting.views import load_views

_USERS = 500
# Earlier checkouts count no latencies.
_HAS_LATENCIES = "due_ms" in lane_merge.LaneRow._fields


def records(load: dict[str, Any], began_s: int) -> list[list[dict[str, Any]]]:
    """Return two batches: the requests of all sends, and what became of them."""
    batches: list[list[dict[str, Any]]] = [[], []]
    for number in range(load["sends"]):
        one = {"send_id": str(uuid4()), "club_id": number % load["tenants"], "at_ms": began_s * 1000}
        users = load["users"]
        chunks = -(-users // _USERS)
        for chunk in range(chunks):
            some = min(_USERS, users - chunk * _USERS)
            counted = one | {"chunk": chunk, "chunks": chunks, "total": some}
            batches[0].append(counted | {"topic": "send.api", "measure": "requested"})
            batches[1].append(counted | {"topic": "delivery", "measure": "queued"})
            batches[1].append(counted | {"topic": "outcome", "measure": "sent"})
    return batches


def row_of(record: dict[str, Any], offset: int, lanes: int) -> tuple[Any, ...]:
    hashed = crc32(record["send_id"].encode())
    run = struct.pack("!q", record["total"]) if record["topic"] == "outcome" else None
    return lane_merge.LaneRow(
        hashed % lanes,
        hashed,
        record["topic"],
        0,
        offset,
        1,
        record_id=uuid4().bytes,
        send_id=record["send_id"],
        club_id=record["club_id"],
        type="news",
        at_ms=record["at_ms"],
        chunk_index=record["chunk"],
        chunk_count=record["chunks"] if record["topic"] == "send.api" else None,
        channel="push",
        measure=record["measure"],
        total=record["total"],
        run=run,
        users=",".join(str(number) for number in range(record["total"])) if run else None,
        only=0 if run else None,
        **({"due_ms": record["at_ms"] - 300 - hashed % 4_000} if run and _HAS_LATENCIES else {}),
    )


def lane(plan: lane_merge.Plan, rows: list[tuple[Any, ...]]) -> lane_merge.LaneResult:
    (result,) = lane_merge.run_lane(plan, rows)
    assert (result.rejected, result.records) == (None, len(rows)), result
    return result


class LockWaits(threading.Thread):
    """Samples which transactions of lanes wait for a lock."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._connection = connect(url, "samples")
        self.stopped = threading.Event()
        self.samples: Counter[bool] = Counter()

    def run(self) -> None:
        while not self.stopped.wait(0.005):
            self.samples.update(
                waits
                for (waits,) in self._connection.execute(
                    "select coalesce(wait_event_type = 'Lock', false) from pg_stat_activity"
                    " where application_name = 'spark_metrics lane' and datname = current_database()"
                    " and state <> 'idle' and coalesce(wait_event_type, '') <> 'Client'"
                )
            )
        self._connection.close()


def main() -> None:
    url, lanes = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sink = PostgresSink(url, recipients=True, views=load_views(()))
    sink.take_over()
    ends = Counter(sink.next_offsets())
    with multiprocessing.get_context("fork").Pool(lanes) as pool:
        for line in sys.stdin:
            load = json.loads(line)
            batches = []
            for batch in records(load, int(datetime.now(UTC).timestamp())):
                rows: dict[int, list[tuple[Any, ...]]] = {}
                for record in batch:
                    place = record["topic"], 0
                    row = row_of(record, ends[place], lanes)
                    rows.setdefault(row[0], []).append(row)
                    ends[place] += 1
                batches.append(rows)
            waits = LockWaits(url)
            waits.start()
            began = time.monotonic()
            for rows in batches:
                plan = sink.begin(lanes)
                sink.complete(pool.map(partial(lane, plan), rows.values(), chunksize=1), batch_id=0)
            took = time.monotonic() - began
            waits.stopped.set()
            waits.join()
            number = sum(len(rows) for batch in batches for rows in batch.values())
            found = {"records": number, "seconds": took, "waiting": waits.samples[True], "busy": waits.samples[False]}
            answers.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
