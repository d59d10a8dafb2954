"""The commands `masscomm sends`: they list, show, watch and control sends through the REST API."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, cast

import httpx
import typer
from rich.table import Table
from rich.text import Text

from cli.errors import CommandError
from cli.options import JsonOption, given
from cli.sending import follow, shown_message
from cli.terminal import Terminal, print_answer, print_json
from cli.times import SinceOption, moment
from masscomm_client import ApiError, Client
from masscomm_client.types import PreviewRequest, SendsFilters, SendState, Status

if TYPE_CHECKING:
    from local.devstack.config import StackConfig

app = typer.Typer(no_args_is_help=True)
console = Terminal()

# The largest page of the lists.
_PAGE = 200
_ATTEMPTS = 3
# Why there is no message, by the API's reason.
_NOT_KEPT = {
    "category": "messages of mandatory and unknown categories are not kept",
    "critical": "messages of critical sends are not kept",
    "small": "messages of small sends by Kafka are not kept",
    "too_large": "its data has more than 100,000 bytes",
    "expired": "it was deleted 30 days after the time of the send",
    "unknown": "it was deleted with the data of a recipient, or the send is older than kept messages",
}

UrlOption = Annotated[
    str | None, typer.Option("--url", envvar="MASSCOMM_API_URL", help="The API; by default that of the local stack.")
]
SendIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the send.")]


class Api(Client):
    """A client of the API.

    Attributes:
        address: The address of the API, which serves the console, too.
        stack: The configuration of the stack of this machine; None if the API is another one.
    """

    def __init__(self, address: str, *, key: str | None, stack: "StackConfig | None" = None) -> None:
        super().__init__(address, key=key, attempts=_ATTEMPTS)
        self.address = address
        self.stack = stack


def rest_api(*, url: UrlOption = None) -> Api:
    """Return a client of the API. It sends the key in MASSCOMM_API_KEY; to the local stack, by default the
    development key. Raises NotRunningError if there is none: a command makes no key for a stack that does not exist.
    """
    key = os.environ.get("MASSCOMM_API_KEY")
    if url:
        return Api(url.rstrip("/"), key=key)  # The development key is not sent to another API.
    from local.devstack.config import StackConfig
    from local.devstack.state import NotRunningError, running_config

    config = running_config(StackConfig.from_environment())
    if key is None and not config.api_key_file.exists():
        raise NotRunningError(
            f"{config.state_dir} has no stack. `masscomm up` starts one; MASSCOMM_STATE names another."
        )
    return Api(config.gateway_url, key=key or config.api_key, stack=config)


def calling(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of `rest_api` in the place of its parameter `api`, whose client is closed after
    it. Raises CommandError with the API's reason.
    """

    @given(api=rest_api)
    @wraps(command)
    def run(*, api: Api, **values: Any) -> None:
        try:
            with api:
                command(api=api, **values)
        except ApiError as error:
            raise CommandError(str(error)) from error
        except httpx.HTTPError as error:
            raise CommandError(f"The API does not answer: {error}. `masscomm status` shows the local stack.") from error

    return run


