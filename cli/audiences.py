"""The commands `masscomm audience`: they count the users of an audience, and send to them, through the REST API."""

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from cli.errors import CommandError
from cli.options import JsonOption
from cli.sending import follow, pairs, show_dry_run
from cli.sends import calling
from cli.terminal import Terminal, print_json
from masscomm_client import Client

app = typer.Typer(help="Audiences: users of a club by conditions.", no_args_is_help=True)
console = Terminal()


ClubOption = Annotated[int, typer.Option("--club", help="The club (tenant).")]
WhereOption = Annotated[
    str | None, typer.Option("--where", metavar="JSON", help="The condition; without it, all users of the club.")
]
ExceptOption = Annotated[list[int] | None, typer.Option("--except", help="Without this user. May be repeated.")]
ChannelOption = Annotated[list[str] | None, typer.Option("--channel", help="Only this channel. May be repeated.")]


@app.command()
@calling
def count(
    *,
    api: Client,
    club: ClubOption,
    where: WhereOption = None,
    without: ExceptOption = None,
    channel: ChannelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count the users of an audience, and by channel those that it can reach."""
    fields: dict[str, Any] = {"club_id": club, "audience": _audience(where, without)}
    body = api.count_audience(**fields | ({"channels": channel} if channel else {}))
    if as_json:
        print_json(body)
        return
    qualifier = "" if body["complete"] else "at least "
    table = Table(title=f"{qualifier}{body['users']:,} users", title_justify="left", box=None)
    table.add_column("channel")
    table.add_column("reachable", justify="right")
    for name, number in body["channels"].items():
        table.add_row(name, f"{number:,}")
    console.print(table)
    if not body["complete"]:
        console.print(f"The time of a request ended after {body['examined']:,} users of the club.")


@app.command()
@calling
def send(
    *,
    api: Client,
    club: ClubOption,
    where: WhereOption = None,
    without: ExceptOption = None,
    channel: ChannelOption = None,
    kind: Annotated[str, typer.Option("--type", help="The category.")] = "news",
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="KEY=VALUE", help="For the template. May be repeated.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing; show what would become of the send, and its messages.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Follow the send until it has ended.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Send to the users of an audience, and print the id of the send."""
    fields: dict[str, Any] = {"type": kind, "club_id": club, "audience": _audience(where, without)}
    fields |= {"channels": channel or [], "data": pairs(data or [])}
    if dry_run:
        body = api.dry_run(**fields)
        print_json(body) if as_json else show_dry_run(body, console)
        return
    accepted = api.send(**fields)
    if as_json:
        print_json(accepted)
    else:
        console.print(f"send_id {accepted['send_id']}")
    if wait:
        follow(api, accepted["send_id"], console)


def _audience(where: str | None, without: list[int] | None) -> dict[str, Any]:
    """Return the audience of the options. Raises CommandError."""
    try:
        audience = {"all_users": True} if where is None else {"where": json.loads(where)}
    except ValueError as error:
        raise CommandError(f"--where is not JSON: {error}") from error
    return audience | {"except_users": without or []}
