"""`lab/first_hour` does what the README says, in its order."""

import io
import re
from pathlib import Path

import pytest

from lab import first_hour
from local.devstack.config import ROOT


def test_commands_are_those_of_the_readme() -> None:
    start, send = first_hour.commands((ROOT / "README.md").read_text())
    assert start == "make run"
    assert send.startswith(".venv/bin/masscomm send --to 42 ")


def test_program_that_ends_early_fails_with_its_output() -> None:
    lines = first_hour.await_line(io.StringIO("setup: failed\nno java\n"), re.compile("http"))
    with pytest.raises(first_hour.FirstHourError, match="no java"):
        list(lines)


def test_each_part_is_timed_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make` and `masscomm` print what the real ones print; the first runs until it is ended."""
    (tmp_path / "README.md").write_text("    make run\n    .venv/bin/masscomm send --to 42\n")
    made, sent = tmp_path / "make", tmp_path / ".venv" / "bin" / "masscomm"
    sent.parent.mkdir(parents=True)
    made.write_text(
        "#!/bin/sh\ntrap 'echo stopped > ended; exit 0' TERM\n"
        "echo 'setup 0.1 s'\necho Try first\necho http://127.0.0.1:8080/\nwhile :; do sleep 0.1; done\n"
    )
    sent.write_text("#!/bin/sh\necho 'after 0.4 s: push to user 42'\n")
    for program in (made, sent):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(first_hour, "print", lambda *_, **__: None, raising=False)
    seconds = first_hour.try_it(tmp_path)
    parts = [seconds[name] for name in ("setup", "stack up", "first message after its command")]
    assert sum(parts) == pytest.approx(seconds["first message after make run"])
    assert (tmp_path / "ended").read_text() == "stopped\n"
