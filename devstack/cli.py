"""The `masscomm` command."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from types import FrameType
from typing import Annotated, NoReturn

import typer
from confluent_kafka import KafkaException
from rich.table import Table
from rich.text import Text

from devstack import process
from devstack.audiences import app as audiences_app
from devstack.audit import audit
from devstack.client_log import clients_log_to
from devstack.config import EXAMPLE, ConfigError, StackConfig, example
from devstack.dead_letters import app as dead_letters_app
from devstack.devices import app as devices_app
from devstack.handle import RunningStack
from devstack.installation import Installation, installation
from devstack.keys import app as keys_app
from devstack.options import JsonOption, given
from devstack.preferences import app as preferences_app
from devstack.progress import Progress
from devstack.sends import app as sends_app
from devstack.setup import SetupError
from devstack.source import app as source_app
from devstack.stack import Stack, StackError
from devstack.state import AlreadyRunningError, NotRunningError, RunState
from devstack.suppressions import app as suppressions_app
from devstack.template import app as template_app
from devstack.template import preview
from devstack.terminal import Terminal, print_json, print_lines
from devstack.webhooks import app as webhooks_app
from masscomm.errors import MasscommError
from masscomm.integers import integer
from masscomm.observability.logs import to_standard_error
from provisioning import ProvisioningError

# docs/quick-start.md contains the same command.
FIRST_COMMAND = 'masscomm send --to 42 --type announcement --data title=Hello --data "body=It works." --wait'

app = typer.Typer(
    name="masscomm",
    help="The whole notification service on this machine: start it, watch it, send with it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(audit)
app.command()(preview)
app.add_typer(audiences_app, name="audience")
app.add_typer(dead_letters_app, name="dead-letters")
app.add_typer(devices_app, name="devices")
app.add_typer(keys_app, name="keys")
app.add_typer(preferences_app, name="preferences")
app.add_typer(sends_app, name="sends")
app.add_typer(source_app, name="source")
app.add_typer(suppressions_app, name="suppressions")
app.add_typer(template_app, name="template")
app.add_typer(webhooks_app, name="webhooks")
console = Terminal()
errors = Terminal(stderr=True)


@app.callback()
def _log_clients_to_file() -> None:
    """The whole notification service on this machine: start it, watch it, send with it."""
    clients_log_to(StackConfig.from_environment().log("clients"))


PortOption = Annotated[
    list[str] | None,
    typer.Option("--port", metavar="NAME=NUMBER", help="Use another port, as kafka=19092. May be repeated."),
]


class Interrupted(BaseException):
    """Raised at Ctrl-C or SIGTERM. It is not a subclass of Exception, so that no `except Exception` catches it."""


def _config(ports: list[str] | None = None) -> StackConfig:
    chosen: dict[str, int] = {}
    for text in ports or []:
        name, _, number = text.partition("=")
        try:
            chosen[name] = integer(number, 0)
        except ValueError as error:
            raise ConfigError(f"--port {text} is not NAME=NUMBER.") from error
    return StackConfig.from_environment(ports=chosen)


def _interrupt(number: int, _: FrameType | None) -> None:
    # Only the first signal counts: a second Ctrl-C while the stack stops must not leave half of it running.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(signal.Signals(number).name)


def closing_lines(config: StackConfig) -> list[str]:
    """Return the last lines of a start. The address is alone in its line, so that it can be selected and clicked."""
    return [
        f"Try first:  .venv/bin/{FIRST_COMMAND}",
        "Read on:    docs/quick-start.md, or open the console and the API (Ctrl-C stops everything):",
        f"{config.gateway_url}/",
    ]


def _listening(stack: Stack) -> Table:
    table = Table(title=f"masscomm is up: {stack.start_s:.1f} s, {stack.memory_mb():.0f} MB", title_justify="left")
    for heading in ("service", "listens at", "pid", "MB"):
        table.add_column(heading, justify="right" if heading in ("pid", "MB") else "left", overflow="fold")
    for name, address in stack.urls.items():
        memory = process.rss_mb(process.family(stack.pid(name)))
        table.add_row(name, address, str(stack.pid(name)), f"{memory:.0f}")
    return table


@app.command()
def up(
    port: PortOption = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start in the background and return when it is up.")
    ] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Run the demo as soon as it is up.")] = False,
    exit_after: Annotated[
        bool,
        typer.Option("--exit", help="Stop again after the demo; the exit status is 1 when the demo found a mismatch."),
    ] = False,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="SERVICE", help="Leave a service out. May be repeated.")
    ] = None,
) -> None:
    """Start every service and run until Ctrl-C, which stops them all; restart services that end."""
    config = _config(port)
    if detach:
        _up_detached(
            config, [*(f"--port={each}" for each in port or []), *(f"--without={each}" for each in without or [])]
        )
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    progress = Progress(console)
    stack = Stack(config, without=without or [], on_change=progress)
    try:
        with progress:
            stack.start()
        for orphan in stack.recovered:
            console.print(f"Ended a process of a crashed run: {orphan}", style="yellow")
        console.print(_listening(stack))
        ok = _run_demo(stack) if demo else True
        if exit_after:
            raise typer.Exit(0 if ok else 1)
        for line in closing_lines(config):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        _stay(stack)
    except Interrupted as reason:
        console.print(f"\n{reason}: stopping …")
        # Ctrl-C after a complete start is the normal end of this command, so the exit status is 0.
        raise typer.Exit(1 if stack.crashes else 0 if stack.start_s else 130) from None
    finally:
        stack.on_change = progress
        with progress:
            stack.stop()
        # peak_mb is 0 if no service was started.
        if stack.peak_mb:
            console.print(f"Stopped. The most memory it ever held was {stack.peak_mb:.0f} MB.")


def _stay(stack: Stack) -> NoReturn:
    """Restart services that end, until a signal raises Interrupted."""
    # The progress table is complete; later events are printed as separate lines.
    stack.on_change = lambda _name, _state, _text: None
    stack.keep_up(lambda line: console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True))
    while True:
        threading.Event().wait()


def _run_demo(stack: Stack | RunningStack) -> bool:
    """Run the demo against a stack. If a service of the stack crashes, report it at once and end the demo.

    Raises:
        StackError: The monolith is a database of its own, or another example.
    """
    if StackConfig.from_environment().monolith_url is not None:
        raise StackError("The demo writes to the example's tables only: unset MASSCOMM_MONOLITH.")
    if example() != EXAMPLE:
        raise StackError("The demo writes to the tables of examples/monolith only: restore schemas/source.yaml.")
    from devstack.demo import run_demo

    over = threading.Event()
    if isinstance(stack, Stack):
        threading.Thread(target=_end_at_crash, args=(stack, over), daemon=True).start()
    try:
        return bool(run_demo(stack))
    finally:
        over.set()


def _end_at_crash(stack: Stack, over: threading.Event) -> None:
    """Report the first crash of a service and interrupt the main thread, which would otherwise wait until its
    time-out.

    Args:
        stack: The stack that this process runs.
        over: Set when the demo has ended: later crashes are ignored.
    """
    stack.crashed.wait()
    if over.is_set():
        return
    _report_crashes(stack)
    os.kill(os.getpid(), signal.SIGTERM)


def _report_crashes(stack: Stack) -> None:
    for crash in stack.crashes:
        errors.print(str(crash), style="red")


def _up_detached(config: StackConfig, options: list[str]) -> None:
    state = RunState(config)
    if holder := state.holder():
        raise AlreadyRunningError(f"A stack already runs here: pid {holder['pid']}, since {holder['since']}.")
    log = config.log("stack")
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "devstack.cli", "up", *options]
    state.path.unlink(missing_ok=True)
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "MASSCOMM_STATE": str(config.state_dir)},
        )
    pause = threading.Event()
    with console.status(f"starting, see {log}"):
        while not state.read().get("ready"):
            if child.poll() is not None:
                errors.print(log.read_text(errors="replace"))
                raise typer.Exit(1)
            pause.wait(0.2)
    console.print(f"Up in {state.read()['start_s']:.1f} s. `masscomm status` shows it, `masscomm down` stops it.")


@app.command()
def down() -> None:
    """Stop the stack that runs in the background or in another terminal."""
    stack = RunningStack.of(_config())
    ticks = process.start_ticks(stack.holder_pid)
    os.kill(stack.holder_pid, signal.SIGTERM)
    pause = threading.Event()
    with console.status("stopping"):
        while process.start_ticks(stack.holder_pid) == ticks is not None:
            pause.wait(0.1)
    console.print("Stopped.")


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print it for programs.")] = False,
) -> None:
    """Show the services, their processes and their memory. Exit status 3 when nothing runs."""
    try:
        stack = RunningStack.of(_config())
    except NotRunningError as error:
        console.print(str(error))
        raise typer.Exit(3) from None
    if as_json:
        print_json(stack.as_json(), indent=2)
        return
    state = "up" if stack.ready else "starting"
    title = f"{state} · pid {stack.holder_pid} · since {stack.since} · {stack.memory_mb():.0f} MB"
    table = Table(title=title, title_justify="left")
    for heading in ("service", "state", "pid", "port", "MB", "uptime"):
        table.add_column(
            heading, justify="right" if heading in ("pid", "MB", "uptime", "port") else "left", overflow="fold"
        )
    for name, started in stack.services.items():
        alive = started.alive()
        age = int((datetime.now(UTC) - datetime.fromisoformat(started.since)).total_seconds())
        table.add_row(
            name,
            (Text("ready", "green") if started.ready_s is not None else Text("starting", "cyan"))
            if alive
            else Text("gone", "red"),
            str(started.pid),
            ", ".join(str(port) for port in started.ports),
            f"{stack.service_memory_mb(name):.0f}",
            f"{age // 60}:{age % 60:02}",
        )
    console.print(table)
    console.print(f"The API: {stack.config.gateway_url}", soft_wrap=True)


@app.command()
def logs(
    service: Annotated[
        str | None, typer.Argument(help="A service or a function; without one, every log and its size is listed.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many lines of the end to print.")] = 50,
) -> None:
    """Print the end of a service's or a function's log."""
    folder = _config().state_dir / "logs"
    if service is None:
        table = Table("log", "kB")
        for known in sorted(folder.rglob("*.log")):
            table.add_row(known.stem, f"{known.stat().st_size / 1000:.0f}")
        console.print(table)
        return
    path = next((path for path in folder.rglob("*.log") if path.stem == service), None)
    if path is None:
        raise StackError(f"There is no log named {service}; `masscomm logs` lists them.")
    with path.open(errors="replace") as file:
        print_lines(file.readlines()[-lines:] if lines else [])
        if not follow:
            return
        pause = threading.Event()
        while True:
            line = file.readline()
            if line:
                print_lines([line])
            else:
                pause.wait(0.2)


@app.command()
def demo() -> None:
    """Run the demo against the stack that runs. Exit status 1 when it finds a mismatch."""
    if not _run_demo(RunningStack.of(_config())):
        raise typer.Exit(1)


@app.command()
def send(
    to: Annotated[
        str, typer.Option("--to", "--user", help="User ids and ranges with commas between them, as 1,2,10-99.")
    ],
    club: Annotated[int, typer.Option("--club", help="The tenant the users belong to.")] = 1,
    kind: Annotated[str, typer.Option("--type", help="The category, as news or one_time_password.")] = "news",
    via: Annotated[
        str, typer.Option("--via", help="rest: as a person or program does; kafka: as the monolith does.")
    ] = "rest",
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="KEY=VALUE", help="For the template. May be repeated.")
    ] = None,
    channel: Annotated[
        list[str] | None,
        typer.Option("--channel", help="push or email; without it the category's own. May be repeated."),
    ] = None,
    critical: Annotated[bool, typer.Option("--critical", help="In the lane that no bulk send delays.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing; show what would become of the send, and its messages.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", "-w", help="Follow it until every notification has ended; to at most 10 users, show the messages."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send something to users, and print where to follow it."""
    from devstack.send import send as run_send

    run_send(
        RunningStack.of(_config()),
        to=to,
        club_id=club,
        type=kind,
        via=via,
        data=data or [],
        channels=channel or [],
        critical=critical,
        wait=wait,
        dry_run=dry_run,
        as_json=as_json,
    )


