"""The directory's tables in OpenSearch, filled as cdc_consumer and device_registrar fill them."""

from collections.abc import Mapping
from typing import Any

from functions.receipts.sent_messages import OpenSearchSentMessages
from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.progress import InMemoryCdcProgress
from masscomm.clock import FixedClock
from masscomm.directory.bulk_writes import ChangedDocument, VersionedDocument, write, write_changed
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.directory.preference_changes import OpenSearchPreferenceChanges
from masscomm.domain.preference_changes import PreferenceChanges
from masscomm.domain.suppressions import Suppression
from masscomm.domain.tenant_preferences import INDEX
from tests.support.contracts.directory import Row, Tables
from tests.support.servers.directory_documents import DirectoryDocuments
from tests.support.servers.opensearch_client import TestClient


class OpenSearchTables(Tables):
    """Writes documents in the format of cdc_consumer and device_registrar."""

    def __init__(self, client: TestClient, generation: str) -> None:
        self.client = client
        self.generation = generation
        self.progress = InMemoryCdcProgress()
        self.clock = FixedClock()
        self.documents = DirectoryDocuments(generation)
        self.directory: OpenSearchDirectory = OpenSearchDirectory(
            client,
            progress=lambda _: self.progress,
            clock=self.clock,
            wait_s=lambda: 0.2,
            clock_skew_ms=0,
            page_size=3,
        )

    def put(self, *rows: Row) -> None:
        self._write(self.documents.of(*rows))

    def remove(self, *rows: Row) -> None:
        self._write(self.documents.removed(*rows))

    def suppress(self, *several: Suppression) -> None:
        assert OpenSearchSentMessages(self.client).suppress(several) == [None] * len(several)

    def change(self, changes: PreferenceChanges) -> None:
        assert OpenSearchPreferenceChanges(self.client).write(changes, after=None)

    def put_rules(self, *several: Mapping[str, Any]) -> None:
        new = [ChangedDocument(index=INDEX, id=str(each["club_id"]), after=None, source=each) for each in several]
        assert not any(write_changed(self.client, new))

    def put_optional(self, table: str, *documents: tuple[str, Mapping[str, Any]]) -> None:
        self._write(self.documents.optional(table, documents))

    def not_ready(self) -> None:
        actions = [{"remove": {"index": f"{table}-{self.generation}", "alias": table}} for table in captured_tables()]
        self.client.indices.update_aliases(body={"actions": actions})
        self.caught_up_to(1_000_000)

    def caught_up_to(self, ts_ms: int) -> None:
        self.progress.lsn = self.documents.version = self.documents.version + 1
        source = {"lsn": self.documents.version, "ts_ms": ts_ms}
        self._write(
            [VersionedDocument(index="directory_state", id=f"position-{self.generation}", version=1, source=source)]
        )

    def _write(self, documents: list[VersionedDocument]) -> None:
        assert not any(write(self.client, documents))
        self.client.indices.refresh(index=f"*-{self.generation}")
