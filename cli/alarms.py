"""The command `masscomm alarms`: it shows the alarms of the installation through the REST API."""

from typing import Annotated

import typer
from rich.table import Table

from cli.options import JsonOption
from cli.sends import calling
from cli.terminal import Terminal, print_json
from masscomm_client import Client

app = typer.Typer(add_completion=False)
console = Terminal()

_STATES = {"alarm": "rings", "insufficient_data": "unknown", "ok": "quiet"}


@app.command()
@calling
def alarms(
    *,
    api: Client,
    every: Annotated[bool, typer.Option("--all", help="Also those that do not ring.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the alarms that ring, what each means, and where it says what to do. Exit status 1 if one rings."""
    body = api.alarms()
    ringing = [row for row in body["rows"] if row["state"] == "alarm"]
    shown = body["rows"] if every else ringing
    if as_json:
        for row in shown:
            print_json(row)
    elif not body["evaluated"]:
        console.print("Nothing evaluates alarms for this installation.")
    else:
        console.print(f"{len(ringing)} of {len(body['rows'])} alarms ring.")
        table = Table(box=None, pad_edge=False, show_header=False)
        for row in shown:
            runbook = "" if row["runbook"] is None else f" docs/runbooks/{row['runbook']}.md"
            table.add_row(_STATES[row["state"]], row["since"][:16].replace("T", " "), row["name"])
            table.add_row("", "", f"{row['description']}{runbook}")
        if shown:
            console.print(table)
    if ringing:
        raise typer.Exit(1)
