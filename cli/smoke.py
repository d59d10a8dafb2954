"""The command `masscomm smoke`: it sends through the REST API of an installation and checks the results.

With the name of a deployed environment, infra/smoke.py finds the API and makes a key, and runs this command with both.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import typer

from cli.deployed import run_module
from cli.errors import CommandError
from cli.options import ClubOption, EnvironmentsOption, JsonOption
from cli.sending import WAIT_S, pairs
from cli.sends import calling
from cli.terminal import Terminal, print_json
from masscomm.domain.simulator import RECIPIENTS, RESULTS, simulate
from masscomm_client import Client

app = typer.Typer(add_completion=False)
console = Terminal()

_POLL_S = 1.0
type _Channel = Literal["push", "email", "sms"]
_SIMULATED: _Channel = "email"
# The statuses with which a message has left masscomm.
_SENT = ("sent", "delivered")


@app.command()
def smoke(
    environment: Annotated[
        str | None, typer.Argument(help="A deployed environment, such as prod: finds its API, makes a key for the run.")
    ] = None,
    *,
    club: ClubOption,
    user: Annotated[
        int | None,
        typer.Option("--user", help="A user who receives a message, such as one at success@simulator.amazonses.com."),
    ] = None,
    channel: Annotated[
        list[_Channel] | None,
        typer.Option("--channel", help="A channel of messages to the user; by default email. May be repeated."),
    ] = None,
    kind: Annotated[str, typer.Option("--type", help="The category of the sends.")] = "news",
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="KEY=VALUE", help="A value of the template. May be repeated.")
    ] = None,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", min=1, help="Seconds to wait for each check. Default: 120.")
    ] = None,
    as_json: JsonOption = False,
    url: Annotated[
        str | None, typer.Option("--url", help="The API; by default that of the local stack or of the environment.")
    ] = None,
    folder: EnvironmentsOption = None,
) -> None:
    """Check an installation after a deployment: sends, statuses, counts, alarms. Exit status 1 if a check fails.

    It sends to the simulator recipients, without a call to a provider, and to the user that --user names. The key of
    a run ends with it; with MASSCOMM_API_KEY no key is made.
    """
    if environment is None:
        checks = _Checks(
            club=club,
            kind=kind,
            user=user,
            channels=channel or [_SIMULATED],
            data=pairs(data or []),
            timeout_s=timeout_s or WAIT_S,
        )
        _check(url=url or os.environ.get("MASSCOMM_API_URL"), checks=checks, as_json=as_json)
        return
    options: dict[str, Sequence[object]] = {
        "--url": [url],
        "--club": [club],
        "--user": [user],
        "--channel": channel or [],
        "--type": [kind],
        "--data": data or [],
        "--timeout": [timeout_s],
    }
    given = [f"{name}={each}" for name, values in options.items() for each in values if each is not None]
    raise typer.Exit(run_module("smoke", environment, folder, *given, *(["--json"] if as_json else [])))


@dataclass(frozen=True, kw_only=True)
class _Checks:
    """The checks of an installation. The fields are the options of the command."""

    club: int
    kind: str
    user: int | None
    channels: Sequence[_Channel]
    data: dict[str, str]
    timeout_s: float

    def run(self, api: Client) -> Iterator[tuple[str, str]]:
        """Yield the name of each check with its problem, which is empty if the check succeeds."""
        start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        before = _requested(api, self.club, self.kind, start)
        found = self._send(api, RECIPIENTS, _SIMULATED)
        requested = len(RECIPIENTS)
        wrong = [
            f"{each} is {status}"
            for each in RECIPIENTS
            if (status := found.get(each, ("unknown", ""))[0]) != simulate(each, _SIMULATED).status
        ]
        yield f"{len(RESULTS)} simulator recipients have their statuses", ", ".join(wrong)
        if self.user is not None:
            for channel in self.channels:
                requested += 1
                ends = self._send(api, [self.user], channel)
                status, decision_text = ends.get(self.user, ("unknown", "no such recipient"))
                problem = "" if status in _SENT else f"it is {status}: {decision_text}"
                yield f"a message by {channel} to user {self.user} is sent", problem
        counted, deadline = 0, time.monotonic() + self.timeout_s
        while (
            counted := _requested(api, self.club, self.kind, start) - before
        ) < requested and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        yield (
            f"the metrics count {requested} requested notifications",
            "" if counted >= requested else f"{counted} after {self.timeout_s:.0f} s",
        )
        alarms = api.alarms()
        ringing = [row["name"] for row in alarms["rows"] if row["state"] == "alarm"]
        yield "no alarm rings", "the alarms are not evaluated" if not alarms["evaluated"] else ", ".join(ringing)

    def _send(self, api: Client, users: Iterable[int], channel: _Channel) -> dict[int, tuple[str, str]]:
        """Send to users, and return the status of each at the end of the send. Raises CommandError."""
        sent = api.send(type=self.kind, club_id=self.club, to_users=list(users), channels=[channel], data=self.data)
        return _ended(api, sent["send_id"], self.timeout_s)


@calling
def _check(*, api: Client, checks: _Checks, as_json: bool) -> None:
    """Run the checks and print a line for each. Exit with status 1 if one fails."""
    failed = 0
    for name, problem in checks.run(api):
        failed += bool(problem)
        if as_json:
            print_json({"check": name, "ok": not problem, "problem": problem})
        elif problem:
            console.failed(f"{name}: {problem}")
        else:
            console.done(name)
    if failed:
        raise typer.Exit(1)


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
        measure="requested",
    )
    return sum(row.get("count_total", 0) for row in body["rows"])