@app.command()
def inbox(
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            help="User ids and ranges with commas between them, as 1,2,10-19. Without it, the latest 20 notifications"
            " of all users.",
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new messages.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the messages of users as their devices and mailboxes received them, since the stack's start, with the times
    at which they were published.
    """
    from devstack.inbox import Inbox
    from devstack.send import recipients, show_messages

    user_ids = None if user is None else recipients(user)
    with closing(Inbox(RunningStack.of(_config()).config, user_ids)) as found:
        if as_json:
            for message in found.follow() if follow else found.messages():
                print_json(asdict(message))
        elif not follow:
            show_messages(found.messages(), console)
        else:
            for message in found.follow():
                console.print(message.rendered(), soft_wrap=True)


@app.command()
@given(installation=installation)
def trace(
    an_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a send or of a notification.")],
    *,
    installation: Installation,
    as_json: JsonOption = False,
) -> None:
    """Show what happened to a send or a notification, step by step. Exit status 1 if nothing is known about it."""
    from devstack.tracing import gather, print_trace

    found = gather(installation, an_id)
    if found is None:
        errors.print(f"No retained record mentions {an_id}.")
        raise typer.Exit(1)
    print_trace(found, console, as_json=as_json)


@app.command("recompute-check")
def recompute_check() -> None:
    """Recompute the metrics from the archive and compare them with the served ones. Exit status 1 if a row differs."""
    from devstack.recompute import recompute_check as run_check

    raise typer.Exit(run_check(_config()))


@app.command()
def query(
    text: Annotated[
        str, typer.Argument(metavar="QUERY", help="A query of Spark SQL on `counted`, `records` and `uncounted`.")
    ],
    at: Annotated[
        str | None, typer.Option("--at", help="Read the archive as it was then: 2026-11-21T09:30:00Z.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
) -> None:
    """Query the archive of the metrics. Exit status 2 if the query fails."""
    from devstack.query import query_archive

    raise typer.Exit(query_archive(_config(), text, at=at, as_csv=as_csv))


@app.command()
def erase(
    user: Annotated[int, typer.Option("--user", help="The user's id.")],
    club: Annotated[int, typer.Option("--club", help="The tenant the user belongs to.")],
    address: Annotated[
        list[str] | None,
        typer.Option(
            "--address", help="An e-mail address of the user that the directory no longer has. May be repeated."
        ),
    ] = None,
    even_if_known: Annotated[
        bool, typer.Option("--even-if-known", help="Erase the user even if the directory still has them.")
    ] = False,
) -> None:
    """Erase one user of one tenant from every store. Delete the user in the monolith first.

    Exit status 1 if the erasure is refused, 2 if a store could not be reached.
    """
    from devstack.erase import erase_person

    raise typer.Exit(erase_person(RunningStack.of(_config()).config, user, club, address or [], even_if_known))


@app.command()
def upgrade(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing. Exit status 1 if a step would change something.")
    ] = False,
    deployed: Annotated[
        str | None,
        typer.Option("--deployed", metavar="ENVIRONMENT", help="Upgrade the servers of a deployed environment: prod."),
    ] = None,
) -> None:
    """Bring the stored data of an installation to this version: topics, schemas, indices, tables, archive. It may be
    repeated. Stop the metrics job first; on this machine, `masscomm down`.
    """
    from devstack.upgrade import upgrade_deployed, upgrade_local

    status = upgrade_local(_config(), check=check) if deployed is None else upgrade_deployed(deployed, check=check)
    raise typer.Exit(status)


@app.command("clean-state")
def clean_state() -> None:
    """Remove all data of the stack. Refused while the stack runs."""
    config = _config()
    RunState(config).clean()
    console.print(f"{config.state_dir} is empty.")


# Errors of the command line, and of services that do not start or do not respond.
_EXPECTED_ERRORS = (
    ConfigError,
    SetupError,
    StackError,
    AlreadyRunningError,
    NotRunningError,
    KafkaException,
    MasscommError,
    ProvisioningError,
)


def main() -> int:
    """Run the command; print an error of the command line or of a service as one message, with exit status 1."""
    try:
        with to_standard_error():
            app(standalone_mode=True)
    except _EXPECTED_ERRORS as error:
        errors.print(str(error), style="red", soft_wrap=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
