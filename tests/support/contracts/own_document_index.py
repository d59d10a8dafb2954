"""The tests that the indices of own documents must pass, in memory and real."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from masscomm.directory.own_document_index import OwnDocumentIndices, Progress
from masscomm.directory.own_documents import DocumentKey, Version
from masscomm.domain.preference_changes import ERASURE
from masscomm.domain.preference_changes import INDEX as CHANGES
from masscomm.domain.suppressions import INDEX as SUPPRESSIONS
from tests.support.harness.chain import NOW


class Made(Protocol):
    """Indices of suppressions and changed preferences without a document."""

    @property
    def indices(self) -> OwnDocumentIndices: ...

    def put(self, key: DocumentKey, source: Mapping[str, Any], *, after: Version | None = None) -> Version | None:
        """Store a document if the stored one has the version `after`. Return its version; None: it was not stored."""
        ...


LATER = NOW * 2


def suppression(number: int, expires_ms: int = LATER) -> tuple[DocumentKey, dict[str, Any]]:
    source = {"club_id": 7, "address_id": str(number), "reason": "complained", "at": NOW, "expires_at": expires_ms}
    return DocumentKey(SUPPRESSIONS, f"7-{number}"), source


def changes(user_id: int, source: str = "api") -> tuple[DocumentKey, dict[str, Any]]:
    numbers = {"user_id": user_id, "club_id": 7, "version": NOW, "produced_version": NOW}
    return DocumentKey(CHANGES, str(user_id)), {
        **numbers,
        "is_produced": True,
        "source": source,
        "principal": "",
        "changes": [],
    }


class OwnDocumentIndicesContract:
    """Subclasses define the fixture `made`."""

    def test_written_documents_are_found_in_the_order_of_writes(self, made: Made) -> None:
        before = made.indices.position(SUPPRESSIONS)
        first = made.put(*suppression(1))
        made.put(*suppression(2))
        made.put(*suppression(1, LATER + 1), after=first)
        end = made.indices.position(SUPPRESSIONS)
        assert (end.history_id, end.seq_no) == (before.history_id, before.seq_no + 3)
        found = made.indices.written(SUPPRESSIONS, after=before.seq_no, until=end.seq_no)
        assert [(each.key.id, each.source["expires_at"]) for each in found] == [("7-2", LATER), ("7-1", LATER + 1)]
        assert [each.version.seq_no for each in found] == [end.seq_no - 1, end.seq_no]

    def test_documents_outside_the_range_are_not_found(self, made: Made) -> None:
        made.put(*suppression(1))
        middle = made.indices.position(SUPPRESSIONS).seq_no
        made.put(*suppression(2))
        end = made.indices.position(SUPPRESSIONS).seq_no
        assert [each.key.id for each in made.indices.written(SUPPRESSIONS, after=middle, until=end)] == ["7-2"]
        assert [each.key.id for each in made.indices.written(SUPPRESSIONS, after=middle - 1, until=middle)] == ["7-1"]

    def test_versions_are_those_of_conditional_writes(self, made: Made) -> None:
        version = made.put(*suppression(1))
        (found,) = made.indices.written(SUPPRESSIONS, after=-1, until=made.indices.position(SUPPRESSIONS).seq_no)
        assert found.version == version
        assert made.put(*suppression(1), after=another_write(found.version)) is None
        assert made.put(*suppression(1), after=found.version) is not None

    def test_expired_and_removed_suppressions_have_ended(self, made: Made) -> None:
        for number, expires_ms in ((1, NOW), (2, NOW - 1), (3, 0)):
            made.put(*suppression(number, expires_ms))
        middle = made.indices.position(SUPPRESSIONS).seq_no
        made.put(*suppression(4, 0))
        found = made.indices.ended(SUPPRESSIONS, until=middle, now_ms=NOW)
        assert [each.key.id for each in found] == ["7-2", "7-3"]

    def test_changes_of_erased_users_have_ended(self, made: Made) -> None:
        made.put(*changes(1))
        made.put(*changes(2, ERASURE))
        found = made.indices.ended(CHANGES, until=made.indices.position(CHANGES).seq_no, now_ms=NOW)
        assert [each.key.id for each in found] == ["2"]

    def test_changed_document_is_not_removed(self, made: Made) -> None:
        for number in (1, 2):
            made.put(*suppression(number, 0))
        until = made.indices.position(SUPPRESSIONS).seq_no
        found = made.indices.ended(SUPPRESSIONS, until=until, now_ms=NOW)
        made.put(*suppression(1), after=found[0].version)
        assert [error is None for error in made.indices.remove(found)] == [False, True]
        end = made.indices.position(SUPPRESSIONS).seq_no
        assert [each.key.id for each in made.indices.written(SUPPRESSIONS, after=-1, until=end)] == ["7-1"]

    def test_progress_is_stored_by_one_sweep(self, made: Made) -> None:
        assert made.indices.progress(SUPPRESSIONS) is None
        progress = Progress(
            history_id="h", published=-1, seen=4, seen_at_ms=NOW, is_filled=False, is_later_history=False
        )
        first = made.indices.store_progress(SUPPRESSIONS, progress)
        assert first == made.indices.progress(SUPPRESSIONS) == progress
        assert made.indices.store_progress(SUPPRESSIONS, progress) is None
        assert first is not None
        second = made.indices.store_progress(
            SUPPRESSIONS, replace(first, published=4, is_filled=True, is_later_history=True)
        )
        assert made.indices.store_progress(SUPPRESSIONS, first) is None
        assert made.indices.progress(SUPPRESSIONS) == second


def another_write(version: Version) -> Version:
    """Return the version of another write."""
    return version._replace(seq_no=version.seq_no + 1)
