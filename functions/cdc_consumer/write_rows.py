"""Writes the rows of change events to the indices of the directory."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from masscomm.cdc.change_events import SNAPSHOT_VERSION, Change, MissedDelete, RefusedRow, RowChanged, rows_of
from masscomm.chain.batch import Item
from masscomm.clock import Clock
from masscomm.directory.bulk_writes import VersionedDocument, answering, write
from masscomm.directory.changed_documents import (
    document_of,
    index_of,
    missed_row,
    opt_out,
    problem_of_template,
    with_earlier_values,
)
from masscomm.directory.client import OpenSearch
from masscomm.domain.source_tables import directory_table
from masscomm.errors import DeadLetter, Retry
from masscomm.observability import metrics
from masscomm.observability.metric_names import CHANGE_LATENCY

type Fact = Change | RefusedRow
# The generation, the table and the id of a row.
type _Place = tuple[str, str, str]


class WriteRows:
    """Each write contains the version of its row, so that the indices converge to the contents of the tables, in
    whatever order and however often the events come (docs/decisions/085-cdc-versions.md).
    """

    def __init__(self, client: OpenSearch, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def write(self, items: Sequence[Item[Fact]]) -> None:
        """Write the rows of events, and the replacements of refused rows. An event that cannot be written, and each
        refused one, gets its error.
        """
        self._write_rows(items)
        self._refuse([item for item in items if item.error is None])

    def _refuse(self, items: Sequence[Item[Fact]]) -> None:
        """Write the replacements of refused rows, and dead-letter these rows."""
        refused = [(item, item.value) for item in items if isinstance(item.value, RefusedRow)]
        deleted = [(item, document_of(row)) for item, value in refused for row in value.deleted]
        unreadable = [(item, row) for item, value in refused for row in value.unreadable]
        written = [(item, row) for item, value in refused for row in value.written]
        try:
            replacements = deleted + self._opt_outs(unreadable) + self._with_earlier_values(written)
        except Retry as error:
            for item, _ in refused:
                item.error = error
            return
        fates = write(self._client, [document for _, document in replacements])
        for (item, _), fate in zip(replacements, fates, strict=True):
            item.error = item.error or fate
        for item, value in refused:
            item.error = item.error or value

    def _opt_outs(self, rows: Sequence[tuple[Item[Fact], RowChanged]]) -> list[tuple[Item[Fact], VersionedDocument]]:
        """Return the opt-outs of users whose settings cannot be read, but not of those with earlier settings. Raises
        Retry.
        """
        found = []
        for (item, row), known in zip(rows, self._stored(_places([row for _, row in rows])), strict=True):
            if (document := opt_out(row, _version_and_source(known))) is not None:
                found.append((item, document))
        return found

    def _with_earlier_values(
        self, rows: Sequence[tuple[Item[Fact], RowChanged]]
    ) -> list[tuple[Item[Fact], VersionedDocument]]:
        """Return the documents of rows with the stored values of the columns that they have lost. Raises Retry."""
        stored = self._stored(_places([row for _, row in rows]))
        return [
            (item, with_earlier_values(row, known.get("_source", {})))
            for (item, row), known in zip(rows, stored, strict=True)
        ]

    def _stored(self, places: Sequence[_Place]) -> list[dict[str, Any]]:
        """Return OpenSearch's answers about the stored versions of rows. Raises Retry."""
        if not places:
            return []
        documents = [{"_index": index_of(table, generation), "_id": id_} for generation, table, id_ in places]
        with answering("earlier rows"):
            answer = self._client.mget(body={"docs": documents})
        for known in answer["docs"]:
            if "error" in known:
                raise Retry(f"OpenSearch could not look up earlier rows: {known['error']}")
        found: list[dict[str, Any]] = answer["docs"]
        return found

    def _stored_of_missed(self, items: Sequence[Item[Fact]]) -> Mapping[_Place, dict[str, Any]]:
        """Return OpenSearch's answers about the rows whose deletions were not read. Raises Retry."""
        places = {place for item in items if isinstance(item.value, MissedDelete) for place in _places_of(item.value)}
        ordered = sorted(places)
        return dict(zip(ordered, self._stored(ordered), strict=True))

    def _write_rows(self, items: Sequence[Item[Fact]]) -> None:
        """Write each document once, in its newest version. All events with this version are the same change; the
        last one is written.
        """
        versions: dict[_Place, list[tuple[Item[Fact], RowChanged]]] = defaultdict(list)
        try:
            stored = self._stored_of_missed(items)
        except Retry as error:
            # A row that was inserted again must not be written before the tombstone: it would be deleted later.
            for item in items:
                item.error = error  # guard: cdc.row_after_missed_delete
            return
        for item in items:
            rows = rows_of(item.value)
            if isinstance(item.value, MissedDelete):
                # guard: cdc.missed_delete
                rows = _missed_rows(item.value, stored, versions)
            if (problem := problem_of_template(rows)) is not None:
                item.error = DeadLetter("invalid", problem)  # guard: templates.saved_template
                continue
            for row in rows:
                versions[row.generation, row.table, row.id].append((item, row))
        for changes in versions.values():
            changes.sort(key=lambda change: change[1].version)
        waiting = list(versions.values())
        while waiting:
            fates = write(self._client, [document_of(changes[-1][1]) for changes in waiting])
            now_ms = self._clock.now_ms()
            again = []
            for changes, fate in zip(waiting, fates, strict=True):
                if isinstance(fate, DeadLetter):
                    # The index refuses the newest version permanently. The previous version is written instead, so that
                    # the result is the same as if the two versions had been in two batches.
                    refused, _ = changes.pop()
                    refused.error = fate
                    if changes:
                        again.append(changes)
                elif fate is not None:
                    # No version of this document could be stored, so all of its events fail.
                    for item, _ in changes:
                        item.error = fate
                else:
                    _count_latency([row for _, row in changes], now_ms)
            waiting = again


def _places(rows: Sequence[RowChanged]) -> list[_Place]:
    return [(row.generation, row.table, row.id) for row in rows]


def _places_of(change: MissedDelete) -> list[_Place]:
    return [(change.generation, table, change.id) for table in change.tables]


def _version_and_source(answer: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]] | None:
    return (answer["_version"], answer["_source"]) if answer["found"] else None


def _missed_rows(
    change: MissedDelete,
    stored: Mapping[_Place, Mapping[str, Any]],
    versions: Mapping[_Place, Sequence[tuple[Item[Fact], RowChanged]]],
) -> tuple[RowChanged, ...]:
    """Return the deleted rows of a deletion that was not read: of the row as it is stored, or newer in the batch before
    the tombstone.
    """
    found = []
    for place in _places_of(change):
        documents = [document_of(row) for _, row in versions.get(place, ())]
        known = [_version_and_source(stored[place]), *((each.version, each.source) for each in documents)]
        # Of equal versions, the last one is the newest.
        ordered = sorted(filter(None, known), key=itemgetter(0))
        if (row := missed_row(change, place[1], ordered[-1] if ordered else None)) is not None:
            found.append(row)
    return tuple(found)


def _count_latency(rows: Sequence[RowChanged], now_ms: int) -> None:
    """Add the times from the commits of rows to their acknowledged writes. A snapshot's rows have no commit time."""
    for row in rows:
        if row.version != SNAPSHOT_VERSION:
            # The clock of the database may be ahead.
            metrics.add(CHANGE_LATENCY[directory_table(row.table)], max(0, now_ms - row.changed_at_ms))
