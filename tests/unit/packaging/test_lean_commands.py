"""Commands for every installation load nothing of the stack of this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

from cli.folders import ROOT
from tests.support.servers.answering_server import answering

# Commands that drive the stack of this machine.
LOCAL = ("up", "down", "status", "doctor", "logs", "demo", "inbox", "recompute-check", "query", "erase", "clean-state")

# Calls each other command with values for its required parameters. A value may be refused, but not by the parser.
CALLED = """
import json, subprocess, sys
from typer.testing import CliRunner
from cli.main import app
from cli.reference import all_commands

subprocess.run = lambda *_, **__: subprocess.CompletedProcess([], 1)  # the upgrade of a deployed environment
local = set(json.loads(sys.argv[1]))

result = {}
for names, command in all_commands().items():
    if " ".join(names) in local:
        continue
    arguments = list(names)
    for param in command.params:
        if param.name == "deployed":
            arguments += ["--deployed"] if param.is_flag else ["--deployed", "dev"]
        elif param.required:
            value = "bash" if param.name == "shell" else "1"
            arguments += [*(param.opts[:1] if param.param_type_name == "option" else ()), value]
    if names in (("send",), ("schedule", "put")):
        arguments += ["--to", "1"]
    done = CliRunner().invoke(app, arguments)
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] == "local")
    result[" ".join(names)] = {"exit": done.exit_code, "loaded": loaded}
print(json.dumps(result))
"""


def test_other_commands_load_nothing_of_the_local_stack(tmp_path: Path) -> None:
    with answering(lambda _: None) as api:
        api.answers = [(403, b"{}")]
        done = subprocess.run(
            [sys.executable, "-c", CALLED, json.dumps(LOCAL)],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "MASSCOMM_API_URL": api.url, "MASSCOMM_STATE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    called = json.loads(done.stdout.splitlines()[-1])
    assert len(called) > 30
    assert {name: each for name, each in called.items() if each["exit"] == 2 or each["loaded"]} == {}
