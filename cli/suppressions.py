"""`masscomm suppressions`: list and remove e-mail addresses that bounced or whose owner complained."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from cli.installation import Installation, installation
from cli.options import JsonOption, given
from cli.terminal import Terminal, print_answer, print_json
from masscomm.directory.suppression_list import OpenSearchSuppressionList, StoredSuppression
from masscomm.domain.audit import Action
from masscomm.domain.ids import address_id

app = typer.Typer(no_args_is_help=True)
console = Terminal()
errors = Terminal(stderr=True)

ClubOption = Annotated[int | None, typer.Option("--club", help="The tenant's alone.")]
AddressOption = Annotated[str | None, typer.Option("--address", help="Of this address. Only its hash is stored.")]


@app.command("list")
@given(installation=installation)
def list_suppressions(
    *,
    installation: Installation,
    club: ClubOption = None,
    address: AddressOption = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=9_999, help="The maximum number of suppressions.")
    ] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show each suppression, the latest first: club, address, reason, start and end."""
    page = OpenSearchSuppressionList(installation.opensearch()).page(
        clubs=[] if club is None else [club],
        address_id=None if address is None else _hash(address),
        limit=limit,
        after=None,
    )
    found = [_shown(row) for row in page.rows]
    if as_json:
        for each in found:
            print_json(each)
        return
    console.print(f"{len(found)} suppressions")
    for each in found:
        text = f"club {each['club_id']}, {each['reason']}, from {each['at']} until {each['expires_at']}"
        console.entry(each["address_id"], text)


@app.command()
@given(installation=installation)
def remove(
    address: Annotated[str, typer.Argument(help="The address itself, or its SHA-256 as `list` shows it.")],
    *,
    installation: Installation,
    club: Annotated[int, typer.Option("--club", help="The tenant whose suppression it is.")],
    as_json: JsonOption = False,
) -> None:
    """Remove the suppression of an address. Exit status 1 if the club had none."""
    hashed = _hash(address)
    removed = int(OpenSearchSuppressionList(installation.opensearch()).remove(f"{club}-{hashed}"))
    installation.audit(Action.SUPPRESSION_REMOVED, subject=hashed, clubs=[club], detail=f"{removed} removed")
    print_answer({"removed": removed}, f"{removed} removed.", console, as_json=as_json)
    if not removed:
        errors.print("The address was not suppressed for this club.")
        raise typer.Exit(1)


def _shown(found: StoredSuppression) -> dict[str, Any]:
    return {
        "club_id": found.club_id,
        "address_id": found.address_id,
        "reason": found.reason,
        "at": _iso(found.at_ms),
        "expires_at": _iso(found.expires_at_ms),
    }


def _hash(address: str) -> str:
    return address_id(address) if "@" in address else address


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
