"""`masscomm suppressions`: list and remove e-mail addresses that bounced or whose owner complained."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from devstack.installation import Installation, installation
from devstack.options import JsonOption, given
from devstack.terminal import Terminal, print_json
from masscomm.directory.bulk_writes import answering
from masscomm.domain.audit import Action
from masscomm.domain.ids import address_id
from masscomm.domain.suppressions import INDEX

app = typer.Typer(help="Addresses to which no e-mail is sent.", no_args_is_help=True)
console = Terminal()

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
        int, typer.Option("--limit", "-n", min=1, max=10_000, help="The maximum number of suppressions.")
    ] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show each suppression: club, address, reason, start and end. Suppressions of earlier versions apply to every
    club.
    """
    found = list(_read(installation, club, address, limit))
    if as_json:
        for each in found:
            print_json(each)
        return
    table = Table(*("club", "address (SHA-256)", "reason", "since", "until"), title=f"{len(found)} suppressions")
    for each in found:
        table.add_row(
            "every" if each["club_id"] is None else str(each["club_id"]),
            each["address_id"],
            each["reason"],
            each["at"],
            each["expires_at"] or "for ever",
        )
    console.print(table)


@app.command()
@given(installation=installation)
def remove(
    address: Annotated[str, typer.Argument(help="The address itself, or its SHA-256 as `list` shows it.")],
    *,
    installation: Installation,
    club: Annotated[int, typer.Option("--club", help="The tenant whose suppression it is.")],
    every_club: Annotated[
        bool,
        typer.Option("--every-club", help="Also remove suppressions of earlier versions, which apply to every club."),
    ] = False,
) -> None:
    """Remove the suppression of an address. Exit status 1 if the club had none, or if a suppression for every club
    remains.
    """
    hashed = address_id(address) if "@" in address else address
    own = f"{club}-{hashed}"
    client = installation.opensearch()
    with answering("a removal of suppressions"):
        client.indices.refresh(index=INDEX)
        wanted = {"query": {"ids": {"values": [own, hashed] if every_club else [own]}}}
        removed = client.delete_by_query(index=INDEX, body=wanted, params={"refresh": True})["deleted"]
        remaining = client.mget(index=INDEX, body={"ids": [own, hashed]})["docs"]
    installation.audit(Action.SUPPRESSION_REMOVED, subject=hashed, clubs=[club], detail=f"{removed} removed")
    console.print(f"{removed} removed.")
    if any(document["found"] for document in remaining):
        console.print("An earlier version suppressed the address for every club: --every-club removes that too.")
    elif not removed:
        console.print("The address was not suppressed for this club.")
    else:
        return
    raise typer.Exit(1)


def _read(installation: Installation, club: int | None, address: str | None, limit: int) -> Iterator[dict[str, Any]]:
    """Return the suppressions in the order of their creation."""
    filters: list[dict[str, Any]] = [] if club is None else [{"term": {"club_id": club}}]
    if address is not None:
        hashed = address_id(address) if "@" in address else address
        either = [{"term": {"address_id": hashed}}, {"ids": {"values": [hashed]}}]
        filters.append({"bool": {"should": either}})
    body = {"query": {"bool": {"filter": filters}}, "sort": [{"at": "asc"}], "size": limit}
    with answering("a search of suppressions"):
        hits = installation.opensearch().search(index=INDEX, body=body)["hits"]["hits"]
    for hit in hits:
        source = hit["_source"]
        yield {
            "club_id": source.get("club_id"),
            "address_id": source.get("address_id", hit["_id"]),
            "reason": source["reason"],
            "at": _iso(source["at"]),
            "expires_at": _iso(source["expires_at"]) if "expires_at" in source else None,
        }


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
