"""Steps of a child process before it becomes the service."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from local.devstack import child, process


def run(tmp_path: Path, script: str, owned: tuple[Path, ...] = ()) -> str:
    done = process.spawn(
        [sys.executable, "-c", script],
        environment=dict(os.environ),
        log=tmp_path / "log",
        state_dir=tmp_path,
        owned=owned,
    )
    assert done.wait(20) == 0, (tmp_path / "log").read_text()
    return (tmp_path / "log").read_text().strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to drop")
def test_service_that_refuses_root_runs_as_another_user(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    script = f"import os; open({str(own / 'file')!r}, 'w').write('x'); print(os.geteuid())"
    assert run(tmp_path, script, (own,)) != "0"
    assert (own / "file").read_text() == "x"


def test_files_of_a_service_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    run(tmp_path, f"open({str(tmp_path / 'file')!r}, 'w').close()")
    assert (tmp_path / "file").stat().st_mode & 0o077 == 0


def test_without_user_namespaces_root_drops_its_privileges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "file").touch()
    (tmp_path / "conf").touch()
    given: list[str] = []
    became: dict[str, object] = {}

    def refuse(_: int) -> None:
        raise OSError("user namespaces are off")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "unshare", refuse)
    monkeypatch.setattr(os, "chown", lambda path, *_, **__: given.append(path))
    for name in ("setgroups", "setgid", "setuid"):
        monkeypatch.setattr(os, name, lambda value, name=name: became.update({name: value}))
    child.leave_root(f"{tmp_path / 'data'}{os.pathsep}{tmp_path / 'conf'}")
    assert set(given) == {str(tmp_path / each) for each in ("data", "data/deep", "data/deep/file", "conf")}
    assert became == {"setgroups": [], "setgid": child.UNPRIVILEGED, "setuid": child.UNPRIVILEGED}


def test_child_of_an_ended_stack_does_not_start() -> None:
    # A child whose parent has pid 1 is an orphan: its stack has ended.
    command = [
        sys.executable,
        "-I",
        "-S",
        str(process.CHILD),
        "1",
        "15",
        "",
        "--",
        sys.executable,
        "-c",
        "print('began')",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stdout == ""
