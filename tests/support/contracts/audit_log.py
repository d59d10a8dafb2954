"""The tests that every audit log must pass, in memory and real."""

from dataclasses import replace

import pytest

from masscomm.domain.audit import Action, AuditEntry, Result, audit_entry
from masscomm.stores.audit_log.port import AuditLog, AuditPage, AuditQuery

NOW_MS = 1_700_000_000_000


def entry(at_ms: int = NOW_MS, club_id: int | None = 7, subject: str = "s") -> AuditEntry:
    return audit_entry(
        Action.SEND_REQUESTED,
        club_id=club_id,
        at_ms=at_ms,
        principal="k1",
        subject=subject,
        result=Result.FAILED,
        detail="3 recipients",
    )


def read(log: AuditLog, *, club_id: int | None = 7, start_ms: int = 0, end_ms: int = NOW_MS * 2) -> AuditPage:
    return log.page(AuditQuery(club_id=club_id, start_ms=start_ms, end_ms=end_ms, limit=10))


class AuditLogContract:
    """Subclasses define the fixture `log`, an empty log."""

    def test_entries_are_read_the_latest_first(self, log: AuditLog) -> None:
        entries = [entry(NOW_MS + number) for number in (1, 0, 2)]
        for each in entries:
            log.record(each)
        assert list(read(log).entries) == sorted(entries, key=lambda each: -each.at_ms)

    @pytest.mark.kills(guard="audit.own_entries")
    def test_entries_are_listed_for_their_tenant_alone(self, log: AuditLog) -> None:
        entries = {club_id: entry(club_id=club_id) for club_id in (7, 77, None)}
        for each in entries.values():
            log.record(each)
        assert {club_id: list(read(log, club_id=club_id).entries) for club_id in entries} == {
            club_id: [each] for club_id, each in entries.items()
        }

    def test_an_entry_repeated_is_stored_once(self, log: AuditLog) -> None:
        made = entry()
        log.record(made)
        log.record(made)
        assert list(read(log).entries) == [made]

    @pytest.mark.guarantee("audit.entries_stay")
    @pytest.mark.kills(guard="audit.entries_are_never_replaced")
    def test_an_entry_is_never_replaced(self, log: AuditLog) -> None:
        made = entry()
        log.record(made)
        log.record(replace(made, subject="another", principal="k2"))
        assert list(read(log).entries) == [made]

    def test_entries_are_chosen_by_time(self, log: AuditLog) -> None:
        for number in range(4):
            log.record(entry(NOW_MS + number))
        found = read(log, start_ms=NOW_MS + 1, end_ms=NOW_MS + 3).entries
        assert [each.at_ms - NOW_MS for each in found] == [2, 1]

    def test_pages_have_each_entry_once(self, log: AuditLog) -> None:
        """Also if several entries have one time."""
        entries = [entry(NOW_MS + number // 3) for number in range(7)]
        for each in entries:
            log.record(each)
        found: list[AuditEntry] = []
        for _ in range(4):
            before = (found[-1].at_ms, found[-1].id) if found else None
            page = log.page(AuditQuery(club_id=7, start_ms=0, end_ms=NOW_MS * 2, limit=2, before=before))
            found += page.entries
            assert page.more == (len(found) < 7)
        assert sorted(each.id for each in found) == sorted(each.id for each in entries)
