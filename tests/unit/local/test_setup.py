"""Prerequisites: a missing or wrong program is reported in one line, before anything is downloaded."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from local.devstack import setup
from local.devstack.config import ROOT

Tools = Callable[..., Path]


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    """Makes a PATH folder that contains only these programs, with these outputs."""

    def make(
        python: str = "3.13",
        java: str | None = "17.0.15",
        javac: bool = True,
        maven: bool = True,
        node: str | None = "v20.0.0",
        npm: bool = True,
    ) -> Path:
        # The layout of a JDK: its home is the parent of java's folder.
        folder = tmp_path / "jdk" / "bin"
        folder.mkdir(parents=True)

        def program(name: str, script: str) -> None:
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)

        program("python3", f"echo {python}; echo {folder}/python3")
        program("make", "exit 0")
        if java:
            program("java", f"echo 'openjdk version \"{java}\" 2025-04-15' >&2")
        if javac:
            program("javac", "exit 0")
        if maven:
            program("mvn", "exit 0")
        if node:
            program("node", f"echo {node}")
        if npm:
            program("npm", "exit 0")
        return folder

    return make


def check(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run setup.py with this PATH and an otherwise empty environment."""
    script = f"import runpy, sys; sys.executable = {str(path / 'python3')!r}; sys.argv = ['setup.py', '--check'];" + (
        f"runpy.run_path({str(ROOT / 'local' / 'devstack' / 'setup.py')!r}, run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", script],
        env={"PATH": str(path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_complete_setup_prints_nothing(tools: Tools) -> None:
    done = check(tools())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ({"java": "21.0.2"}, "JDK 17 is needed and the java of PATH is 21:"),
        ({"java": "1.8.0_402"}, "JDK 17 is needed and the java of PATH is 8:"),
        ({"java": None}, "JDK 17 is needed and no java is on PATH"),
        ({"javac": False}, "has no javac"),
        ({"npm": False}, "npm (of Node.js) is needed and npm is not on PATH"),
        ({"maven": False}, "Maven is needed and mvn is not on PATH"),
        ({"node": None}, "Node.js 20 or newer is needed and no node is on PATH"),
        ({"node": "v18.20.4"}, "Node.js 20 or newer is needed and the node of PATH is 18:"),
        ({"node": "none"}, "the node of PATH does not run"),
        ({"python": "3.12"}, "Python 3.13 is needed and not found (python3 is 3.12)"),
    ],
)
def test_missing_or_wrong_tool_is_reported_on_one_line(tools: Tools, missing: dict[str, object], named: str) -> None:
    done = check(tools(**missing))
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert named in done.stderr


def test_java_home_takes_precedence_over_path(tools: Tools, tmp_path: Path) -> None:
    path = tools()
    other = tmp_path / "jdk21"
    shutil.copytree(path.parent, other)
    (other / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\"' >&2\n")
    done = check(path, JAVA_HOME=str(other))
    assert done.returncode == 1
    assert f"JAVA_HOME={other} is 21" in done.stderr


def test_several_problems_are_a_line_each(tools: Tools) -> None:
    done = check(tools(java="11.0.1", maven=False))
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["JDK", "Maven"]


def test_failures_of_nested_steps_are_reported_once() -> None:
    steps = setup.Steps()

    def fail() -> bool:
        raise setup.SetupError("no network")

    def inner() -> bool:
        steps.together(("uv", fail))
        return True

    with pytest.raises(setup.SetupError) as raised:
        steps.together(("environments", inner), ("jars", fail))
    assert str(raised.value) == "no network\nno network"


def test_interrupted_setup_prints_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> dict[str, str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(setup, "check_prerequisites", interrupted)
    assert setup.main() == 130
    assert capsys.readouterr().err.splitlines() == [
        "Interrupted. Run it again: it continues with the parts that are missing."
    ]


def test_a_step_does_not_outlive_an_interrupted_setup() -> None:
    daemons: list[bool] = []

    def step() -> bool:
        daemons.append(threading.current_thread().daemon)
        return False

    setup.Steps().together(("step", step))
    assert daemons == [True]


def test_long_command_is_reported_as_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "WORK", str(tmp_path))
    monkeypatch.setattr(setup, "STILL_S", 0.01)
    (tmp_path / "logs").mkdir()
    steps, said, go = setup.Steps(), list[str](), tmp_path / "go"

    def report(text: str) -> None:
        said.append(text)
        go.touch()

    monkeypatch.setattr(steps, "report", report)
    monkeypatch.setattr(setup, "received_bytes", lambda: steps.received + 12_400_000)
    steps.run("jars", ["sh", "-c", f"until [ -e {go} ]; do :; done"], {})
    assert set(said) == {"jars: still running, 12 MB received"}


