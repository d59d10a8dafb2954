"""The commands that start, stop and show the stack of this machine."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from types import FrameType
from typing import NoReturn

import typer
from rich.table import Table
from rich.text import Text

from cli.terminal import Terminal, print_json, print_lines
from local.devstack import process
from local.devstack.config import EXAMPLE, ConfigError, StackConfig, example
from local.devstack.first_users import FirstUsers, people_table, shown_users
from local.devstack.handle import RunningStack
from local.devstack.progress import Progress
from local.devstack.provision import provisioning
from local.devstack.stack import Stack, StackError
from local.devstack.state import AlreadyRunningError, NotRunningError, RunState
from masscomm.integers import integer

# docs/quick-start.md contains the same command.
FIRST_COMMAND = 'masscomm send --to 42 --type announcement --data title=Hello --data "body=It works." --wait'

console = Terminal()
errors = Terminal(stderr=True)


class Interrupted(BaseException):
    """Raised at Ctrl-C or SIGTERM. It is not a subclass of Exception, so that no `except Exception` catches it."""


def _config(ports: Sequence[str] = ()) -> StackConfig:
    chosen: dict[str, int] = {}
    for text in ports:
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
    """Return the last lines of a start. The command and the address are alone in their lines, so that they can be
    selected.
    """
    return [
        "Try first, in a second terminal:",
        f".venv/bin/{FIRST_COMMAND}",
        "",
        "Read on: docs/quick-start.md, or open the console (Ctrl-C here stops everything):",
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


def up(
    ports: Sequence[str], *, detach: bool, demo: bool, own_topics: bool, exit_after: bool, without: Sequence[str]
) -> None:
    """Implement `masscomm up`."""
    config = _config(ports)
    if detach:
        _up_detached(config, [*(f"--port={each}" for each in ports), *(f"--without={each}" for each in without)])
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    progress = Progress(console)
    first_users = FirstUsers(config)
    stack = Stack(
        config,
        without=without,
        on_change=progress,
        tasks=lambda config: [*provisioning(config), *first_users.tasks()],
    )
    try:
        with progress:
            stack.start()
        for orphan in stack.recovered:
            console.print(f"Ended a process of a crashed run: {orphan}", style="yellow")
        console.print(_listening(stack))
        ok = _run_demo(stack, own_topics=own_topics) if demo else True
        if exit_after:
            raise typer.Exit(0 if ok else 1)
        if first_users.apply:
            console.print()
            console.print(people_table(shown_users()))
            console.print()
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


def _run_demo(stack: Stack | RunningStack, *, own_topics: bool = False) -> bool:
    """Run the demo against a stack. If a service of the stack crashes, report it at once and end the demo.

    Raises:
        StackError: The monolith is a database of its own, or another example.
    """
    if StackConfig.from_environment().monolith_url is not None:
        raise StackError("The demo writes to the example's tables only: unset MASSCOMM_MONOLITH.")
    if example() != EXAMPLE:
        raise StackError("The demo writes to the tables of examples/monolith only: unset MASSCOMM_SOURCE.")
    from local.devstack.demo.run import run_demo

    over = threading.Event()
    if isinstance(stack, Stack):
        threading.Thread(target=_end_at_crash, args=(stack, over), daemon=True).start()
    try:
        return bool(run_demo(stack, own_topics=own_topics))
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
    command = [sys.executable, "-m", "cli.main", "up", *options]
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


def down() -> None:
    """Implement `masscomm down`."""
    stack = RunningStack.here()
    ticks = process.start_ticks(stack.holder_pid)
    os.kill(stack.holder_pid, signal.SIGTERM)
    pause = threading.Event()
    with console.status("stopping"):
        while process.start_ticks(stack.holder_pid) == ticks is not None:
            pause.wait(0.1)
    console.print("Stopped.")


def status(*, as_json: bool) -> None:
    """Implement `masscomm status`."""
    try:
        stack = RunningStack.here()
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


def logs(service: str | None, *, follow: bool, lines: int) -> None:
    """Implement `masscomm logs`."""
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


def demo() -> None:
    """Implement `masscomm demo`."""
    if not _run_demo(RunningStack.here()):
        raise typer.Exit(1)


def clean_state() -> None:
    """Implement `masscomm clean-state`."""
    config = _config()
    RunState(config).clean()
    console.print(f"{config.state_dir} is empty.")
