"""A snapshot generation (one snapshot of the monolith's tables with the changes after it): its state, from the first
row until the aliases point to its indices.

    snapshot started → completed → everything written (Connect's source offset has left the snapshot)
    → targets: the topics' ends at that time → consumed up to the targets → complete → aliases moved

While another generation serves look-ups, the targets (end offsets of the topics) are read after Kafka Connect has
stored a source offset later than a heartbeat. The topics then contain all rows that the database committed before that
heartbeat. The targets are read again until they are reached within GENERATION_LAG_MS of the heartbeat's time.
Therefore, when the aliases move, the new generation has the recent opt-outs and users of the previous one, however long
its snapshot took.

Each step is stored in the index directory_state before the next one begins, with the condition that the document's
sequence number is unchanged. Any invocation in any execution environment can take the next step or repeat a step. No
other code moves the aliases.
"""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger

from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.change_events import Heartbeat
from masscomm.cdc.progress import CdcProgress, Offsets, reached
from masscomm.clock import Clock
from masscomm.directory.bulk_writes import VersionedDocument, answering, write
from masscomm.directory.changed_documents import index_of
from masscomm.directory.client import ConflictError, NotFoundError, OpenSearch
from masscomm.directory.generations import CREATED_AT, INDEX, created_at, document_id
from masscomm.domain.time_limits import GENERATION_LAG_MS
from masscomm.errors import Retry
from masscomm.observability import logs


