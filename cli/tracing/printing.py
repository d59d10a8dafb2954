"""Prints a trace as text or as JSON."""

from datetime import UTC, datetime

from rich.table import Table

from cli.terminal import Terminal, print_json
from cli.tracing.steps import Trace


def print_trace(trace: Trace, console: Terminal, *, as_json: bool) -> None:
    """Print the trace: a table for people, or one JSON object for programs."""
    if as_json:
        print_json(trace.as_dict())
        return
    asked = trace.asked
    recipient = "" if asked.user_id is None else f", user {asked.user_id} by {asked.channel}"
    began = trace.steps[0].at_ms if trace.steps else 0
    title = f"send {asked.send_id}{recipient}\nfrom {datetime.fromtimestamp(began / 1000, UTC).isoformat()}"
    table = Table(title=title, title_justify="left")
    table.add_column("ms", justify="right")
    for heading in ("function", "what", "where"):
        table.add_column(heading, overflow="fold")
    for step in trace.steps:
        table.add_row(str(step.at_ms - began), step.function, f"{step.description}", f"{step.kind} {step.where}")
    console.print(table)
    for trace_id in trace.trace_ids:
        console.print(f"trace {trace_id}")
