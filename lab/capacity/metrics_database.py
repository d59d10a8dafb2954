"""The metrics database under a load: its disk, its log (WAL) and its processor.

`python -m lab.benchmarks.metrics_lanes --bytes` renews metrics_bytes.json.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from infra.cdk.config import Environment
from masscomm.domain.time_limits import (
    COUNTED_IDS_KEPT_S,
    SEND_CHANGES_KEPT_DAYS,
    SENDS_KEPT_DAYS,
    SMALL_SENDS_KEPT_DAYS,
)

FILE = Path(__file__).with_name("metrics_bytes.json")
DAY_S = 86_400
_OF_SENDS = ("sends", "send_channels", "send_totals", "send_states")


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What Postgres takes for a single send, or for a recipient of a broadcast.

    Attributes:
        bytes: The bytes in each table with its indexes.
        wal_bytes: The bytes of its log.
        processor_us: The time of its processor.
    """

    bytes: Mapping[str, float]
    wal_bytes: float
    processor_us: float

    def kept_bytes(self, days: Mapping[str, float]) -> float:
        """Return the bytes that are kept at a rate of one a second."""
        return DAY_S * sum(self.bytes[table] * kept for table, kept in days.items())


@cache
def measured(name: str, file: Path = FILE) -> Taken:
    """Return the measured figures of `single_send` or `recipient`."""
    return Taken(**json.loads(file.read_text())[name])


def days_kept(environment: Environment, *, small: bool) -> dict[str, float]:
    """Return the days for which rows of a send are kept, by table. An id is kept for at most two windows."""
    return {
        **dict.fromkeys(_OF_SENDS, SMALL_SENDS_KEPT_DAYS if small else SENDS_KEPT_DAYS),
        "recipient_log": environment.spark.recipient_log_days if environment.spark.recipient_log else 0,
        "counted_ids": 2 * COUNTED_IDS_KEPT_S / DAY_S,
        "send_changes": SEND_CHANGES_KEPT_DAYS,
    }


def kept_bytes(environment: Environment, *, single_s: float, recipients_s: float) -> float:
    """Return the size of the database once rows are deleted as fast as they are added; sums are below a tenth."""
    return sum(
        rate * measured(name).kept_bytes(days_kept(environment, small=small))
        for name, rate, small in (("single_send", single_s, True), ("recipient", recipients_s, False))
    )


def wal_bytes_s(*, single_s: float, recipients_s: float) -> float:
    return single_s * measured("single_send").wal_bytes + recipients_s * measured("recipient").wal_bytes


def vcpus(*, single_s: float, recipients_s: float) -> float:
    """Return the vCPUs of Postgres that a load occupies."""
    single, recipient = measured("single_send"), measured("recipient")
    return (single_s * single.processor_us + recipients_s * recipient.processor_us) / 1e6
