"""The commands `masscomm webhooks`: they manage webhook endpoints and their deliveries through the REST API."""

from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any

import typer

from cli.json_files import read_file
from cli.options import JsonOption
from cli.sends import calling
from cli.terminal import Terminal, print_answer, print_json
from masscomm_client import Client
from masscomm_client.types import CreateWebhookRequest

app = typer.Typer(no_args_is_help=True)
console = Terminal()

_PAGE = 200
EndpointArgument = Annotated[str, typer.Argument(metavar="ENDPOINT", help="The id of the endpoint.")]
EventOption = Annotated[
    list[str] | None, typer.Option("--event", help="Only this type, such as send.completed. May be repeated.")
]


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
    as_json: JsonOption = False,
) -> None:
    """Create an endpoint and print its secret. The secret is shown only once."""
    fields: CreateWebhookRequest = {"club_id": club, "url": address, "description": description}
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
    """Enable an endpoint. Deliveries that failed meanwhile can be sent again."""
    answer = api.change_webhook(endpoint, enabled=True)
    print_answer(answer, f"{endpoint} is enabled.", console, as_json=as_json)


@app.command()
@calling
def disable(endpoint: EndpointArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Disable an endpoint: it receives nothing until it is enabled."""
    answer = api.change_webhook(endpoint, enabled=False)
    print_answer(answer, f"{endpoint} is disabled.", console, as_json=as_json)


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
def send_test(endpoint: EndpointArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Send an endpoint the event webhook.test."""
    answer = api.test_webhook(endpoint)
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
