"""The command `masscomm send`: it requests one send by REST or, as the monolith does, by Kafka, and follows it."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from cli.client_log import KAFKA_LOGGER
from cli.digests import METAVAR, digest_in
from cli.errors import CommandError
from cli.options import ClubOption, FollowsOption, JsonOption
from cli.sending import (
    WAIT_S,
    audience_of,
    fallback_of,
    follow,
    pairs,
    push_of,
    recipients,
    show_dry_run,
    show_warnings,
)
from cli.sends import Api, calling
from cli.terminal import Terminal, print_json

if TYPE_CHECKING:
    from local.devstack.config import StackConfig

app = typer.Typer(add_completion=False)
console = Terminal()

# After a send to at most this number of users, their messages are shown.
SHOWN_RECIPIENTS = 10
# The fields that a record has as JSON.
_JSON_OF_RECORDS = ("digest", "push")


@app.command()
@calling
def send(
    *,
    api: Api,
    to: Annotated[
        str | None, typer.Option("--to", "--user", help="User ids and ranges with commas between them, as 1,2,10-99.")
    ] = None,
    audience: Annotated[
        str | None,
        typer.Option(
            "--audience", metavar="JSON", help="A condition or a saved audience, not ids; all: the whole club."
        ),
    ] = None,
    follows: FollowsOption = None,
    without: Annotated[
        list[int] | None, typer.Option("--except", help="A user that the audience does not include. May be repeated.")
    ] = None,
    club: ClubOption = 1,
    kind: Annotated[str, typer.Option("--type", help="The category, as news or one_time_password.")] = "news",
    template: Annotated[str | None, typer.Option("--template", help="The template, if it is not the category.")] = None,
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="KEY=VALUE", help="For the template. May be repeated.")
    ] = None,
    channel: Annotated[
        list[str] | None,
        typer.Option("--channel", help="push, email or sms; else the category's own. May be repeated."),
    ] = None,
    fallback: Annotated[
        list[str] | None,
        typer.Option(
            "--fallback",
            metavar="CHANNEL:IF:AFTER",
            help="A channel that waits for the one before it, as email:not_sent:10m. May be repeated.",
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Not before then, e.g. 2026-11-24T18:00:00+01:00.")
    ] = None,
    audience_at: Annotated[
        str | None,
        typer.Option("--audience-at", help="When the users of --audience are found: due (at --at) or request (now)."),
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option("--digest", metavar=METAVAR, help="How the notifications are collected, as comments_digest/1h."),
    ] = None,
    push: Annotated[
        str | None,
        typer.Option(
            "--push",
            metavar="JSON",
            help='The options of its pushes, as {"silent": true, "data": {"a": "b"}}.',
        ),
    ] = None,
    per_minute: Annotated[
        int | None, typer.Option("--per-minute", help="The most recipients that are released in a minute.")
    ] = None,
    spread_over: Annotated[
        str | None, typer.Option("--spread-over", help="How long the recipients are spread, as 90m, 2h or 1d.")
    ] = None,
    reference: Annotated[str | None, typer.Option("--reference", help="Your own id of the send.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", help="A repetition with the same key within 24 h sends nothing.")
    ] = None,
    critical: Annotated[bool, typer.Option("--critical", help="In the lane that no bulk send delays.")] = False,
    via: Annotated[
        str, typer.Option("--via", help="rest: as a person or program does; kafka: as the monolith does.")
    ] = "rest",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing; show what would become of the send, and its messages.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            "-w",
            help="Show the messages to at most 10 users as they arrive, and follow the send until it has ended.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send something to users, and print where to follow it."""
    has_audience = audience is not None or follows is not None
    if (to is None) is not has_audience:
        raise typer.BadParameter("name the recipients, by --to, or by --audience or --follows")
    if without and not has_audience:
        raise typer.BadParameter("--except needs --audience or --follows")
    users = [] if to is None else recipients(to)
    fields: dict[str, Any] = {
        "type": kind,
        "club_id": club,
        "to_users": users,
        "audience": audience_of(audience, without, follows) if has_audience else None,
        "channels": [*(channel or []), *map(fallback_of, fallback or [])],
        "template": template,
        "data": pairs(data or []),
        "send_at": at,
        "audience_at": audience_at,
        "digest": None if digest is None else digest_in(digest),
        "push": None if push is None else push_of(push),
        "per_minute": per_minute,
        "spread_over": spread_over,
        "reference": reference,
        "priority": "critical" if critical else None,
    }
    fields = {name: value for name, value in fields.items() if value or (name == "per_minute" and value is not None)}
    if via == "kafka":
        if dry_run or at or has_audience or audience_at or idempotency_key:
            raise typer.BadParameter("--dry-run, --at, --audience… and --idempotency-key are for --via rest")
        accepted = _by_kafka(api, fields)
    elif via != "rest":
        raise typer.BadParameter(f"--via {via} is neither rest nor kafka")
    elif dry_run:
        found = api.dry_run(**fields)
        print_json(found) if as_json else show_dry_run(found, console)
        return
    else:
        accepted = dict(api.send(idempotency_key=idempotency_key, **fields))
    requested_s = time.monotonic()
    send_id = str(accepted["send_id"])
    if as_json:
        print_json(accepted)
    else:
        show_warnings(accepted.get("warnings", ()), console)
        console.print(f"send_id {send_id}")
        console.print(f"{api.address}/#/sends/{send_id}", soft_wrap=True)
    if not wait:
        return
    with ExitStack() as resources:
        # The messages are at the provider of the stack on this machine.
        messages = None
        if api.stack is not None and not as_json and 0 < len(users) <= SHOWN_RECIPIENTS:
            messages = _arriving(api.stack, users, send_id, requested_s, resources)
        # The send exists, even while the metrics job has not counted it.
        follow(api, send_id, console, as_json=as_json, unknown_s=WAIT_S, messages=messages)


