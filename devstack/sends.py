"""The commands `masscomm sends`: they list, show, watch and control sends through the REST API."""

import os
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import typer
from rich.table import Table

from devstack.config import StackConfig
from devstack.demo.api import Api, ApiError
from devstack.options import JsonOption, given
from devstack.send import follow
from devstack.stack import StackError
from devstack.terminal import Terminal, print_json

app = typer.Typer(help="Sends: list, show, watch and control them.", no_args_is_help=True)
console = Terminal()

# The largest number of sends on one page of GET /v1/sends.
_PAGE = 200

UrlOption = Annotated[
    str | None, typer.Option("--url", envvar="MASSCOMM_API_URL", help="The API; by default that of the local stack.")
]
SendIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the send.")]


def rest_api(*, url: UrlOption = None) -> Api:
    """Return a client of the API. It sends the key in MASSCOMM_API_KEY; to the local stack, by default the
    development key.
    """
    config, key = StackConfig.from_environment(), os.environ.get("MASSCOMM_API_KEY")
    # The development key is not sent to another API.
    return Api(url, key) if url else Api(config.gateway_url, key or config.api_key)


@app.command("list")
@given(api=rest_api)
def list_sends(
    *,
    api: Api,
    club: Annotated[list[int] | None, typer.Option("--club", help="Only this club. May be repeated.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--type", help="Only this category. May be repeated.")] = None,
    status: Annotated[
        list[str] | None, typer.Option("--status", help="in_progress, cancelled or ended. May be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The maximum number of sends.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show the latest sends. An operator, who sees every club, names the clubs."""
    filters = {"club_id": club or [], "type": kind or [], "status": status or []}
    rows = _called(api, lambda: _first(api, filters, limit))
    if as_json:
        for row in rows:
            print_json(row)
        return
    table = Table(title=f"{len(rows)} sends", title_justify="left", box=None)
    table.add_column("send", no_wrap=True, min_width=36)
    for name in ("requested", "type", "status", "published", "in flight"):
        table.add_column(name, overflow="fold")
    for row in rows:
        published = f"{row['published']:,} of {row['requested']:,}"
        table.add_row(
            row["send_id"],
            str(row["requested_at"])[:16].replace("T", " "),
            row["type"],
            row["status"],
            published,
            f"{row['in_flight']:,}",
        )
    console.print(table)


@app.command()
@given(api=rest_api)
def show(send_id: SendIdArgument, *, api: Api) -> None:
    """Print the results of a send as the API returns them, in JSON."""
    print_json(_called(api, lambda: api.get(_path(send_id))), indent=2)


@app.command()
@given(api=rest_api)
def watch(
    send_id: SendIdArgument,
    *,
    api: Api,
    timeout_s: Annotated[float, typer.Option("--timeout", min=1, help="Seconds after which watching fails.")] = 3_600,
) -> None:
    """Show the counts of a send until all of its notifications have ended."""
    _called(api, lambda: follow(api, send_id, console, timeout_s))


@app.command()
@given(api=rest_api)
def cancel(send_id: SendIdArgument, *, api: Api, as_json: JsonOption = False) -> None:
    """Cancel the notifications of a send that are not published yet. It cannot be undone."""
    answer = _called(api, lambda: api.post(f"{_path(send_id)}/cancel"))
    if as_json:
        print_json(answer)
    else:
        published = f"{answer['published_before']:,} notifications were published before"
        console.print(f"Send {send_id} is being cancelled; {published}.")


@app.command()
@given(api=rest_api)
def pause(send_id: SendIdArgument, *, api: Api, as_json: JsonOption = False) -> None:
    """Hold the notifications of a send that are not published yet, until it is resumed or cancelled."""
    answer = _called(api, lambda: api.post(f"{_path(send_id)}/pause"))
    if as_json:
        print_json(answer)
    else:
        published = f"{answer['published_before']:,} notifications are published"
        console.print(f"Send {send_id} is paused since {answer['paused_at']}; {published}.")


@app.command()
@given(api=rest_api)
def resume(send_id: SendIdArgument, *, api: Api, as_json: JsonOption = False) -> None:
    """Continue a paused send."""
    answer = _called(api, lambda: api.post(f"{_path(send_id)}/resume"))
    if as_json:
        print_json(answer)
    else:
        console.print(f"Send {send_id} is resumed; its held notifications continue within a minute.")


@app.command()
@given(api=rest_api)
def move(
    send_id: SendIdArgument,
    send_at: Annotated[str, typer.Argument(metavar="TIME", help="The new time, e.g. 2026-11-24T18:00:00+01:00.")],
    *,
    api: Api,
    as_json: JsonOption = False,
) -> None:
    """Move a scheduled send to another time."""
    answer = _called(api, lambda: api.patch(_path(send_id), send_at=send_at))
    if as_json:
        print_json(answer)
    else:
        console.print(f"Send {send_id} is scheduled for {answer['send_at']}.")


@app.command()
@given(api=rest_api)
def recipients(
    send_id: SendIdArgument,
    *,
    api: Api,
    status: Annotated[
        list[str] | None, typer.Option("--status", help="Only this status, such as sent. May be repeated.")
    ] = None,
    channel: Annotated[list[str] | None, typer.Option("--channel", help="Only this channel. May be repeated.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The maximum number of rows.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show the notifications of a send with their statuses. It needs the log of recipients."""
    filters = {"status": status or [], "channel": channel or []}
    rows = _called(api, lambda: _first(api, filters, limit, path=f"{_path(send_id)}/recipients"))
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


def _path(send_id: str) -> str:
    return f"/v1/sends/{quote(send_id, safe='')}"


def _first(api: Api, filters: dict[str, Any], limit: int, path: str = "/v1/sends") -> list[dict[str, Any]]:
    """Return the first rows of a list, from as many pages as needed."""
    rows: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = api.get(path, **filters, limit=min(limit - len(rows), _PAGE), **cursor)
        rows += page["rows"]
        if len(rows) >= limit or page["next_cursor"] is None:
            return rows
        cursor = {"cursor": page["next_cursor"]}


def _called[T](api: Api, call: Callable[[], T]) -> T:
    """Return the result of the command's calls, and close the client. Raises StackError with the API's reason."""
    try:
        return call()
    except ApiError as error:
        raise StackError(str(error)) from error
    except httpx.HTTPError as error:
        raise StackError(f"The API does not answer: {error}. `masscomm status` shows the local stack.") from error
    finally:
        api.close()