@app.command("list")
@calling
def list_sends(
    *,
    api: Client,
    club: Annotated[list[int] | None, typer.Option("--club", help="Only this club. May be repeated.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--type", help="Only this category. May be repeated.")] = None,
    status: Annotated[list[str] | None, typer.Option("--status", help="Such as in_progress. May be repeated.")] = None,
    since: SinceOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The maximum number of sends.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show the latest sends, of an operator those of every club."""
    # The API refuses another status, and names the valid ones.
    statuses = cast("list[SendState]", status or [])
    chosen: SendsFilters = {"club_id": club or [], "type": kind or [], "status": statuses, "limit": min(limit, _PAGE)}
    if since is not None:
        chosen["start"] = moment(since, datetime.now(UTC)).isoformat(timespec="seconds")
    found = api.sends(**chosen)
    rows = list(islice(found, limit))
    if as_json:
        for row in rows:
            print_json(row)
        return
    table = Table(
        title=f"{len(rows)} send{'' if len(rows) == 1 else 's'}", title_justify="left", box=None, pad_edge=False
    )
    table.add_column("send", no_wrap=True, min_width=36)
    several = len({row["club_id"] for row in rows}) > 1
    for name in ("at", *(["club"] if several else []), "type", "status", "published"):
        table.add_column(name, overflow="fold", no_wrap=name != "type")
    for row in rows:
        requested = "?" if row["requested"] is None else f"{row['requested']:,}"
        published = f"{row['published']:,}/{requested}"
        club_id = [str(row["club_id"])] if several else []
        at = _short(str(row["requested_at"]))
        table.add_row(row["send_id"], at, *club_id, row["type"], row["status"], published)
    console.print(table)


@app.command()
@calling
def show(send_id: SendIdArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Print the results of a send as the API returns them, in JSON."""
    print_json(api.get_send(send_id), indent=None if as_json else 2)


@app.command()
@calling
def message(
    send_id: SendIdArgument,
    *,
    api: Client,
    user: Annotated[int | None, typer.Option("--user", help="The user; without it, a user without a name.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the message of a send, with the present templates. It is kept for 30 days."""
    found = api.message(send_id)
    if found["content"] is None:
        raise CommandError(f"There is no message of this send: {_NOT_KEPT.get(str(found['reason']), found['reason'])}.")
    fields: PreviewRequest = {**found["content"]}  # type: ignore[typeddict-item]  # the API's channels
    if user is not None:
        fields["user_id"] = user
    preview = api.preview(**fields)
    if as_json:
        print_json(preview)
        return
    for each in preview["messages"]:
        console.print(shown_message(each), soft_wrap=True)
    if found["hidden"]:
        names = ", ".join(found["hidden"])
        console.print(Text(f"The values of {names} need the scope users:read.", "yellow"), soft_wrap=True)


@app.command()
@calling
def watch(
    send_id: SendIdArgument,
    *,
    api: Client,
    timeout_s: Annotated[float, typer.Option("--timeout", min=1, help="Seconds after which watching fails.")] = 3_600,
    as_json: JsonOption = False,
) -> None:
    """Show the counts of a send until all of its notifications have ended."""
    follow(api, send_id, console, timeout_s, through_quiet_hours=True, as_json=as_json)


@app.command()
@calling
def cancel(send_id: SendIdArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Cancel the notifications of a send that are not published yet. It cannot be undone."""
    answer = api.cancel(send_id)
    published = f"{answer['published_before']:,} notifications were published before"
    print_answer(answer, f"Send {send_id} is being cancelled; {published}.", console, as_json=as_json)


@app.command()
@calling
def pause(send_id: SendIdArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Hold the notifications of a send that are not published yet, until it is resumed or cancelled."""
    answer = api.pause(send_id)
    published = f"{answer['published_before']:,} notifications are published"
    sentence = f"Send {send_id} is paused since {answer['paused_at']}; {published}."
    print_answer(answer, sentence, console, as_json=as_json)


@app.command()
@calling
def resume(send_id: SendIdArgument, *, api: Client, as_json: JsonOption = False) -> None:
    """Continue a paused send."""
    answer = api.resume(send_id)
    sentence = f"Send {send_id} is resumed; its held notifications continue within a minute."
    print_answer(answer, sentence, console, as_json=as_json)


@app.command()
@calling
def move(
    send_id: SendIdArgument,
    send_at: Annotated[str, typer.Argument(metavar="TIME", help="The new time, e.g. 2026-11-24T18:00:00+01:00.")],
    *,
    api: Client,
    as_json: JsonOption = False,
) -> None:
    """Move a scheduled send to another time."""
    answer = api.reschedule(send_id, send_at)
    print_answer(answer, f"Send {send_id} is scheduled for {answer['send_at']}.", console, as_json=as_json)


@app.command()
@calling
def pace(
    send_id: SendIdArgument,
    per_minute: Annotated[int, typer.Argument(metavar="N", help="The most recipients that are released in a minute.")],
    *,
    api: Client,
    as_json: JsonOption = False,
) -> None:
    """Change the pace of a send that has one."""
    answer = api.reschedule(send_id, per_minute=per_minute)
    sentence = f"Send {send_id} releases at most {answer['per_minute']:,} recipients a minute."
    print_answer(answer, sentence, console, as_json=as_json)


@app.command()
@calling
def recipients(
    send_id: SendIdArgument,
    *,
    api: Client,
    status: Annotated[
        list[str] | None, typer.Option("--status", help="Only this status, such as sent. May be repeated.")
    ] = None,
    channel: Annotated[list[str] | None, typer.Option("--channel", help="Only this channel. May be repeated.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The maximum number of rows.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show the notifications of a send with their statuses. It needs the log of recipients."""
    statuses = cast("list[Status]", status or [])
    found = api.recipients(send_id, status=statuses, channel=channel or [], limit=min(limit, _PAGE))
    rows = list(islice(found, limit))
    if as_json:
        for row in rows:
            print_json(row)
        return
    table = Table(title=f"{len(rows)} notifications", title_justify="left", box=None)
    for name in ("user", "channel", "status", "at"):
        table.add_column(name, no_wrap=True)
    table.add_column("decision", overflow="fold")
    for row in rows:
        at = str(row["at"])[:19].replace("T", " ")
        table.add_row(str(row["user_id"]), row["channel"], row["status"], at, row["decision"])
    console.print(table)


def _short(at: str) -> str:
    """Return the time of day of a time of today, and the date of another, so that a row fits into 80 columns."""
    return at[11:16] if at[:10] == datetime.now(UTC).date().isoformat() else at[:10]
