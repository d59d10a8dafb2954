"""The command `masscomm trace`: it shows the history of a send or a notification, from topics, tables and logs."""

from typing import Annotated

import typer

from cli.errors import CommandError
from cli.installation import Installation, installation
from cli.options import JsonOption, given
from cli.terminal import Terminal
from cli.tracing import gather, print_trace

app = typer.Typer(add_completion=False)
console = Terminal()


@app.command()
@given(installation=installation)
def trace(
    an_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a send or of a notification.")],
    *,
    installation: Installation,
    as_json: JsonOption = False,
) -> None:
    """Show what happened to a send or a notification, step by step. Exit status 1 if nothing is known about it."""
    found = gather(installation, an_id)
    if found is None:
        raise CommandError(f"No retained record mentions {an_id}.")
    print_trace(found, console, as_json=as_json)
