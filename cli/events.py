"""The commands `masscomm events`: they report events, and manage event types and subscriptions through the REST API."""

import json
from typing import Annotated, Any

import typer

from cli.errors import CommandError
from cli.json_files import parsed, read_file
from cli.options import JsonOption
from cli.sends import calling
from cli.terminal import Terminal, print_answer, print_json
from masscomm_client import Client
from masscomm_client.types import EventFields, SubscriptionFields, SubscriptionsFilters

app = typer.Typer(no_args_is_help=True)
types = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
subscriptions = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(types, name="types", help="Event types: list, show, put and delete them.")
app.add_typer(subscriptions, name="subscriptions", help="Subscriptions of endpoints to events.")
console = Terminal()

NameArgument = Annotated[str, typer.Argument(metavar="TYPE", help="The event type, such as match.finished.")]


@app.command()
@calling
def report(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A JSON file with one event or a list; - is standard input.")
    ] = None,
    *,
    api: Client,
    event_id: Annotated[str | None, typer.Option("--id", help="The id of the event in its club.")] = None,
    name: Annotated[str | None, typer.Option("--type", help="The event type.")] = None,
    club: Annotated[int, typer.Option("--club", help="The club (tenant).")] = 1,
    unit: Annotated[str | None, typer.Option("--unit", help="The path of the unit, as 100/7.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="What the event is about, as an order's id.")] = None,
    data: Annotated[str, typer.Option("--data", metavar="JSON", help="The data, a JSON object.")] = "{}",
    as_json: JsonOption = False,
) -> None:
    """Report events from a file, or one event by --id and --type. The same event of the last 24 hours is repeated."""
    if file is not None:
        found = read_file(file)
        events: list[EventFields] = found if isinstance(found, list) else [found]
    elif event_id is not None and name is not None:
        fields: EventFields = {
            "event_id": event_id,
            "type": name,
            "club_id": club,
            "data": parsed(data, "--data"),
            "unit": unit,
            "key": key,
        }
        events = [fields]
    else:
        raise CommandError("Name a FILE, or an event by --id and --type.")
    answer = api.report_events(events)
    if as_json:
        print_json(answer)
        return
    for each in answer["events"]:
        console.entry(each["event_id"], f"club {each['club_id']}: {each['status']}")


@types.command("list")
@calling
def list_types(*, api: Client, as_json: JsonOption = False) -> None:
    """Show the event types."""
    rows = api.event_types()["rows"]
    if as_json:
        for row in rows:
            print_json(row)
        return
    console.print(f"{len(rows)} event types")
    for row in rows:
        console.entry(row["name"], row["description"], "with a schema" if row["schema"] else "any JSON object")


@types.command("show")
@calling
def show_type(name: NameArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Print an event type as the API returns it, in JSON."""
    print_json(api.event_type(name), indent=None if as_json else 2)


@types.command("put")
@calling
def put_type(
    name: NameArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A JSON file with description, example and, if wanted, schema and user_path; - is standard input.",
        ),
    ],
    *,
    api: Client,
    as_json: JsonOption = False,
) -> None:
    """Store an event type, in the place of an earlier one with its name."""
    answer = api.set_event_type(name, **read_file(file))
    print_answer(answer, f"{name} is stored.", console, as_json=as_json)


@types.command("delete")
@calling
def delete_type(name: NameArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Delete an event type. Further events of the type are refused."""
    print_answer(api.delete_event_type(name), f"{name} is deleted.", console, as_json=as_json)


@subscriptions.command("list")
@calling
def list_subscriptions(
    endpoint: Annotated[
        str | None, typer.Argument(metavar="ENDPOINT", help="The id of the endpoint; without it, the notifications.")
    ] = None,
    *,
    api: Client,
    club: Annotated[int | None, typer.Option("--club", help="The notifications of this club.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the subscriptions of an endpoint, or those whose events become notifications."""
    filters: SubscriptionsFilters = {}
    if endpoint is not None:
        filters["endpoint_id"] = endpoint
    if club is not None:
        filters["club_id"] = club
    rows = api.subscriptions(**filters)["rows"]
    if as_json:
        for row in rows:
            print_json(row)
        return
    console.print(f"{len(rows)} subscriptions")
    for row in rows:
        clubs = "every tenant" if row["club_ids"] is None else f"tenants {', '.join(map(str, row['club_ids']))}"
        units = ", ".join(row["units"]) or "every unit"
        rule = [] if row["notification"] is None else [json.dumps(row["notification"])]
        refused = [
            f"refused {each['events']}, last at {each['last_at']}: {each['reason']} {each['detail']}".rstrip()
            for each in row["refused"]
        ]
        console.entry(row["id"], ", ".join(row["types"]), f"{clubs}; {units}", *_filter(row["filter"]), *rule, *refused)


@subscriptions.command("add")
@calling
def add_subscription(
    endpoint: Annotated[
        str | None, typer.Argument(metavar="ENDPOINT", help="The id of the endpoint; none with --notify.")
    ] = None,
    *,
    api: Client,
    name: Annotated[list[str], typer.Option("--type", help="An event type, match.* or *. May be repeated.")],
    club: Annotated[list[int] | None, typer.Option("--club", help="Only events of this club. May be repeated.")] = None,
    unit: Annotated[
        list[str] | None, typer.Option("--unit", help="Only events of this unit and those below. May be repeated.")
    ] = None,
    condition: Annotated[
        str | None, typer.Option("--filter", metavar="JSON", help='Paths in data and values, as {"kind": ["league"]}.')
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option("--notify", metavar="JSON", help='Notify users, as {"type": "news", "users_path": "fans"}.'),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Subscribe an endpoint to events that occur from now on, or notify users of them."""
    if (endpoint is None) == (notify is None):
        raise CommandError("Name an ENDPOINT, or a notification by --notify.")
    fields: SubscriptionFields = {"types": name}
    if endpoint is not None:
        fields["endpoint_id"] = endpoint
    if notify is not None:
        fields["notification"] = parsed(notify, "--notify")
    if club:
        fields["club_ids"] = club
    if unit:
        fields["units"] = unit
    if condition is not None:
        fields["filter"] = parsed(condition, "--filter")
    answer = api.create_subscription(**fields)
    words = (
        f"Users are notified: {answer['id']}."
        if endpoint is None
        else f"{endpoint} has the subscription {answer['id']}."
    )
    print_answer(answer, words, console, as_json=as_json)


@subscriptions.command("remove")
@calling
def remove_subscription(
    subscription: Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="The id of the subscription.")],
    *,
    api: Client,
    as_json: JsonOption = False,
) -> None:
    """Delete a subscription."""
    print_answer(api.delete_subscription(subscription), f"{subscription} is deleted.", console, as_json=as_json)


def _filter(conditions: Any) -> list[str]:
    return [json.dumps(conditions)] if conditions else []
