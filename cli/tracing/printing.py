"""Prints a trace as text or as JSON."""

from datetime import UTC, datetime

from cli.terminal import Terminal, print_json
from cli.tracing.steps import Trace


def print_trace(trace: Trace, console: Terminal, *, as_json: bool) -> None:
    """Print the trace: two lines a step for people, or one JSON object for programs."""
    if as_json:
        print_json(trace.as_dict())
        return
    asked = trace.asked
    recipient = "" if asked.user_id is None else f", user {asked.user_id} by {asked.channel}"
    began = trace.steps[0].at_ms if trace.steps else 0
    console.print(f"send {asked.send_id}{recipient}", soft_wrap=True)
    console.print(f"from {datetime.fromtimestamp(began / 1000, UTC).isoformat()}")
    for step in trace.steps:
        console.print(f"{step.at_ms - began:>7,} ms  {step.function}: {step.description}", soft_wrap=True)
        console.print(f"            {step.kind} {step.where}", style="dim", soft_wrap=True)
    for trace_id in trace.trace_ids:
        console.print(f"trace {trace_id}")
