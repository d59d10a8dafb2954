"""The commands `masscomm schedule`: they show, save and control recurring sends through the REST API."""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from cli.options import ClubOption, FollowsOption, JsonOption
from cli.sending import audience_of, pairs, recipients
from cli.sends import calling
from cli.terminal import Terminal, print_answer, print_json
from masscomm_client import Client

if TYPE_CHECKING:
    from masscomm_client.types import ScheduleBody, ScheduleRequest

app = typer.Typer(no_args_is_help=True)
console = Terminal()

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.")]


@app.callback()
def _group() -> None:
    """Schedules: sends that recur."""


@app.command("list")
@calling
def list_schedules(*, api: Client, club: ClubOption, as_json: JsonOption = False) -> None:
    """Show the schedules of a club."""
    rows = api.schedules(club_id=club)["rows"]
    if as_json:
        for row in rows:
            print_json(row)
        return
    console.print(f"{len(rows)} schedules")
    for row in rows:
        paused, following = row["paused"], row["next"]
        state = row["state"] if paused is None else f"paused: {paused['reason']}"
        console.entry(row["name"], f"{state}, {'no next time' if following is None else 'next ' + following['at']}")


@app.command()
@calling
def show(name: NameArgument, *, api: Client, club: ClubOption, as_json: JsonOption = False) -> None:
    """Show a schedule with its next times and its last occurrences."""
    _print(api.schedule(name, club_id=club), as_json=as_json)


@app.command()
@calling
def put(
    name: NameArgument,
    *,
    api: Client,
    club: ClubOption,
    rule: Annotated[
        str, typer.Option("--rule", metavar="RRULE", help="As FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0 (RFC 5545).")
    ],
    time_zone: Annotated[str, typer.Option("--zone", help="The time zone of the rule, as Europe/Zurich.")],
    start: Annotated[
        str, typer.Option("--start", metavar="TIME", help="The local time from which it counts, as 2026-11-24T09:00.")
    ],
    to: Annotated[str | None, typer.Option("--to", help="User ids and ranges with commas between them.")] = None,
    audience: Annotated[
        str | None,
        typer.Option("--audience", metavar="JSON", help="A condition or a saved audience; all: the whole club."),
    ] = None,
    follows: FollowsOption = None,
    kind: Annotated[str, typer.Option("--type", help="The category.")] = "news",
    template: Annotated[str | None, typer.Option("--template", help="The template, if it is not the category.")] = None,
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="KEY=VALUE", help="For the template. May be repeated.")
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option("--channel", help="push, email or sms, else the category's. May be repeated.")
    ] = None,
    expires_after: Annotated[
        int | None, typer.Option("--expires-after", metavar="MINUTES", help="Each send expires then.")
    ] = None,
    catch_up: Annotated[
        str, typer.Option("--catch-up", help="Of late occurrences: none, or last to make the newest.")
    ] = "none",
    as_json: JsonOption = False,
) -> None:
    """Save a schedule, in the place of an earlier one with its name."""
    if (to is None) == (audience is None and follows is None):
        raise typer.BadParameter("name the recipients, by --to, or by --audience or --follows")
    send: dict[str, Any] = {
        "type": kind,
        "club_id": club,
        "to_users": None if to is None else recipients(to),
        "audience": audience_of(audience, None, follows) if to is None else None,
        "channels": channel,
        "template": template,
        "data": pairs(data or []),
    }
    schedule = {
        "rule": rule,
        "time_zone": time_zone,
        "starts_at_local": start,
        "expires_after_minutes": expires_after,
        "catch_up": catch_up,
        "send": {field: value for field, value in send.items() if value},
    }
    _print(api.save_schedule(name, cast("ScheduleRequest", schedule), club_id=club), as_json=as_json)


@app.command()
@calling
def pause(name: NameArgument, *, api: Client, club: ClubOption, as_json: JsonOption = False) -> None:
    """Pause a schedule: it makes no send until it is resumed."""
    print_answer(api.pause_schedule(name, club_id=club), f"{name} is paused.", console, as_json=as_json)


@app.command()
@calling
def resume(name: NameArgument, *, api: Client, club: ClubOption, as_json: JsonOption = False) -> None:
    """Continue a paused schedule with its next time; its sends have your permissions then."""
    _print(api.resume_schedule(name, club_id=club), as_json=as_json)


@app.command()
@calling
def delete(name: NameArgument, *, api: Client, club: ClubOption, as_json: JsonOption = False) -> None:
    """Delete a schedule. The sends that it made stay."""
    print_answer(api.delete_schedule(name, club_id=club), f"{name} is deleted.", console, as_json=as_json)


def _print(schedule: "ScheduleBody", *, as_json: bool) -> None:
    if as_json:
        print_json(schedule)
        return
    paused = schedule["paused"]
    state = schedule["state"] if paused is None else f"paused since {paused['since']}: {paused['reason']}"
    console.print(f"{schedule['name']} is {state}; owner {schedule['owner']}")
    console.print(f"{schedule['rule']} in {schedule['time_zone']} from {schedule['starts_at_local']}")
    for time in schedule["next_times"]:
        console.entry(time["local_time"], time["at"])
    for each in schedule["history"]:
        console.entry(each["local_time"], f"{each['state']} {each['reason'] or each['send_id']}")
