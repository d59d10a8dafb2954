"""The states of the snapshot generations in the store: which of them is complete and answers.

The rules are those of cdc_consumer (functions/cdc_consumer/generation.py). A second snapshot, a TRUNCATE or another
write-ahead log makes the rows of a generation wrong for ever: it needs a new one.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from directory_state.store import Reader, Writer
from masscomm.cdc.change_events import Heartbeat, SnapshotCompleted, SnapshotStarted, TableTruncated
from masscomm.domain.users import DirectoryPosition

type Notice = Heartbeat | SnapshotStarted | SnapshotCompleted | TableTruncated


@dataclass(frozen=True, kw_only=True)
class GenerationState:
    snapshot_id: str | None = None
    # When Debezium had read the snapshot's last row, in ms since the epoch; None: not yet.
    snapshot_completed_at: int | None = None
    # Why the generation must be replaced; None: its rows are right.
    rebuild_reason: str | None = None
    # The newest heartbeat.
    lsn: int | None = None
    ts_ms: int | None = None
    # Whether the generation was once as recent as the one that it replaces. The first one replaces none.
    is_recent: bool = False

    @property
    def position(self) -> DirectoryPosition | None:
        """The position of the newest heartbeat; None before the first one."""
        return None if self.lsn is None or self.ts_ms is None else DirectoryPosition(lsn=self.lsn, ts_ms=self.ts_ms)

    def after(self, notice: Notice) -> "GenerationState":
        """Return the state after a change event that is no row."""
        match notice:
            case TableTruncated(table=table, lsn=lsn):
                return self._wrong(f"{table} was truncated at {lsn}")
            case SnapshotStarted(snapshot_id=snapshot_id):
                if self.snapshot_id not in (None, snapshot_id):
                    return self._wrong(f"snapshot {snapshot_id} after {self.snapshot_id}")
                return replace(self, snapshot_id=snapshot_id)
            case SnapshotCompleted(at_ms=at_ms):
                return self if self.snapshot_completed_at is not None else replace(self, snapshot_completed_at=at_ms)
        if self.lsn is not None and self.ts_ms is not None:
            known = Heartbeat(lsn=self.lsn, ts_ms=self.ts_ms)
            if notice.is_of_another_log(known):
                return self._wrong(f"the write-ahead log fell from {known.lsn} to {notice.lsn}")
            if notice.lsn < known.lsn:
                return self
        return replace(self, lsn=notice.lsn, ts_ms=notice.ts_ms)

    def _wrong(self, reason: str) -> "GenerationState":
        return self if self.rebuild_reason is not None else replace(self, rebuild_reason=reason)


def state_of(reader: Reader, generation: str) -> GenerationState:
    """Return the stored state of a generation."""
    return GenerationState(**(reader.meta(f"generation/{generation}") or {}))


def store_state(writer: Writer, generation: str, state: GenerationState) -> None:
    writer.set_meta(f"generation/{generation}", asdict(state))


def answering(reader: Reader, generations: Sequence[str]) -> tuple[str | None, str]:
    """Return the generation that answers look-ups: the newest one whose snapshot is complete and whose rows are right.

    Args:
        generations: The captured generations, the oldest first.

    Returns:
        The generation, or None with the reason.
    """
    reasons = []
    for place, generation in reversed(list(enumerate(generations))):
        state = state_of(reader, generation)
        if state.rebuild_reason is not None:
            reasons.append(f"{generation} needs a new generation: {state.rebuild_reason}")
        elif state.snapshot_completed_at is None:
            reasons.append(f"the snapshot of {generation} is not complete")
        elif place and not state.is_recent:
            reasons.append(f"{generation} is behind the generation that it replaces")
        else:
            return generation, ""
    return None, "; ".join(reasons)
