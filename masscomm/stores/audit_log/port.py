"""The interface of the audit log."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from aws_lambda_powertools import Logger

from masscomm.clock import Clock
from masscomm.domain.audit import READINGS, Action, AuditEntry, Result, audit_entry
from masscomm.errors import MasscommError


@dataclass(frozen=True, kw_only=True)
class AuditQuery:
    """A page of the entries of one tenant, the latest first."""

    # The club (tenant); None: the entries that concern every club.
    club_id: int | None
    # The times [start_ms, end_ms) in milliseconds since the epoch.
    start_ms: int
    end_ms: int
    # The maximum number of entries.
    limit: int
    # Only entries before this one (time and id), as the last entry of the previous page has them.
    before: tuple[int, str] | None = None


@dataclass(frozen=True, kw_only=True)
class AuditPage:
    entries: Sequence[AuditEntry]
    # Whether earlier entries remain.
    more: bool


class AuditLog(Protocol):
    """Methods raise Retry (down, slow), Stop (no table, no permission) or ItemRefused."""

    def record(self, entry: AuditEntry) -> None:
        """Store an entry. A repeated call stores it once, and no call replaces an entry."""
        ...

    def page(self, query: AuditQuery) -> AuditPage:
        """Return the page of a query."""
        ...


def record_or_log(audit_log: AuditLog, entry: AuditEntry, logger: Logger) -> None:
    """Record an entry of an action that has had its effect. An error of the audit log does not fail the action: the
    entry is in the function's log then.
    """
    try:
        audit_log.record(entry)
    except MasscommError as error:
        logger.exception("the audit log has no entry of this action", error=str(error), **asdict(entry))


class Audit(Protocol):
    """Records an action of one principal in the log of each of the clubs (tenants); None stands for every club."""

    def __call__(
        self,
        action: Action,
        *,
        subject: str,
        clubs: Iterable[int | None] = (None,),
        result: Result = Result.OK,
        detail: str = "",
    ) -> None: ...


@dataclass(frozen=True, kw_only=True)
class PrincipalAudit:
    """The Audit of a request's principal. An error of the audit log fails only a request that reads personal data."""

    audit_log: AuditLog
    clock: Clock
    logger: Logger
    principal: str

    def __call__(
        self,
        action: Action,
        *,
        subject: str,
        clubs: Iterable[int | None] = (None,),
        result: Result = Result.OK,
        detail: str = "",
    ) -> None:
        for club_id in clubs:
            entry = audit_entry(
                action,
                club_id=club_id,
                at_ms=self.clock.now_ms(),
                principal=self.principal,
                subject=subject,
                result=result,
                detail=detail,
            )
            if action in READINGS:  # guard: audit.before_reading
                self.audit_log.record(entry)
            else:
                record_or_log(self.audit_log, entry, self.logger)
