"""The commands `masscomm audience`: they count the users of an audience, and show and save audiences, through the REST
API.
"""

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from cli.options import ClubOption, FollowsOption, JsonOption
from cli.sending import audience_of
from cli.sends import calling
from cli.terminal import Terminal, print_answer, print_json
from masscomm_client import Client

app = typer.Typer(no_args_is_help=True)
console = Terminal()

WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where", metavar="JSON", help="The condition, or a saved audience; without it, all users of the club."
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the saved audience.")]
EtagOption = Annotated[
    str | None,
    typer.Option("--if-match", metavar="ETAG", help="Only if it is as `show` has shown it with this etag."),
]
ExceptOption = Annotated[list[int] | None, typer.Option("--except", help="Without this user. May be repeated.")]
ChannelOption = Annotated[list[str] | None, typer.Option("--channel", help="Only this channel. May be repeated.")]


@app.callback()
def _group() -> None:
    """Audiences: count users of a club by conditions, and save conditions."""


@app.command()
@calling
def count(
    *,
    api: Client,
    club: ClubOption,
    where: WhereOption = None,
    follows: FollowsOption = None,
    without: ExceptOption = None,
    channel: ChannelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count the users of an audience, and by channel those that it can reach."""
    fields: dict[str, Any] = {"club_id": club, "audience": audience_of(where, without, follows)}
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


@app.command("list")
@calling
def list_audiences(*, api: Client, club: ClubOption, as_json: JsonOption = False) -> None:
    """Show the saved audiences of a club."""
    rows = api.audiences(club_id=club)["rows"]
    if as_json:
        for row in rows:
            print_json(row)
        return
    console.print(f"{len(rows)} saved audiences")
    for row in rows:
        console.entry(row["name"], f"changed at {row['changed_at']}")


@app.command()
@calling
def show(name: NameArgument, *, api: Client, club: ClubOption, as_json: JsonOption = False) -> None:
    """Show a saved audience with its condition."""
    found = api.audience(name, club_id=club)
    if as_json:
        print_json(found)
        return
    condition = json.dumps(found["audience"], ensure_ascii=False)
    console.entry(name, condition, f"changed at {found['changed_at']}", f"etag {found['etag']}")


@app.command()
@calling
def put(
    name: NameArgument,
    *,
    api: Client,
    club: ClubOption,
    where: WhereOption = None,
    follows: FollowsOption = None,
    if_match: EtagOption = None,
    new: Annotated[bool, typer.Option("--new", help="Only if the name is new.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Save a condition, in the place of an earlier one with its name."""
    audience = audience_of(where, None, follows)
    del audience["except_users"]
    saved = api.save_audience(name, audience, club_id=club, if_match=if_match, if_none_match="*" if new else None)
    print_answer(saved, f"{name} is saved.", console, as_json=as_json)


@app.command()
@calling
def delete(
    name: NameArgument, *, api: Client, club: ClubOption, if_match: EtagOption = None, as_json: JsonOption = False
) -> None:
    """Delete a saved audience. Sends have copies of its condition."""
    deleted = api.delete_audience(name, club_id=club, if_match=if_match)
    print_answer(deleted, f"{name} is deleted.", console, as_json=as_json)
