from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.preference_changes import PreferenceChanges
from masscomm.domain.suppressions import Suppression
from masscomm.domain.users import DirectoryPosition
from tests.support.contracts.directory import DirectoryContract, Row, Tables
from tests.support.inputs.optional_tables import ENTRIES, mapped


class InMemoryTables(Tables):
    def __init__(self) -> None:
        self.directory: InMemoryDirectory = InMemoryDirectory(page_size=3)

    def put(self, *rows: Row) -> None:
        self.directory.put(*rows)

    def remove(self, *rows: Row) -> None:
        self.directory.remove(*rows)

    def suppress(self, *several: Suppression) -> None:
        self.directory.suppress(*several)

    def change(self, changes: PreferenceChanges) -> None:
        self.directory.preference_changes[changes.user_id] = changes.document

    def put_rules(self, *several: Mapping[str, Any]) -> None:
        self.directory.tenant_preferences |= {each["club_id"]: each for each in several}

    def put_optional(self, table: str, *documents: tuple[str, Mapping[str, Any]]) -> None:
        for id_, source in documents:
            self.directory.rows.pop((table, id_), None)
            if not source.get("deleted"):
                self.directory.rows[table, id_] = source

    def not_ready(self) -> None:
        self.directory.ready = False

    def caught_up_to(self, ts_ms: int) -> None:
        self.directory.caught_up = DirectoryPosition(lsn=1, ts_ms=ts_ms)


class TestInMemoryDirectory(DirectoryContract):
    @pytest.fixture
    def tables(self) -> Tables:
        return InMemoryTables()

    @pytest.fixture
    def mapped_tables(self) -> Iterator[Tables]:
        with mapped(*ENTRIES):
            yield InMemoryTables()