def _arriving(
    stack: "StackConfig", users: Sequence[int], send_id: str, requested_s: float, resources: ExitStack
) -> Iterator[list[Text]]:
    """Yield, for each read of the provider, the messages of a send that have arrived since the read before."""
    from local.devstack.inbox import Inbox, Unseen

    inbox = Inbox(stack, users)
    resources.callback(inbox.close)
    unseen = Unseen()
    while True:
        new = list(unseen.of(inbox.of_send(send_id)))
        after = f"after {time.monotonic() - requested_s:.1f} s: "
        yield [Text.assemble((after, "green"), each.rendered()) for each in new]


def _by_kafka(api: Api, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Produce a send as the monolith does, and return its id."""
    from examples.monolith.emit import Emitter, NotDelivered

    if api.stack is None:
        raise CommandError("--via kafka needs the stack of this machine: leave --url out.")
    options = record_fields({name: value for name, value in fields.items() if name != "priority"})
    try:
        with Emitter(api.stack.kafka_bootstrap, api.stack.registry_url, logger=KAFKA_LOGGER) as emitter:
            return {"send_id": emitter.send(**options, critical="priority" in fields)}
    except NotDelivered as error:
        raise CommandError(f"The send was not taken: {error}") from error


def record_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request as those of a record of SendRequested. Raises CommandError."""
    from masscomm.domain.pace import PaceError, spread_ms_in

    record = {name: json.dumps(value) if name in _JSON_OF_RECORDS else value for name, value in fields.items()}
    fallbacks = [each for each in fields.get("channels", ()) if not isinstance(each, str)]
    if fallbacks:
        record["channels"] = [each if isinstance(each, str) else each["channel"] for each in fields["channels"]]
        record["fallbacks"] = json.dumps(fallbacks)
    if "spread_over" in record:
        try:
            record["spread_over_ms"] = spread_ms_in(record.pop("spread_over"))
        except PaceError as error:
            raise CommandError(str(error)) from error
    return record
