"""A command imports what it needs, and no more: each package costs every call its time."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.folders import ROOT
from cli.main import MODULES
from tests.support.servers.answering_server import answering

# Packages that take long to import. Commands that only call the API need none of these.
HEAVY = {
    *("boto3", "botocore", "confluent_kafka", "fastavro", "opensearchpy", "psycopg", "yaml"),
    *("local.devstack.demo.run", "local.devstack.service", "local.devstack.stack", "examples"),
}
CALLED = """
import json, sys
from cli import main
sys.argv = ["masscomm", *sys.argv[1:]]
try:
    status = main.main()
except SystemExit as end:
    status = end.code
print(json.dumps([status, sorted(sys.modules)]))
"""


def imported(*arguments: str, status: int = 0, **environment: str) -> set[str]:
    """Return the modules that a command has imported at its end."""
    done = subprocess.run(
        [sys.executable, "-c", CALLED, *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    ended, modules = json.loads(done.stdout.splitlines()[-1])
    assert ended == status, done.stdout + done.stderr
    return set(modules)


def test_help_imports_no_module_of_a_command(tmp_path: Path) -> None:
    modules = imported("--help", MASSCOMM_STATE=str(tmp_path))
    commands = {module for module, _ in MODULES.values()}
    assert modules & (HEAVY | commands | {"httpx", "rich.console", "masscomm_client", "local"}) == set()
    assert "cli.send" in commands


ROWS: dict[str, object] = {"rows": [], "next_cursor": None}
ACCEPTED: dict[str, object] = {"send_id": "4e0525b7-7f84-4005-b07a-add265132d94"}


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("sends", "list"), ROWS),
        (("devices", "list"), ROWS),
        (("alarms",), {"evaluated": True, "rows": []}),
        (("template", "check"), ROWS),
        (("send", "--to", "42"), ACCEPTED),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_command_of_the_api_imports_a_client_only(
    arguments: tuple[str, ...], answer: dict[str, object], tmp_path: Path
) -> None:
    with answering(lambda _: None) as server:
        server.answers = [(200, json.dumps(answer).encode())]
        modules = imported(*arguments, MASSCOMM_API_URL=server.url, MASSCOMM_STATE=str(tmp_path))
    assert modules & HEAVY == set()
    assert "httpx" in modules


@pytest.fixture
def command(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `masscomm` is a command in PATH, as the printed scripts call it."""
    command = tmp_path / "masscomm"
    command.write_text(f"#!{sys.executable}\nimport sys\n\nfrom cli.main import main\n\nsys.exit(main())\n")
    command.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(tmp_path), "MASSCOMM_STATE": str(tmp_path), "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        (("masscomm", "dead"), {"dead-letters"}),
        (("masscomm", "dead-letters", "re"), {"replay"}),
        (("masscomm", "send", "--idem"), {"--idempotency-key"}),
    ],
    ids=" ".join,
)
def test_bash_completes_commands_and_options(
    words: tuple[str, ...], completions: set[str], command: dict[str, str]
) -> None:
    quoted = " ".join(words)
    script = (
        'eval "$(masscomm completion bash)"\n'
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _masscomm_completion masscomm\n"
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env=command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == completions, done.stderr


class Typing:
    """An interactive shell on a terminal."""

    def __init__(self, *shell: str, env: dict[str, str]) -> None:
        self._screen = b""
        self._terminal, end = pty.openpty()
        environment = {**env, "TERM": "dumb"}
        self._shell = subprocess.Popen(shell, cwd=ROOT, env=environment, stdin=end, stdout=end, stderr=end)
        os.close(end)

    def type(self, keys: str, shown: str) -> None:
        """Type keys, and wait until a text is shown after them."""
        os.write(self._terminal, keys.encode())
        seen = len(self._screen)
        while shown.encode() not in self._screen[seen:]:
            assert select.select([self._terminal], [], [], 60)[0], self._screen.decode()
            self._screen += os.read(self._terminal, 4096)

    def close(self) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._terminal)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh: make browser installs it")
def test_zsh_completes_commands_and_options(command: dict[str, str]) -> None:
    """As a person types, because zsh completes in its line editor only."""
    zsh = Typing("zsh", "-f", "-i", env=command)
    try:
        zsh.type("PS1='ready> '; autoload -U compinit; compinit -u -D\n", "ready> ")
        zsh.type('eval "$(masscomm completion zsh)"; echo loaded-$?\n', "loaded-0")
        zsh.type("masscomm dead\t", "-letters")
        zsh.type("re\t", "play")
        zsh.type("\x15masscomm send --idem\t", "potency-key")
    finally:
        zsh.close()
