"""Text from records, providers and people is inert in everything that a command prints."""

import io
import itertools
import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.live import Live
from rich.text import Text
from typer.testing import CliRunner

from cli import audit, dead_letters, suppressions, trace
from cli import main as cli
from cli import sending as send
from cli.installation import Installation
from cli.terminal import Terminal, print_lines
from cli.tracing.printing import print_trace
from cli.tracing.steps import Asked, Kind, Step, Trace
from local.devstack.config import ROOT
from local.devstack.demo.api import SendStatus
from local.devstack.demo.oracle import Expected
from local.devstack.demo.report import Report, SendRow
from local.devstack.demo.waiting import Waiter
from local.devstack.progress import Progress
from masscomm.domain.audit import Action, audit_entry
from masscomm.errors import Retry
from masscomm.operations.dead_letter_replays import Done
from masscomm.operations.dead_letters import DeadLetter
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.untrusted import visible, visible_json

# Hostile text: colour, hyperlink, window title, cleared screen, C1 control, overwriting, right-to-left text, tags.
ACTS = "\x1b[31m\x1b]8;;http://evil.example\x1b\\\x1b]0;title\x07\x1b[2J\x9b31m\rover\bwritten\u202etxt.exe\u2066\U000e0041\x85\u2028"
HOSTILE = f"{ACTS}[red]red[/red][link=http://evil.example]click[/link]:bomb:"
_ACTING = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def assert_inert(text: str, *, shows: str = "[red]red[/red]") -> None:
    """Check that the text has no acting control character and shows the markup literally, whatever its line breaks."""
    assert _ACTING.findall(text) == []
    assert shows in re.sub(r"[\s│┃]", "", text)


LETTER = DeadLetter(
    position="0@1",
    dead_at="2026-11-22T00:00:00+00:00",
    topic=HOSTILE,
    partition=HOSTILE,
    offset=HOSTILE,
    timestamp=HOSTILE,
    reason=HOSTILE,
    error=HOSTILE,
    function=HOSTILE,
    replayed=HOSTILE,
    key=HOSTILE.encode(),
    value=HOSTILE.encode(),
    headers=((HOSTILE, HOSTILE.encode()),),
)
TRACE = Trace(
    asked=Asked(send_id=HOSTILE, user_id=1, channel=HOSTILE),
    trace_ids=(HOSTILE,),
    steps=(
        Step(at_ms=1, kind=Kind.SPAN, where=HOSTILE, function=HOSTILE, description=HOSTILE, details={HOSTILE: HOSTILE}),
    ),
)
STATUS = SendStatus(1, {HOSTILE: 1}, 0, 0, 0)
SEND = cast(Any, {"totals": {"requested": 1, "suppressed": {HOSTILE: 1}, "failed": {}, "sent": 0, "in_flight": 0}})
HIT = {"sort": [1, 1], "_id": HOSTILE, "_source": {"reason": HOSTILE, "at": 0}}


class OpenSearch:
    """Returns a hostile document for every search."""

    def search(self, **_: Any) -> Any:
        return {"hits": {"hits": [HIT]}}


def of_report(console: Terminal) -> None:
    row = SendRow(HOSTILE, HOSTILE, HOSTILE, STATUS, Expected({}, 0), calls=0, duplicates=0)
    Report(sends=[row], metrics={(0, 1, HOSTILE, HOSTILE, "sent"): 1}).show(console)


def of_live(console: Terminal) -> None:
    with Live(console=console, refresh_per_second=1) as live:
        live.update(send._progress(SEND))


def of_progress(console: Terminal) -> None:
    progress = Progress(console)
    progress("a service", "failed", HOSTILE)
    console.print(progress._table())


def of_waiter(console: Terminal) -> None:
    Waiter(cast(Any, SimpleNamespace()), console).until(HOSTILE, lambda: None, timeout_s=1)


PRINTED: dict[str, Callable[[Terminal], None]] = {
    "text": lambda console: console.print(HOSTILE),
    "styled text": lambda console: console.print(Text(HOSTILE, style="red")),
    "done": lambda console: console.done(HOSTILE, HOSTILE),
    "failed": lambda console: console.failed(HOSTILE),
    "trace": lambda console: print_trace(TRACE, console, as_json=False),
    "send": lambda console: console.print(send._progress(SEND)),
    "send, live": of_live,
    "demo's report": of_report,
    "progress": of_progress,
    "waiting": of_waiter,
}


