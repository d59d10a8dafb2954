"""The `masscomm` command."""

import os
import sys
from contextlib import closing
from dataclasses import asdict
from typing import Annotated

import typer
from confluent_kafka import KafkaException

from cli.audiences import app as audiences_app
from cli.audit import audit
from cli.client_log import clients_log_to
from cli.dead_letters import app as dead_letters_app
from cli.devices import app as devices_app
from cli.errors import CommandError
from cli.folders import state_folder
from cli.installation import Installation, installation
from cli.keys import app as keys_app
from cli.options import JsonOption, given
from cli.preferences import app as preferences_app
from cli.sending import recipients
from cli.sends import app as sends_app
from cli.source import app as source_app
from cli.suppressions import app as suppressions_app
from cli.template import app as template_app
from cli.template import preview
from cli.terminal import Terminal, print_json
from cli.upgrade import upgrade_deployed
from cli.webhooks import app as webhooks_app
from masscomm.errors import MasscommError
from masscomm.observability.logs import to_standard_error
from ops.provisioning import ProvisioningError

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
    exit_after: Annotated[
        bool,
        typer.Option("--exit", help="Stop again after the demo; the exit status is 1 when the demo found a mismatch."),
    ] = False,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="SERVICE", help="Leave a service out. May be repeated.")
    ] = None,
) -> None:
    """Start every service and run until Ctrl-C, which stops them all; restart services that end."""
    from local.devstack import commands

    commands.up(port or [], detach=detach, demo=demo, exit_after=exit_after, without=without or [])


@app.command()
def down() -> None:
    """Stop the stack that runs in the background or in another terminal."""
    from local.devstack import commands

    commands.down()


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print it for programs.")] = False,
) -> None:
    """Show the services, their processes and their memory. Exit status 3 when nothing runs."""
    from local.devstack import commands

    commands.status(as_json=as_json)


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
    from local.devstack.handle import RunningStack
    from local.devstack.send import send as run_send

    run_send(
        RunningStack.here(),
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
    from local.devstack.handle import RunningStack
    from local.devstack.inbox import Inbox
    from local.devstack.send import show_messages

    user_ids = None if user is None else recipients(user)
    with closing(Inbox(RunningStack.here().config, user_ids)) as found:
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
    from cli.tracing import gather, print_trace

    found = gather(installation, an_id)
    if found is None:
        errors.print(f"No retained record mentions {an_id}.")
        raise typer.Exit(1)
    print_trace(found, console, as_json=as_json)


@app.command("recompute-check")
def recompute_check() -> None:
    """Recompute the metrics from the archive and compare them with the served ones. Exit status 1 if a row differs."""
    from local.devstack.config import StackConfig
    from local.devstack.recompute import recompute_check as run_check

    raise typer.Exit(run_check(StackConfig.from_environment()))


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
    from local.devstack.config import StackConfig
    from local.devstack.query import query_archive

    raise typer.Exit(query_archive(StackConfig.from_environment(), text, at=at, as_csv=as_csv))


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
    from local.devstack.erase import erase_person
    from local.devstack.handle import RunningStack

    raise typer.Exit(erase_person(RunningStack.here().config, user, club, address or [], even_if_known))


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
    if deployed is not None:
        raise typer.Exit(upgrade_deployed(deployed, check=check))
    from local.devstack.config import StackConfig
    from local.devstack.upgrade import upgrade_local

    raise typer.Exit(upgrade_local(StackConfig.from_environment(), check=check))


@app.command("clean-state")
def clean_state() -> None:
    """Remove all data of the stack. Refused while the stack runs."""
    from local.devstack import commands

    commands.clean_state()


# Errors of the command line, and of services that do not start or do not respond.
_EXPECTED_ERRORS = (CommandError, KafkaException, MasscommError, ProvisioningError)


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
