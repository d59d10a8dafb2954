"""The command `masscomm smoke`: it sends through the REST API of an installation and checks what comes of it."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import typer

from cli.errors import CommandError
from cli.options import ClubOption, JsonOption
from cli.sending import WAIT_S, pairs
from cli.sends import calling
from cli.terminal import Terminal, print_json
from masscomm.domain.simulator import RECIPIENTS, RESULTS, simulate
from masscomm_client import Client

app = typer.Typer(add_completion=False)
console = Terminal()

_POLL_S = 1.0
_CHANNEL: Literal["email"] = "email"
# The statuses with which a message has left masscomm.
_SENT = ("sent", "delivered")


@app.command()
@calling
def smoke(
    *,
    api: Client,
    club: ClubOption,
    user: Annotated[
        int | None,
        typer.Option("--user", help="A user who receives an e-mail, such as one at success@simulator.amazonses.com."),
    ] = None,
    kind: Annotated[str, typer.Option("--type", help="The category of the sends.")] = "news",
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="KEY=VALUE", help="A value of the template. May be repeated.")
    ] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", min=1, help="Seconds to wait for each check.")] = WAIT_S,
    as_json: JsonOption = False,
) -> None:
    """Check an installation after a deployment: sends, statuses, counts, alarms. Exit status 1 if a check fails.

    It sends to the simulator recipients, for whom no provider is called, and to the user that --user names.
    """
    failed = 0
    for name, problem in _checks(api, club, kind, user, pairs(data or []), timeout_s):
        failed += bool(problem)
        if as_json:
            print_json({"check": name, "ok": not problem, "problem": problem})
        elif problem:
            console.failed(f"{name}: {problem}")
        else:
            console.done(name)
    if failed:
        raise typer.Exit(1)


def _checks(
    api: Client, club: int, kind: str, user: int | None, data: dict[str, str], timeout_s: float
) -> Iterator[tuple[str, str]]:
    """Yield the name of each check with its problem, which is empty if the check succeeds."""
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    before = _requested(api, club, kind, start)
    sent = api.send(type=kind, club_id=club, to_users=list(RECIPIENTS), channels=[_CHANNEL], data=data)
    requested = len(RECIPIENTS)
    wanted = {each: simulate(each, _CHANNEL).status for each in RECIPIENTS}
    found = _ended(api, sent["send_id"], timeout_s)
    wrong = [
        f"{each} is {status}"
        for each, expected in wanted.items()
        if (status := found.get(each, ("unknown", ""))[0]) != expected
    ]
    yield f"{len(RESULTS)} simulator recipients have their statuses", ", ".join(wrong)
    if user is not None:
        real = api.send(type=kind, club_id=club, to_users=[user], channels=[_CHANNEL], data=data)
        requested += 1
        status, decision_text = _ended(api, real["send_id"], timeout_s).get(user, ("unknown", "no such recipient"))
        yield f"an e-mail to user {user} is sent", "" if status in _SENT else f"it is {status}: {decision_text}"
    counted, deadline = 0, time.monotonic() + timeout_s
    while (counted := _requested(api, club, kind, start) - before) < requested and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    yield (
        f"the metrics count {requested} requested notifications",
        "" if counted >= requested else f"{counted} after {timeout_s:.0f} s",
    )
    alarms = api.alarms()
    ringing = [row["name"] for row in alarms["rows"] if row["state"] == "alarm"]
    yield "no alarm rings", ", ".join(ringing)


def _ended(api: Client, send_id: str, timeout_s: float) -> dict[int, tuple[str, str]]:
    """Return the status of each recipient at the end of a send, alone and with its reason in words.

    Raises:
        CommandError: The send has not ended in time.
    """
    try:
        for _ in api.follow(send_id, timeout_s=timeout_s, poll_s=_POLL_S):
            pass
    except TimeoutError as error:
        raise CommandError(f"The send {send_id} has not ended: `masscomm trace {send_id}` shows its steps.") from error
    return {row["user_id"]: (row["status"], row["decision"]) for row in api.recipients(send_id)}


def _requested(api: Client, club: int, kind: str, start: datetime) -> int:
    """Return the number of requested notifications since that hour."""
    end = start + timedelta(hours=2)
    body = api.metrics(
        granularity="hour",
        start=start.isoformat(),
        end=end.isoformat(),
        club_id=club,
        type=kind,
        channel=_CHANNEL,
        measure="requested",
    )
    return sum(row.get("count_total", 0) for row in body["rows"])