@pytest.mark.kills(guard="terminal.control_characters")
@pytest.mark.kills(guard="terminal.markup")
@pytest.mark.parametrize("name", sorted(PRINTED))
def test_untrusted_text_is_inert_on_the_console(name: str) -> None:
    printed = io.StringIO()
    PRINTED[name](Terminal(file=printed, width=4_000))
    assert_inert(printed.getvalue())


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that runs a command over hostile records and returns its output."""
    installation = Installation(kafka_bootstrap="", registry_url="", generation="g1")
    monkeypatch.setattr(Installation, "here", lambda: installation)
    monkeypatch.setattr(Installation, "opensearch", lambda _: OpenSearch())
    audit_log = InMemoryAuditLog()
    for action in Action:
        audit_log.record(
            audit_entry(action, club_id=7, at_ms=2**40, principal=HOSTILE, subject=HOSTILE, detail=HOSTILE)
        )
    monkeypatch.setattr(Installation, "audit_log", lambda _: audit_log)
    monkeypatch.setattr(dead_letters, "_letters", lambda *_: iter([LETTER]))
    monkeypatch.setattr(dead_letters, "_marks", lambda _: {})
    desk = SimpleNamespace(
        replay=lambda *_, **__: [Done(letter=LETTER, ok=True, message=HOSTILE)],
        discard=lambda *_, **__: [Done(letter=LETTER, ok=True, message=HOSTILE)],
    )
    monkeypatch.setattr(dead_letters, "_desk", lambda _: desk)
    monkeypatch.setattr(trace, "gather", lambda *_: TRACE)
    for module in (audit, dead_letters, suppressions, trace):
        monkeypatch.setattr(module, "console", Terminal(width=4_000))

    def printed(*arguments: str) -> str:
        result = CliRunner().invoke(cli.app, list(arguments))
        assert result.exit_code == 0, result.output
        return result.output

    return printed


COMMANDS = (
    ("dead-letters", "list"),
    ("dead-letters", "show", "0@1"),
    ("dead-letters", "replay", "--all"),
    ("dead-letters", "replay", "--all", "--dry-run"),
    ("dead-letters", "discard", "--all", "--why", "w"),
    ("trace", "an id"),
    ("suppressions", "list"),
    ("audit", "--club", "7", "--since", "2000-01-01"),
)


@pytest.mark.guarantee("terminal.text_is_inert")
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_commands_tables_and_lines_are_inert(run: Callable[..., str], arguments: tuple[str, ...]) -> None:
    assert_inert(run(*arguments))


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_json_of_a_command_is_inert_and_keeps_the_text(run: Callable[..., str], arguments: tuple[str, ...]) -> None:
    printed = run(*arguments, "--json")
    assert_inert(printed)
    if "dead-letters" in arguments:
        assert HOSTILE in json.loads(printed).values()
    if "audit" in arguments:
        assert all(HOSTILE in json.loads(line).values() for line in printed.splitlines())


def test_an_errors_text_is_inert(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    monkeypatch.setattr("cli.terminal.Terminal", lambda **_: Terminal(file=printed))

    def failing(**_: Any) -> None:
        raise Retry(HOSTILE)

    monkeypatch.setattr(cli, "app", failing)
    assert cli.main() == 1
    assert_inert(printed.getvalue())


def test_a_logs_lines_stay_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines([f"{HOSTILE}\n", "without an end"])
    printed = capsys.readouterr().out
    assert_inert(printed)
    assert printed.count("\n") == 2


@given(st.text() | st.text(alphabet=st.sampled_from(HOSTILE)))
def test_visible_text_is_one_inert_line(text: str) -> None:
    assert _ACTING.findall(visible(text)) == []
    assert "\n" not in visible(text)
    assert visible(visible(text)) == visible(text)


@given(st.dictionaries(st.text(), st.text() | st.lists(st.text()), max_size=3))
def test_visible_json_reads_as_the_same_value(document: dict[str, Any]) -> None:
    text = visible_json(json.dumps(document, ensure_ascii=False))
    assert _ACTING.findall(text) == []
    assert json.loads(text) == document


def test_all_output_uses_the_terminal_module() -> None:
    """Only cli/terminal.py neutralises control characters; the other listed modules print only our own texts."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in itertools.chain((ROOT / "cli").rglob("*.py"), (ROOT / "local").rglob("*.py"))
        if re.search(
            r"(?<![\w.])print\(|\bConsole\(|typer\.echo|sys\.std(out|err)\.write|from_markup", path.read_text()
        )
    }
    assert found == {
        "cli/terminal.py",
        # separate processes, whose output is a log file
        "local/devstack/deployed/__main__.py",
        "local/emulators/lambda_host/__main__.py",
        "local/devstack/setup.py",
        "local/emulators/sns_stand_in/__main__.py",
    }