class Generation:
    """The indices, the state and the aliases of one snapshot generation."""

    def __init__(
        self, client: OpenSearch, *, name: str, progress: CdcProgress, clock: Clock, logger: Logger | None = None
    ) -> None:
        self.name = name
        self._client = client
        self._progress = progress
        self._clock = clock
        self._logger = logger or logs.logger("cdc_consumer")
        self._settled = False
        # The oldest heartbeat after which Kafka Connect may not have stored a source offset yet.
        self._unwritten: Heartbeat | None = None
        # The heartbeat with the highest position that this environment knows, or the one of another log.
        self._newest: Heartbeat | None = None

    def index(self, table: str) -> str:
        """Return the name of a table's index in this generation."""
        return index_of(table, self.name)

    def committed_offsets(self) -> Offsets:
        """Return the offsets up to which the topics of the tables have been consumed. Raises Retry."""
        return self._progress.committed_offsets()

    @property
    def _position(self) -> str:
        """The id of the document with the position up to which this generation is complete."""
        return f"position-{self.name}"

    def passed(self, beat: Heartbeat) -> None:
        """Store the WAL position of the heartbeat, unless a later one is already stored; require a rebuild if the
        heartbeat is from another write-ahead log. Raises Retry.
        """
        known = self._newest or self._stored_position()
        if known is not None and beat.is_of_another_log(known):
            self.require_rebuild(f"the write-ahead log fell from {known.lsn} to {beat.lsn}")
            self._newest = beat
            return
        document = VersionedDocument(
            index=INDEX,
            id=self._position,
            version=beat.lsn,
            source={"lsn": beat.lsn, "ts_ms": beat.ts_ms},
        )
        (fate,) = write(self._client, [document])
        if fate is not None:
            raise fate
        if self._unwritten is None:
            self._unwritten = beat
        self._newest = beat if known is None or beat.lsn >= known.lsn else known

    def _stored_position(self) -> Heartbeat | None:
        with answering("the directory's position"):
            answer = self._client.mget(body={"docs": [{"_index": INDEX, "_id": self._position}]})
        source = answer["docs"][0].get("_source")
        return None if source is None else Heartbeat(lsn=source["lsn"], ts_ms=source["ts_ms"])

    def snapshot_started(self, snapshot_id: str) -> None:
        """Store the id of this generation's snapshot; require a rebuild at a second snapshot. Raises Retry.

        A second snapshot starts after the first one was interrupted. No change event reports the rows that were deleted
        between the two, so that they would stay in the indices. Therefore each snapshot needs its own generation.
        """
        state = self._state()
        known = state.source.get("snapshot_id")
        if known is None:
            self._put(state, snapshot_id=snapshot_id)
        elif known != snapshot_id:
            self.require_rebuild(f"snapshot {snapshot_id} after {known}")

    def snapshot_completed(self, at_ms: int) -> None:
        """Store the time at which Debezium had read the snapshot's last row. Raises Retry."""
        state = self._state()
        if "snapshot_completed_at" not in state.source:
            self._put(state, snapshot_completed_at=at_ms)

    def require_rebuild(self, reason: str) -> None:
        """Remove this generation's aliases until a new snapshot generation replaces it: look-ups then fail instead
        of returning wrong rows. Raises Retry.
        """
        state = self._state()
        if "rebuild_reason" not in state.source:
            self._put(state, complete=False, rebuild_reason=reason)
        self._remove_aliases()
        self._settled = True
        self._logger.error("the directory needs a new generation", generation=self.name, reason=reason)

    def advance(self) -> None:
        """Take all steps that are possible now. Raises Retry; completed steps remain stored."""
        if self._settled:
            return
        state = self._state()
        if state.source.get("complete"):
            self._move_aliases(state.source)
            self._settled = True
            return
        if "rebuild_reason" in state.source:
            self._remove_aliases()
            self._settled = True
            return
        if "snapshot_completed_at" not in state.source:
            return
        replaces = self._replaces_another()
        if "targets" not in state.source:
            aimed = self._aim(state, replaces=replaces)
            if aimed is None:
                return
            state = aimed
        # The records of this invocation are not committed yet; the invocation with the next heartbeat sees them as
        # consumed.
        if not reached(self._progress.committed_offsets(), _with_number_keys(state.source["targets"])):
            return
        # guard: directory.generation_behind
        if replaces and self._clock.now_ms() - state.source.get("targets_at", 0) > GENERATION_LAG_MS:
            self._aim(state, replaces=replaces)
            return
        with answering("a refresh"):
            self._client.indices.refresh(index=",".join(map(self.index, captured_tables())))
        state = self._put(state, complete=True, completed_at=self._clock.now_ms())
        self._logger.info("the directory's generation is complete", generation=self.name)
        self._move_aliases(state.source)
        self._settled = True

    def _aim(self, state: "_State", *, replaces: bool) -> "_State | None":
        """Store the current end offsets of the topics as targets.

        After the snapshot notification or a heartbeat was consumed, earlier rows may still be missing from other
        partitions. Kafka Connect stores a source offset after these rows only once all of them have been produced.

        Returns:
            The new state; None if Kafka Connect has not stored such an offset yet.
        """
        acknowledged = self._progress.acknowledged_lsn()
        if acknowledged is None:
            return None
        held_at_ms = self._clock.now_ms()
        if replaces:
            beat = self._unwritten
            if beat is None or acknowledged < beat.lsn:  # guard: directory.generation_written
                return None
            self._unwritten, held_at_ms = None, beat.ts_ms  # guard: directory.generation_streamed
        return self._put(state, targets=_with_text_keys(self._progress.end_offsets()), targets_at=held_at_ms)

    def _replaces_another(self) -> bool:
        return any(indices - {self.index(table)} for table, indices in self._aliases().items())

    def _state(self) -> "_State":
        with answering("the generation's state"):
            try:
                answer = self._client.get(index=INDEX, id=document_id(self.name))
            except NotFoundError as error:
                if isinstance(error.info, dict) and error.info.get("found") is False:
                    return _State({}, None, None)
                raise
        return _State(answer["_source"], answer["_seq_no"], answer["_primary_term"])

    def _put(self, state: "_State", **changes: Any) -> "_State":
        """Write a changed state if the stored one is still the state that was read. Raises Retry if another
        invocation has changed it.
        """
        source = {CREATED_AT: self._clock.now_ms()} if state.seq_no is None else {}
        source |= {**state.source, **changes}
        only: dict[str, Any] = (
            {"op_type": "create"}
            if state.seq_no is None
            else {"if_seq_no": state.seq_no, "if_primary_term": state.primary_term}
        )
        with answering("a change of the generation's state"):
            try:
                answer = self._client.index(index=INDEX, id=document_id(self.name), body=source, params=only)
            except ConflictError as error:
                raise Retry("another invocation has changed the generation's state") from error
        return _State(source, answer["_seq_no"], answer["_primary_term"])

    def _move_aliases(self, state: Mapping[str, Any]) -> None:
        """Point all aliases to this snapshot generation in one request, unless they already point to a later
        generation.
        """
        now = self._aliases()
        if all(now.get(table) == {self.index(table)} for table in captured_tables()):
            return
        if self._later_than(state, now):  # guard: directory.later_generation
            return
        actions: list[dict[str, Any]] = [
            {"remove": {"index": index, "alias": table}}
            for table, indices in now.items()
            for index in sorted(indices - {self.index(table)})
        ]
        actions += [{"add": {"index": self.index(table), "alias": table}} for table in captured_tables()]
        with answering("moving the aliases"):
            self._client.indices.update_aliases(body={"actions": actions})
        self._logger.info("look-ups see the generation", generation=self.name)

    def _later_than(self, state: Mapping[str, Any], aliases: Mapping[str, set[str]]) -> bool:
        """Return whether the snapshot generation that the aliases point to was created later than this one.

        A consumer of an earlier generation that is started again must not move the aliases back.
        """
        others = {index.removeprefix(f"{table}-") for table, indices in aliases.items() for index in indices} - {
            self.name
        }
        for other in others:
            with answering("another generation's state"):
                answer = self._client.mget(body={"docs": [{"_index": INDEX, "_id": document_id(other)}]})
            if created_at(answer["docs"][0].get("_source") or {}) > created_at(state):
                return True
        return False

    def _remove_aliases(self) -> None:
        now = self._aliases()
        actions = [
            {"remove": {"index": self.index(table), "alias": table}}
            for table in captured_tables()
            if self.index(table) in now.get(table, set())
        ]
        if actions:
            with answering("removing the aliases"):
                self._client.indices.update_aliases(body={"actions": actions})

    def _aliases(self) -> dict[str, set[str]]:
        with answering("the aliases"):
            try:
                answer = self._client.indices.get_alias(name=",".join(captured_tables()))
            except NotFoundError as error:
                if not isinstance(error.info, dict):
                    raise
                # Some aliases do not exist; the error response contains the existing ones.
                answer = {name: entry for name, entry in error.info.items() if isinstance(entry, dict)}
        found: dict[str, set[str]] = {}
        for index, entry in answer.items():
            for alias in entry.get("aliases", {}):
                found.setdefault(alias, set()).add(index)
        return found


class _State:
    """The state document as it was read. Its sequence number prevents lost updates."""

    def __init__(self, source: Mapping[str, Any], seq_no: int | None, primary_term: int | None) -> None:
        self.source = source
        self.seq_no = seq_no
        self.primary_term = primary_term


def _with_text_keys(offsets: Mapping[str, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    return {topic: {str(p): offset for p, offset in partitions.items()} for topic, partitions in offsets.items()}


def _with_number_keys(offsets: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    return {topic: {int(p): offset for p, offset in partitions.items()} for topic, partitions in offsets.items()}
