"""Random histories of a table: its transactions, Debezium's records of them, and the final rows."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from masscomm.kafka.event import KafkaRecord
from tests.support.inputs.debezium_records import row


@dataclass(frozen=True)
class History:
    """A history of a table.

    Attributes:
        records: Debezium's records in the order of the WAL.
        table: id → first_name at the end.
    """

    records: list[KafkaRecord]
    table: dict[str, str]

    def deliveries(self, chance: random.Random) -> Iterator[list[KafkaRecord]]:
        """Make batches of any size in any order, with every record at least once."""
        stream = self.records + [r for r in self.records if chance.random() < 0.3]
        chance.shuffle(stream)
        while stream:
            size = chance.randint(1, 6)
            yield stream[:size]
            stream = stream[size:]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Make up to 25 steps on four rows, with a snapshot and one transaction that is open during the snapshot."""
    steps = draw(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["set", "delete"])), max_size=25))
    snapshot_at = draw(st.integers(0, len(steps)))
    # The row of a transaction that is open during the snapshot: the change has an earlier LSN and a later commit.
    open_row = draw(st.one_of(st.none(), st.integers(1, 4)))
    records: list[KafkaRecord] = []
    table: dict[int, str] = {}
    lsn = 1_000
    open_change: tuple[int, str] | None = None

    def change(number: int, change_kind: str, at: int, *, streamed: bool) -> None:
        before = {"id": number, "first_name": table[number]} if number in table else None
        if change_kind == "set":
            table[number] = f"v{at}"
            after: dict[str, Any] = {"id": number, "club_id": 1, "first_name": f"v{at}", "time_zone": None}
            if streamed:
                records.append(row("users", "u" if before else "c", at, after, before))
        elif before is not None:
            del table[number]
            if streamed:
                records.append(row("users", "d", at, None, before))

    for place, (number, change_kind) in enumerate([*steps, (0, "end")]):
        if place == snapshot_at:
            if open_row is not None:
                lsn += 1
                open_change = lsn, "set"
            lsn += 1
            records += [
                row("users", "r", lsn, {"id": n, "club_id": 1, "first_name": name, "time_zone": None})
                for n, name in table.items()
            ]
            if open_change is not None and open_row is not None:
                # The open transaction commits right after the snapshot, because its lock blocks other changes of the
                # row.
                change(open_row, "set", open_change[0], streamed=True)
        if change_kind != "end":
            lsn += 1
            change(number, change_kind, lsn, streamed=place >= snapshot_at)
    return History(records, {str(number): name for number, name in table.items()})
