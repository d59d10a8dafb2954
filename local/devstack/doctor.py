"""Implements `masscomm doctor`: it looks for what keeps the stack of this machine from starting or from working."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import httpx
import psutil

from cli.terminal import Terminal, print_json
from local.devstack import process
from local.devstack.config import GENERATION, StackConfig, connector_name, is_free
from local.devstack.handle import RunningStack
from local.devstack.provision import connector_state
from local.devstack.setup import SetupError, check_prerequisites
from local.devstack.state import NotRunningError
from masscomm_client import ApiError, Client

# The memory that a start and a few sends need, and what a stack that runs should have left.
START_BYTES, RUNNING_BYTES = 4_000_000_000, 500_000_000
# Fewer records than this are under way, and not behind.
MAX_LAG = 1_000


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    check: str
    ok: bool
    text: str
    # What to do; empty if the check is ok.
    remedy: str = ""


def examine(config: StackConfig) -> Iterator[Finding]:
    """Yield the findings: prerequisites and memory, then the ports of a stack that does not run, or the parts of one
    that does.
    """
    yield from prerequisites()
    try:
        stack = RunningStack.of(config)
    except NotRunningError:
        yield memory(START_BYTES)
        yield from ports(config)
        yield Finding("stack", True, "does not run; `masscomm up` starts it")
        return
    yield memory(RUNNING_BYTES)
    yield from services(stack)
    yield connector(stack.config)
    yield from backlog(stack.config)


def prerequisites() -> Iterator[Finding]:
    """Check the versions of Python, the JDK, Node.js and Maven."""
    try:
        found = check_prerequisites()
    except SetupError as error:
        for line in str(error).splitlines():
            text, _, remedy = line.partition(": ")
            yield Finding("versions", False, text, remedy or line)
        return
    yield Finding("versions", True, ", ".join(found.values()))


def memory(needed: int) -> Finding:
    """Check the memory that other programs leave."""
    available = psutil.virtual_memory().available
    text = f"{available / 1e9:.1f} GB are available, {needed / 1e9:.1f} are needed"
    return Finding("memory", available >= needed, text, "" if available >= needed else "End other programs.")


def ports(config: StackConfig) -> Iterator[Finding]:
    """Check that no other program listens on a port of the stack."""
    taken = {name: port for name, port in asdict(config.ports).items() if not is_free(port)}
    for name, port in taken.items():
        remedy = f"Choose another: masscomm up --port {name}=NUMBER, or MASSCOMM_PORT_{name.upper()}=NUMBER."
        yield Finding("ports", False, f"{port}, for {name}, is taken{_by(port)}", remedy)
    if not taken:
        yield Finding("ports", True, f"{len(asdict(config.ports))} are free")


def _by(port: int) -> str:
    """Return which process listens on a port, as far as this user may see it."""
    for each in psutil.process_iter(["name"]):
        try:
            listening = {one.laddr.port for one in each.net_connections() if one.status == psutil.CONN_LISTEN}
        except psutil.Error:
            continue
        if port in listening:
            return f" by {each.info['name']} (pid {each.pid})"
    return ""


def services(stack: RunningStack) -> Iterator[Finding]:
    """Check that each service runs."""
    ended = [name for name, started in stack.services.items() if not started.alive()]
    for name in ended:
        yield Finding("services", False, f"{name} has ended", f"Its log says why: masscomm logs {name}")
    if not ended:
        memory_mb = process.rss_mb([each for one in stack.services.values() for each in process.family(one.pid)])
        yield Finding("services", True, f"{len(stack.services)} run, with {memory_mb:,.0f} MB")


def connector(config: StackConfig) -> Finding:
    """Check that change data capture runs."""
    remedy = "masscomm logs connect; docs/runbooks/change-data-capture.md"
    try:
        state, trace = connector_state(config.connect_url, connector_name(GENERATION))
    except httpx.HTTPError as error:
        return Finding("connector", False, f"Kafka Connect does not answer: {error}", remedy)
    if state == "RUNNING":
        return Finding("connector", True, "runs")
    return Finding("connector", False, " ".join([state, *trace.splitlines()[:1]]), remedy)


def backlog(config: StackConfig) -> Iterator[Finding]:
    """Check how far the functions are behind, whether dead letters are open, and whether alarms ring."""
    try:
        with Client(config.gateway_url, key=config.api_key, attempts=1) as api:
            health, alarms = api.health(), api.alarms()
    except (ApiError, httpx.HTTPError) as error:
        yield Finding("lag", False, f"the API does not answer: {error}", "masscomm logs lambda_host")
        return
    behind = [f"{row['function']} by {row['records']:,} on {row['topic']}" for row in health["lag"][:3]]
    if health["lag_total"] > MAX_LAG:
        remedy = "Wait, or see masscomm logs FUNCTION; docs/runbooks/consumer-lag.md"
        yield Finding("lag", False, f"{health['lag_total']:,} records: {', '.join(behind)}", remedy)
    else:
        yield Finding("lag", True, f"{health['lag_total']:,} records")
    letters = health["open_dead_letters"]
    remedy = "" if not letters else "masscomm dead-letters list; docs/runbooks/dead-letters.md"
    yield Finding("dead letters", not letters, f"{letters:,} are open", remedy)
    ringing = [row for row in alarms["rows"] if row["state"] == "alarm"]
    for row in ringing:
        yield Finding("alarms", False, f"{row['name']}: {row['description']}", f"docs/runbooks/{row['runbook']}.md")
    if not ringing:
        yield Finding("alarms", True, f"none of {len(alarms['rows'])} rings")


def run(*, as_json: bool) -> int:
    """Print the findings. Return exit status 1 if there is a problem."""
    console = Terminal()
    failed = False
    for finding in examine(StackConfig.from_environment()):
        failed |= not finding.ok
        if as_json:
            print_json(asdict(finding))
        elif finding.ok:
            console.done(f"{finding.check}: {finding.text}")
        else:
            console.failed(f"{finding.check}: {finding.text}")
            console.print(f"    {finding.remedy}", soft_wrap=True)
    return int(failed)
