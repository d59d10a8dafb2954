"""The command `masscomm audit`: it shows the audit log."""

import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from devstack.installation import Installation, installation
from devstack.options import JsonOption, given
from devstack.terminal import Terminal, print_json
from masscomm.domain.audit import AuditEntry
from masscomm.stores.audit_log import AuditQuery

console = Terminal()


@given(installation=installation)
def audit(
    *,
    installation: Installation,
    club: Annotated[
        int | None, typer.Option("--club", help="The tenant; without it, actions that concern every tenant.")
    ] = None,
    hours: Annotated[int, typer.Option("--hours", min=1, help="Entries of the last hours.")] = 24,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="The maximum number of entries.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Show which principal did what, the latest entries first."""
    end_ms = time.time_ns() // 1_000_000 + 1
    query = AuditQuery(club_id=club, start_ms=max(0, end_ms - hours * 3_600_000), end_ms=end_ms, limit=limit)
    page = installation.audit_log().page(query)
    if as_json:
        for each in page.entries:
            print_json(_shown(each))
        return
    table = Table("at", "principal", "action", "subject", "result", "detail", title=f"{len(page.entries)} entries")
    for each in page.entries:
        shown = _shown(each)
        table.add_row(*(str(shown[name]) for name in ("at", "principal", "action", "subject", "result", "detail")))
    console.print(table)


def _shown(entry: AuditEntry) -> dict[str, object]:
    return {
        "at": datetime.fromtimestamp(entry.at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "club_id": entry.club_id,
        "principal": entry.principal,
        "action": entry.action,
        "subject": entry.subject,
        "result": entry.result,
        "detail": entry.detail,
    }
