"""The commands `masscomm webhooks`: they manage webhook endpoints and their deliveries through the REST API."""

from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any

import typer

from cli.errors import CommandError
from cli.json_files import read_file
from cli.options import JsonOption
from cli.sends import calling
from cli.terminal import Terminal, print_answer, print_json
from masscomm_client import Client
from masscomm_client.types import CreateWebhookRequest, WebhookDeadLettersFilters

app = typer.Typer(no_args_is_help=True)
dead_letters = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(dead_letters, name="dead-letters", help="Messages with events that are not attempted any more.")
console = Terminal()

_PAGE = 200
EndpointArgument = Annotated[str, typer.Argument(metavar="ENDPOINT", help="The id of the endpoint.")]
EventOption = Annotated[
    list[str] | None, typer.Option("--event", help="Only this type, such as send.completed. May be repeated.")
]


TypeOption = Annotated[str | None, typer.Option("--type", help="Only events of this type.")]
AfterOption = Annotated[
    str | None, typer.Option("--after", help="Only those after this id or time, as 2026-11-21T12:00:00Z.")
]
UpToOption = Annotated[str | None, typer.Option("--up-to", help="Only those up to this id or time.")]


@app.command()
@calling
def create(
    address: Annotated[
        str, typer.Argument(metavar="URL", help="The address that receives the events, or the ARN of a queue or bus.")
    ],
    *,
    api: Client,
    club: Annotated[int, typer.Option("--club", help="The club (tenant).")],
    event: EventOption = None,
    description: Annotated[str, typer.Option("--description", help="For people.")] = "",
    role: Annotated[
        str | None, typer.Option("--role", metavar="ARN", help="With the ARN of a queue or bus: the role to assume.")
    ] = None,
    contact: Annotated[
        int | None, typer.Option("--contact", help="The user who gets an e-mail when masscomm disables it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create an endpoint and print its secret. The secret is shown only once."""
    fields: CreateWebhookRequest = {"club_id": club, "url": address, "description": description}
    if contact is not None:
        fields["contact_user_id"] = contact
    if event:
        fields["event_types"] = event  # type: ignore[typeddict-item]  # the API checks the names
    if role is not None:
        fields["role_arn"] = role
    answer = api.create_webhook(**fields)
    _print_secret(answer, as_json=as_json)


@app.command("list")
@calling
def list_endpoints(
    *,
    api: Client,
    club: Annotated[list[int] | None, typer.Option("--club", help="Only this club. May be repeated.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the endpoints. An operator, who sees every club, names the clubs."""
    rows = list(api.webhooks(club_id=club or []))
    if as_json:
        for row in rows:
            print_json(row)
        return
    console.print(f"{len(rows)} endpoints")
    for row in rows:
        status = "enabled" if row["enabled"] else f"disabled {row['disabled_reason'] or ''}"
        failing = f", failing since {row['failing_since']}" if row["failing_since"] else ""
        events = ", ".join(row["event_types"]) or "every type"
        console.entry(row["id"], row["url"], f"{status}{failing}; events: {events}")


@app.command()
@calling
def show(endpoint: EndpointArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Print an endpoint as the API returns it, in JSON."""
    print_json(api.webhook(endpoint), indent=None if as_json else 2)


@app.command()
@calling
def enable(endpoint: EndpointArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Enable an endpoint. Deliveries that failed meanwhile, and dead letters, can be sent again."""
    answer = api.change_webhook(endpoint, enabled=True)
    print_answer(answer, f"{endpoint} is enabled.", console, as_json=as_json)


@app.command()
@calling
def disable(endpoint: EndpointArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Disable an endpoint: it receives nothing until it is enabled."""
    answer = api.change_webhook(endpoint, enabled=False)
    print_answer(answer, f"{endpoint} is disabled.", console, as_json=as_json)


@app.command("contact")
@calling
def set_contact(
    endpoint: EndpointArgument,
    user: Annotated[
        int | None, typer.Argument(metavar="[USER]", help="The id of a user; without it, the contact is removed.")
    ] = None,
    *,
    api: Client,
    as_json: JsonOption = False,
) -> None:
    """Set the user who gets an e-mail when masscomm disables an endpoint."""
    answer = api.change_webhook(endpoint, contact_user_id=user)
    text = "is removed" if user is None else f"is {user}"
    print_answer(answer, f"The contact of {endpoint} {text}.", console, as_json=as_json)


@app.command()
@calling
def delete(endpoint: EndpointArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Delete an endpoint."""
    answer = api.delete_webhook(endpoint)
    print_answer(answer, f"{endpoint} is deleted.", console, as_json=as_json)


@app.command()
@calling
def rotate(endpoint: EndpointArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Give an endpoint a new secret and print it. The previous one also signs for 24 hours."""
    answer = api.rotate_webhook(endpoint)
    _print_secret(answer, as_json=as_json)


@app.command()
@calling
def authenticate(
    endpoint: EndpointArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help='A JSON file such as {"type": "bearer", "token": "…"}, or null for none; - is standard input.',
        ),
    ],
    *,
    api: Client,
    as_json: JsonOption = False,
) -> None:
    """Set the credentials with which masscomm authenticates its requests. They are not shown again."""
    answer = api.change_webhook(endpoint, authentication=read_file(file))
    shown = answer["authentication"]
    kind = "no credentials" if shown is None else f"credentials of type {shown['type']}"
    print_answer(answer, f"{endpoint} has {kind}.", console, as_json=as_json)


@app.command("test")
@calling
def send_test(
    endpoint: EndpointArgument,
    *,
    api: Client,
    event_type: Annotated[
        str | None, typer.Option("--type", help="An event type to which it subscribes: its example is sent.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Send an endpoint the event webhook.test, or the example of an event type."""
    answer = api.test_webhook(endpoint) if event_type is None else api.test_webhook_type(endpoint, event_type)
    _print_delivery(answer, "is sent within a minute", as_json=as_json)


@app.command()
@calling
def deliveries(
    endpoint: EndpointArgument,
    *,
    api: Client,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The maximum number of deliveries.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show the deliveries of an endpoint, the latest first, with the result of the last attempt."""
    rows = list(islice(api.webhook_deliveries(endpoint, limit=min(limit, _PAGE)), limit))
    if as_json:
        for row in rows:
            print_json(row)
        return
    console.print(f"{len(rows)} deliveries")
    for row in rows:
        text = f"{row['event_type']} {row['status']}, attempts: {row['attempts']}"
        if row["last_attempts"]:
            last = row["last_attempts"][0]
            text += f", last answer: {last['status'] or last['error']}"
        if row["next_attempt_at"]:
            text += f", next attempt: {row['next_attempt_at']}"
        console.entry(row["id"], text)


@app.command()
@calling
def resend(
    endpoint: EndpointArgument,
    delivery: Annotated[str, typer.Argument(metavar="DELIVERY", help="The id of the delivery.")],
    *,
    api: Client,
    as_json: JsonOption = False,
) -> None:
    """Attempt a delivery again."""
    answer = api.resend_webhook(endpoint, delivery)
    _print_delivery(answer, "is sent again within a minute", as_json=as_json)


@dead_letters.command("list")
@calling
def list_dead_letters(
    endpoint: EndpointArgument,
    *,
    api: Client,
    after: AfterOption = None,
    up_to: UpToOption = None,
    event_type: TypeOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The maximum number of dead letters.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show the dead letters of an endpoint in the last 14 days, the oldest first. One is listed after a minute."""
    filters = WebhookDeadLettersFilters(limit=min(limit, _PAGE))
    filters.update(_span(after, up_to, event_type))  # type: ignore[typeddict-item]
    rows = list(islice(api.webhook_dead_letters(endpoint, **filters), limit))
    if as_json:
        for row in rows:
            print_json(row)
        return
    console.print(f"{len(rows)} dead letters")
    for row in rows:
        answer = "no answer" if row["status"] is None else f"last answer: {row['status']}"
        console.entry(
            row["id"],
            f"{row['at']} {row['type']} {row['event_id']}",
            f"{row['reason']}, attempts: {row['attempts']}, {answer}",
        )


@dead_letters.command("ack")
@calling
def acknowledge(
    endpoint: EndpointArgument,
    *,
    api: Client,
    up_to: Annotated[str, typer.Option("--up-to", help="The id of the last one, or a time.")],
    as_json: JsonOption = False,
) -> None:
    """Delete the dead letters of an endpoint up to one of them."""
    count, more = 0, True
    while more:
        answer = api.acknowledge_webhook_dead_letters(endpoint, up_to)
        count, more = count + answer["acknowledged"], answer["truncated"]
    print_answer({"acknowledged": count}, f"{count} dead letters are deleted.", console, as_json=as_json)


@dead_letters.command()
@calling
def replay(
    endpoint: EndpointArgument,
    *,
    api: Client,
    ids: Annotated[list[str] | None, typer.Option("--id", help="This dead letter. May be repeated.")] = None,
    after: AfterOption = None,
    up_to: UpToOption = None,
    event_type: TypeOption = None,
    every: Annotated[bool, typer.Option("--all", help="All dead letters of the endpoint.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Send dead letters of an endpoint again: single ones, or those of a span and a type."""
    span = _span(after, up_to, event_type)
    if not (ids or span or every):
        raise CommandError("Name the dead letters: --id, --after, --up-to or --type; or all of them: --all.")
    fields: dict[str, Any] = {"ids": ids, **span} if ids else span
    count, more = 0, True
    while more:
        answer = api.replay_webhook_dead_letters(endpoint, **fields)
        count, more = count + answer["replayed"], answer["truncated"]
    text = f"{count} dead letters are sent again within minutes."
    print_answer({"replayed": count}, text, console, as_json=as_json)


def _span(after: str | None, up_to: str | None, event_type: str | None) -> dict[str, str]:
    """Return the filters that are given."""
    filters = {"after": after, "up_to": up_to, "type": event_type}
    return {name: value for name, value in filters.items() if value is not None}


def _print_secret(answer: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    console.print(f"Endpoint {answer['endpoint']['id']}. Its secret, shown only now:")
    console.print(answer["secret"])
    if (external_id := answer["endpoint"].get("external_id")) is not None:
        console.print(f"The role must require the external id {external_id}.")


def _print_delivery(answer: Mapping[str, Any], what: str, *, as_json: bool) -> None:
    print_answer(answer, f"The event {answer['event_id']} {what}.", console, as_json=as_json)
