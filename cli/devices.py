"""The commands `masscomm devices`: they list, count and enable disabled devices through the REST API."""

from itertools import islice
from typing import Annotated, cast

import typer
from rich.table import Table

from cli.options import JsonOption
from cli.sends import calling
from cli.terminal import Terminal, print_json
from masscomm_client import Client
from masscomm_client.types import DevicesFilters, DevicesReason

app = typer.Typer(no_args_is_help=True)
console = Terminal()

# The largest page of the list.
_PAGE = 200
ClubOption = Annotated[list[int] | None, typer.Option("--club", help="Only this club. May be repeated.")]


@app.command("list")
@calling
def list_devices(
    *,
    api: Client,
    club: ClubOption = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Only this reason, such as takes_nothing.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The maximum number of devices.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show disabled devices, those disabled last first: user, club, platform, reason and time."""
    chosen: DevicesFilters = {"club_id": club or []}
    if reason is not None:
        chosen["reason"] = cast("DevicesReason", reason)  # The API refuses another one, and names the valid ones.
    chosen["limit"] = min(limit, _PAGE)
    rows = list(islice(api.devices(**chosen), limit))
    if as_json:
        for row in rows:
            print_json(row)
        return
    table = Table(title=f"{len(rows)} device{'' if len(rows) == 1 else 's'}", title_justify="left", box=None)
    for name in ("device", "user", "club", "platform", "reason", "since", "enable"):
        table.add_column(name, no_wrap=True)
    for row in rows:
        known = (row["user_id"], row["club_id"], row["platform"])
        since = row["since"][:16].replace("T", " ")
        enabled = "yes" if row["can_be_enabled"] else "no"
        table.add_row(str(row["device_id"]), *(str(each or "-") for each in known), row["reason"], since, enabled)
    console.print(table)


@app.command()
@calling
def counts(*, api: Client, club: ClubOption = None, as_json: JsonOption = False) -> None:
    """Show the numbers of disabled devices by club and reason."""
    body = api.device_counts(club_id=club or [])
    if as_json:
        print_json(body)
        return
    table = Table(title=f"{sum(row['devices'] for row in body['rows']):,} devices", title_justify="left", box=None)
    table.add_column("club")
    table.add_column("reason")
    table.add_column("devices", justify="right")
    for row in body["rows"]:
        table.add_row(str(row["club_id"] or "-"), row["reason"], f"{row['devices']:,}")
    console.print(table)
    if not body["complete"]:
        console.print(f"These are the {body['examined']:,} devices that were disabled last; there are more.")


@app.command()
@calling
def enable(
    device_id: Annotated[int, typer.Argument(metavar="ID", help="The id of the device.")],
    *,
    api: Client,
    as_json: JsonOption = False,
) -> None:
    """Let the device registrar register the token of a disabled device again."""
    body = api.enable_device(device_id)
    if as_json:
        print_json(body)
    else:
        console.print(f"Device {device_id}: its token will be registered again.")
