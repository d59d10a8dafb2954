"""The `masscomm` command."""

import os
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script
from typer.core import TyperGroup

from cli.client_log import clients_log_to
from cli.errors import CommandError
from cli.folders import state_folder
from cli.lazy import LazyCommand
from cli.options import EnvironmentsOption, JsonOption
from cli.pages import epilogue, read_on
from masscomm.observability.streams import to_standard_error

# The modules of commands that are imported when they are called, with what `--help` says of each.
MODULES = {
    "send": ("cli.send", "Send something to users, and print where to follow it."),
    "sends": ("cli.sends", "Sends: list, show, watch and control them."),
    "trace": ("cli.trace", "Show what happened to a send or a notification, step by step."),
    "audience": ("cli.audiences", "Audiences: count users of a club by conditions, and save conditions."),
    "schedule": ("cli.schedules", "Schedules: sends that recur."),
    "categories": ("cli.categories", "Categories of sends: show and change them."),
    "preferences": ("cli.preferences", "Preferences of a user: show and change them."),
    "template": ("cli.template", "Templates: preview and check them."),
    "webhooks": ("cli.webhooks", "Webhooks: endpoints that receive events."),
    "events": ("cli.events", "Events: report them, describe their types, subscribe endpoints."),
    "smoke": ("cli.smoke", "Check an installation: sends, statuses, counts, alarms."),
    "alarms": ("cli.alarms", "Show the alarms that ring, and what to do."),
    "devices": ("cli.devices", "Devices to which nothing is pushed."),
    "suppressions": ("cli.suppressions", "Addresses to which no e-mail is sent."),
    "keys": ("cli.keys", "API keys with their clubs, scopes and ends."),
    "audit": ("cli.audit", "Show which principal did what, the latest entries first."),
    "dead-letters": ("cli.dead_letters", "Records that could not be processed."),
    "directory": ("cli.directory", "The copy of the monolith's tables in OpenSearch."),
    "source": ("cli.source", "The monolith's tables, as MASSCOMM_SOURCE or schemas/source.yaml maps them."),
}


class Commands(TyperGroup):
    """The commands of this module and of MODULES."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.epilog = epilogue(None)
        for name, command in self.commands.items():
            command.epilog = epilogue(name)
        self.commands.update({name: LazyCommand(name, *row) for name, row in MODULES.items()})


app = typer.Typer(
    cls=Commands,
    name="masscomm",
    no_args_is_help=True,
    add_completion=False,  # `masscomm completion` prints the script without a look at the parent process.
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _log_clients_to_file() -> None:
    """The whole notification service on this machine: start it, watch it, send with it."""
    clients_log_to(state_folder(os.environ) / "logs" / "clients.log")


PortOption = Annotated[
    list[str] | None,
    typer.Option("--port", metavar="NAME=NUMBER", help="Use another port, as kafka=19092. May be repeated."),
]


@app.command()
def up(
    port: PortOption = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start in the background and return when it is up.")
    ] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Run the demo as soon as it is up.")] = False,
    own_topics: Annotated[
        bool, typer.Option("--own-topics", help="With --demo: include a topic that a Spark job makes events of.")
    ] = False,
    exit_after: Annotated[
        bool,
        typer.Option("--exit", help="Stop again after the demo; the exit status is 1 when the demo found a mismatch."),
    ] = False,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="SERVICE", help="Leave a service out. May be repeated.")
    ] = None,
) -> None:
    """Start every service and run until Ctrl-C. Services that end are started again."""
    from local.devstack import commands

    commands.up(
        port or [], detach=detach, demo=demo, own_topics=own_topics, exit_after=exit_after, without=without or []
    )


@app.command()
def down() -> None:
    """Stop the stack, which runs in the background or another terminal."""
    from local.devstack import commands

    commands.down()


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print it for programs.")] = False,
) -> None:
    """Show the services and their memory. Exit status 3 when nothing runs."""
    from local.devstack import commands

    commands.status(as_json=as_json)


@app.command()
def doctor(
    as_json: JsonOption = False,
) -> None:
    """Look for what keeps the stack from starting or working.

    It checks versions, memory and ports, the services of a running stack, its connector and lag, and says what to do.
    Exit status 1 if it finds a problem.
    """
    from local.devstack import doctor

    raise typer.Exit(doctor.run(as_json=as_json))


@app.command()
def logs(
    service: Annotated[
        str | None, typer.Argument(help="A service or a function; without one, every log and its size is listed.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many lines of the end to print.")] = 50,
) -> None:
    """Print the end of a service's or a function's log."""
    from local.devstack import commands

    commands.logs(service, follow=follow, lines=lines)


@app.command()
def demo() -> None:
    """Run the demo against the stack that runs. Exit status 1 when it finds a mismatch."""
    from local.devstack import commands

    commands.demo()


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
    """Show messages as devices and mailboxes received them.

    They are those since the stack's start, with the times at which they were published.
    """
    from local.devstack import inbox

    inbox.show(user, follow=follow, as_json=as_json)


@app.command("recompute-check")
def recompute_check(as_json: JsonOption = False) -> None:
    """Recompute the metrics from the archive and compare them. Exit status 1 if a row differs from a served one."""
    from local.devstack.config import StackConfig
    from local.devstack.recompute import recompute_check as run_check

    raise typer.Exit(run_check(StackConfig.from_environment(), as_json=as_json))


@app.command()
def query(
    text: Annotated[
        str, typer.Argument(metavar="QUERY", help="A query of Spark SQL on `counted`, `records` and `uncounted`.")
    ],
    at: Annotated[
        str | None, typer.Option("--at", help="Read the archive as it was then: 2026-11-21T09:30:00Z.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Query the archive of the metrics. Exit status 2 if the query fails."""
    if as_csv and as_json:
        raise typer.BadParameter("choose --csv or --json")
    from local.devstack.config import StackConfig
    from local.devstack.query import query_archive

    raise typer.Exit(query_archive(StackConfig.from_environment(), text, at=at, as_csv=as_csv, as_json=as_json))


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
    as_json: JsonOption = False,
) -> None:
    """Erase one user of one tenant from every store. Delete the user in the monolith first.

    Exit status 1 if the erasure is refused, 2 if a store could not be reached.
    """
    from local.devstack.erase import erase_person
    from local.devstack.handle import RunningStack

    config = RunningStack.here().config
    raise typer.Exit(erase_person(config, user, club, address or [], even_if_known=even_if_known, as_json=as_json))


