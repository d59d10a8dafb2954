"""The audit log in memory, for unit tests."""

from masscomm.domain.audit import AuditEntry
from masscomm.stores.audit_log.port import AuditPage, AuditQuery
from masscomm.stores.in_memory import InMemoryStore


class InMemoryAuditLog(InMemoryStore):
    """A log in a list, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[AuditEntry] = []

    def record(self, entry: AuditEntry) -> None:
        if (entry.club_id, entry.at_ms, entry.id) not in {(each.club_id, each.at_ms, each.id) for each in self.entries}:
            self.entries.append(entry)

    def page(self, query: AuditQuery) -> AuditPage:
        found = [
            entry
            for entry in sorted(self.entries, key=lambda entry: (entry.at_ms, entry.id), reverse=True)
            if entry.club_id == query.club_id
            and query.start_ms <= entry.at_ms < query.end_ms
            and (query.before is None or (entry.at_ms, entry.id) < query.before)
        ]
        return AuditPage(entries=found[: query.limit], more=len(found) > query.limit)
