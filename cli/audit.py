"""The command `masscomm audit`: it shows the audit log."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from cli.installation import Installation, installation
from cli.options import JsonOption, given
from cli.terminal import Terminal, print_json
from cli.times import SinceOption, moment
from masscomm.domain.audit import AuditEntry
from masscomm.stores.audit_log.port import AuditQuery

app = typer.Typer(add_completion=False)
console = Terminal()


@app.command()
@given(installation=installation)
def audit(
    *,
    installation: Installation,
    club: Annotated[
        int | None, typer.Option("--club", help="The tenant; without it, actions that concern every tenant.")
    ] = None,
    since: SinceOption = "24h",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="The maximum number of entries.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Show which principal did what, the latest entries first."""
    now = datetime.now(UTC)
    start_ms, end_ms = (int(each.timestamp() * 1000) for each in (moment(since or "24h", now), now))
    query = AuditQuery(club_id=club, start_ms=max(0, start_ms), end_ms=end_ms + 1, limit=limit)
    page = installation.audit_log().page(query)
    if as_json:
        for each in page.entries:
            print_json(_shown(each))
        return
    console.print(f"{len(page.entries)} entr{'y' if len(page.entries) == 1 else 'ies'}")
    for each in page.entries:
        at = str(_shown(each)["at"])[:19].replace("T", " ")
        console.entry(f"{at} {each.action} {each.result}", f"{each.principal}: {each.subject} {each.detail}".rstrip())


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