def test_failure_is_reported_before_the_other_steps_end(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> bool:
        raise setup.SetupError("no network")

    with pytest.raises(setup.SetupError, match="no network"):
        setup.Steps().together(("console", fail))
    assert "console: failed" in capsys.readouterr().out


def test_full_disk_is_reported_before_a_first_setup(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tools()))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(sys, "executable", "python3")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=200_000_000))
    setup.check_prerequisites()
    monkeypatch.setattr(setup, "VENV", str(tmp_path / "absent"))
    with pytest.raises(setup.SetupError, match=r"3 GB of free disk are needed in .* 0\.2 GB are free"):
        setup.check_prerequisites()


def test_stamp_of_the_same_files_is_fresh(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("one")
    stamp = setup.digest(str(lock), "3.13")
    assert not setup.fresh(str(tmp_path), stamp)
    setup.write_stamp(str(tmp_path), stamp)
    assert setup.fresh(str(tmp_path), setup.digest(str(lock), "3.13"))
    lock.write_text("two")
    assert not setup.fresh(str(tmp_path), setup.digest(str(lock), "3.13"))


def test_a_mirror_given_to_pip_is_given_to_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = tmp_path / "pip"
    pip.write_text(
        "#!/bin/sh\necho \"global.index-url='http://mirror.internal/simple'\"\necho \":env:.cert='/etc/ca.pem'\"\n"
    )
    pip.chmod(0o755)
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", "/already/chosen.pem")
    assert setup.package_index(str(pip)) == {"UV_DEFAULT_INDEX": "http://mirror.internal/simple"}


def test_no_lock_file_or_pom_names_a_registry() -> None:
    """Installation from a mirror fails if a lock file contains a registry's address."""
    locks = [*sorted((ROOT / "requirements").glob("*.txt")), ROOT / "infra" / "cdk" / "package-lock.json"]
    poms = [*sorted((ROOT / "local" / "devstack" / "jars").rglob("pom.xml")), ROOT / "sdk" / "java" / "pom.xml"]
    assert locks
    assert poms
    assert [lock.name for lock in locks if "://" in lock.read_text()] == []
    # npm's lock files also have addresses at which authors accept donations.
    for package in ("web", "sdk/typescript"):
        assert '"resolved"' not in (ROOT / package / "package-lock.json").read_text()
    named = [
        pom for pom in poms if any(tag in pom.read_text() for tag in ("<repository>", "<pluginRepository>", "<url>"))
    ]
    assert named == []


def locked_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Lock the two jars of the module kafka and the one of connect. Returns the sums of kafka."""
    monkeypatch.setattr(setup, "JAR_LOCK", str(tmp_path / "SHA256SUMS"))
    (tmp_path / "SHA256SUMS").touch()
    folder = tmp_path / "kafka"
    folder.mkdir()
    (folder / "broker.jar").write_text("broker")
    (folder / "client.jar").write_text("client")
    found = setup.sums_of(str(folder), "kafka")
    setup.lock_jars({"connect/plugin.jar": "1"})
    setup.lock_jars(found)
    setup.check_jars(found)
    return found


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"kafka/client.jar": "0"}, "kafka/client.jar: 0, locked 948fe603"),
        ({"kafka/client.jar": None}, "kafka/client.jar: missing, locked 948fe603"),
        ({"kafka/other.jar": "0"}, "kafka/other.jar: 0, locked nothing"),
    ],
    ids=["other bytes", "missing", "unknown"],
)
def test_jar_that_is_not_the_locked_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: dict[str, str | None], named: str
) -> None:
    found: dict[str, str | None] = {**locked_jars(monkeypatch, tmp_path), **change}
    with pytest.raises(setup.SetupError, match=named) as refused:
        setup.check_jars({path: total for path, total in found.items() if total is not None})
    assert str(refused.value).count("locked") == 2, "one line names the fault"


def test_locking_a_module_keeps_the_lock_of_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = locked_jars(monkeypatch, tmp_path)
    setup.lock_jars({"kafka/client.jar": found["kafka/client.jar"]})
    assert setup.read_jar_lock() == {"connect/plugin.jar": "1", "kafka/client.jar": found["kafka/client.jar"]}


def test_lock_has_every_module_of_jars() -> None:
    modules = {pom.parent.name for pom in (ROOT / "local" / "devstack" / "jars").glob("*/pom.xml")} | {
        setup.CONNECT_MODULE,
        setup.JAVA_CLIENT_MODULE,
    }
    locked = setup.read_jar_lock()
    assert {path.split("/")[0] for path in locked} == modules
    assert all(len(total) == 64 for total in locked.values())
