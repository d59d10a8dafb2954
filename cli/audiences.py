"""The command `masscomm audience`: it counts the users of an audience through the REST API."""

from typing import Annotated, Any

import typer
from rich.table import Table

from cli.options import ClubOption, JsonOption
from cli.sending import audience_of
from cli.sends import calling
from cli.terminal import Terminal, print_json
from masscomm_client import Client

app = typer.Typer(no_args_is_help=True)
console = Terminal()

WhereOption = Annotated[
    str | None, typer.Option("--where", metavar="JSON", help="The condition; without it, all users of the club.")
]
ExceptOption = Annotated[list[int] | None, typer.Option("--except", help="Without this user. May be repeated.")]
ChannelOption = Annotated[list[str] | None, typer.Option("--channel", help="Only this channel. May be repeated.")]


@app.callback()
def _group() -> None:
    """Audiences: count users of a club by conditions."""


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
    fields: dict[str, Any] = {"club_id": club, "audience": audience_of(where, without)}
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
