"""Reads from Spark's event log how long the tasks of each batch ran."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Options of spark-submit that write the event log to a folder.
EVENT_LOG = (
    "--conf spark.eventLog.enabled=true --conf spark.eventLog.dir=file:{folder} --conf spark.eventLog.compress=false"
    " --conf spark.eventLog.rolling.enabled=false"
)


@dataclass(frozen=True)
class BatchTimes:
    """The parts of a batch's time.

    Attributes:
        all_s: From the end of the batch before it to its end.
        driver_s: The time in which no task ran.
        task_s: The sum of the tasks' times.
        longest_s: The longest task of the last stage, which has a backend of Postgres.
    """

    records: int
    all_s: float
    driver_s: float
    task_s: float
    longest_s: float


def batch_times(folder: Path, batches: Sequence[tuple[int, float, float]]) -> list[BatchTimes]:
    """Return the times of batches.

    Args:
        folder: The folder of the event log.
        batches: (number of records, begin and end in seconds since the epoch).
    """
    tasks = []
    (log,) = folder.glob("local-*")
    for line in log.read_text().splitlines():
        if '"SparkListenerTaskEnd"' in line:
            event = json.loads(line)
            info = event["Task Info"]
            times = info["Launch Time"] / 1000, info["Finish Time"] / 1000
            tasks.append((*times, event["Task Type"] == "ResultTask"))
    return [_times_of(batch, sorted(tasks)) for batch in batches]


def _times_of(batch: tuple[int, float, float], tasks: Sequence[tuple[float, float, bool]]) -> BatchTimes:
    records, began, ended = batch
    own = [task for task in tasks if began <= task[0] and task[1] <= ended]
    busy, until = 0.0, began
    for first, last, _ in own:
        busy += max(0.0, last - max(first, until))
        until = max(until, last)
    lanes = [last - first for first, last, is_lane in own if is_lane]
    return BatchTimes(
        records, ended - began, ended - began - busy, sum(last - first for first, last, _ in own), max(lanes)
    )