@app.command()
def upgrade(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing. Exit status 1 if a step would change something.")
    ] = False,
    deployed: Annotated[
        str | None,
        typer.Option("--deployed", metavar="ENVIRONMENT", help="Upgrade the servers of a deployed environment: prod."),
    ] = None,
    folder: EnvironmentsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring an installation's stored data to this version. These are topics, schemas, indices, tables, archive. It may
    be repeated. Stop the metrics job first; on this machine, `masscomm down`.
    """
    if deployed is not None:
        from cli.deployed import is_task, provision, run_task

        options = [*(["--check"] if check else []), *(["--json"] if as_json else [])]
        if is_task():
            raise typer.Exit(provision(*options))
        raise typer.Exit(run_task(deployed, folder, "provisioner", ["upgrade", "--deployed", deployed, *options]))
    from local.devstack.config import StackConfig
    from local.devstack.upgrade import upgrade_local

    raise typer.Exit(upgrade_local(StackConfig.from_environment(), check=check, as_json=as_json))


@app.command()
def preflight(
    environment: Annotated[str, typer.Argument(help="The environment to deploy: prod.")],
    folder: EnvironmentsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the AWS account before a deployment. It only reads, and each finding says what to ask for. Exit status 1
    if there is a finding, or an answer is unknown.
    """
    from cli.deployed import run_module

    raise typer.Exit(run_module("preflight", environment, folder, *(["--json"] if as_json else [])))


@app.command()
def images(
    environment: Annotated[str, typer.Argument(help="The environment to deploy: prod.")],
    folder: EnvironmentsOption = None,
) -> None:
    """Copy the images of an environment to its AWS account. It needs `crane`, not Docker. Exit status 1 if it fails."""
    from cli.deployed import run_module

    raise typer.Exit(run_module("images", environment, folder))


@app.command()
def destroy(
    environment: Annotated[str, typer.Argument(help="The deployed environment: dev.")],
    confirm: Annotated[
        str | None, typer.Option("--confirm", metavar="NAME", help="The name of a protected environment.")
    ] = None,
    folder: EnvironmentsOption = None,
) -> None:
    """Remove a deployed environment, and say what remains. It stops the jobs, empties buckets and repositories, and
    deletes the stacks. A protected environment keeps its data, and its name must be typed. Exit status 1 if it fails.
    """
    from cli.deployed import run_module

    raise typer.Exit(run_module("destroy", environment, folder, *(["--confirm", confirm] if confirm else [])))


@app.command("clean-state")
def clean_state() -> None:
    """Remove all data of the stack. Refused while the stack runs."""
    from local.devstack import commands

    commands.clean_state()


class Shell(StrEnum):
    """The shells with completion."""

    BASH = "bash"
    ZSH = "zsh"


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the completion of bash or zsh.

    Write eval "$(masscomm completion bash)" into .bashrc, or the same with zsh into .zshrc.
    """
    from cli.terminal import print_lines

    print_lines(get_completion_script(prog_name="masscomm", complete_var="_MASSCOMM_COMPLETE", shell=shell).split("\n"))


def _is_expected(error: Exception) -> bool:
    """Return whether an error is one of the command line, or of a service that does not start or does not respond."""
    from confluent_kafka import KafkaException

    from masscomm.errors import MasscommError
    from ops.provisioning import ProvisioningError

    return isinstance(error, CommandError | KafkaException | MasscommError | ProvisioningError)


def main() -> int:
    """Run the command; print an error of the command line or of a service as one message, with exit status 1."""
    completion_init()
    try:
        with to_standard_error():
            app(standalone_mode=True)
    except Exception as error:
        if not _is_expected(error):
            raise
        from cli.terminal import Terminal

        errors = Terminal(stderr=True)
        errors.print(str(error), style="red", soft_wrap=True)
        errors.print(
            read_on(next((word for word in sys.argv[1:] if word[:1] != "-"), None)), style="dim", soft_wrap=True
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
