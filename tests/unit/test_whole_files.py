"""The tests of a group run on one worker, and the remaining tests of a crashed worker run on another."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from unittest.mock import Mock

import pytest

from local.devstack.config import ROOT
from tests.support import whole_files
from tests.support.whole_files import SPARK, STACKS, TEMPLATES, WholeFiles, group

# One of two workers runs `a`, the other `p`, `q`, `r` and `s`. The second worker crashes in `q`, when no test is queued
# any more and the first worker has run its last test.
CONFTEST = """
    import os, signal, time
    from pathlib import Path
    import pytest
    from tests.support.whole_files import WholeFiles

    here = Path(__file__).parent

    def pytest_xdist_make_scheduler(config, log):
        return WholeFiles(config, log)

    def begun(name):
        with here.joinpath("begun").open("a") as file:
            file.write(name + "\\n")

    def wait_for(name):
        while name not in here.joinpath("begun").read_text().split():
            time.sleep(0.01)

    @pytest.fixture(autouse=True)
    def run(request):
        begun(name := request.node.name)
        match name:
            case "test_a1":
                wait_for("test_q")
            case "test_q":
                wait_for("test_a2")
                os.kill(os.getpid(), signal.SIGKILL)
"""
FILES = {"a": ("a1", "a2", "a3"), "p": ("p1", "p2"), "q": ("q",), "r": ("r",), "s": ("s",)}


def test_file_runs_on_one_worker_and_all_stacks_on_one() -> None:
    assert group("tests/unit/a/test_b.py::TestC::test_d[::e]") == "tests/unit/a/test_b.py"
    for file in whole_files.HOLD_A_STACK:
        assert group(f"{file}::test_a[b]") == STACKS
        assert (ROOT / file).exists()


def files_with(*words: str) -> set[str]:
    """The test files, without this one, that contain one of the words."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.name != "test_whole_files.py" and any(word in path.read_text() for word in words)
    }


def test_files_that_read_templates_are_one_worker_s() -> None:
    """A second worker would only wait while the first one synthesises the templates."""
    asks = re.compile(r"\b(environment|prod|local|replacing|synthesised): (SynthesisedEnvironment|dict\[str, Synth)")
    reading = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if asks.search(path.read_text())
    }
    assert reading
    assert {group(f"{file}::test_a") for file in reading} == {TEMPLATES}


def test_files_that_need_a_stack_are_listed() -> None:
    assert files_with("one_stack_at_a_time: None", "fault_stack: FaultStack") == whole_files.HOLD_A_STACK


def test_files_that_need_spark_run_in_one_worker() -> None:
    asking = files_with("spark: SparkSession", "kafka_frame: ")
    assert len(asking) > 1
    assert {group(f"{file}::test_a") for file in asking} == {SPARK}


def test_replacement_that_collects_other_tests_ends_the_run() -> None:
    scheduler = WholeFiles(Mock(getvalue=Mock(return_value=["popen"])), Mock())
    gone, replacement = (Mock(shutting_down=False, gateway=Mock(id=name)) for name in ("gw0", "gw1"))
    scheduler.add_node(gone)
    scheduler.add_node_collection(gone, ["a::1", "a::2", "b::1"])
    scheduler.schedule()
    assert scheduler.remove_node(gone) == "a::1"
    scheduler.add_node(replacement)
    with pytest.raises(RuntimeError, match="collected other tests"):
        scheduler.add_node_collection(replacement, ["a::1", "a::2"])


def test_collecting_worker_gets_no_tests_of_a_crashed_one() -> None:
    scheduler = WholeFiles(Mock(getvalue=Mock(return_value=["popen"])), Mock())
    gone, replacement = (Mock(shutting_down=False) for _ in range(2))
    tests = ["a::1", "a::2", "b::1", "c::1"]
    scheduler.add_node(gone)
    scheduler.add_node_collection(gone, tests)
    scheduler.schedule()
    scheduler.add_node(replacement)
    assert scheduler.remove_node(gone) == "a::1"
    assert not replacement.method_calls
    scheduler.add_node_collection(replacement, tests)
    scheduler.schedule()
    assert [call.args for call in replacement.send_runtest_some.call_args_list] == [([3],), ([1],)]


def test_crashed_workers_tests_run_once_and_culprit_is_named(tmp_path: Path) -> None:
    tmp_path.joinpath("pytest.ini").write_text("[pytest]")
    tmp_path.joinpath("conftest.py").write_text(dedent(CONFTEST))
    for file, names in FILES.items():
        tmp_path.joinpath(f"test_{file}.py").write_text("\n".join(f"def test_{name}(): pass" for name in names))
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist", "-n", "2", "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        env=alone | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )

    run = [name for name in tmp_path.joinpath("begun").read_text().split() if name.startswith("test_")]
    assert sorted(run) == sorted(f"test_{name}" for names in FILES.values() for name in names), ended.stdout
    assert "crashed while running 'test_q.py::test_q'" in ended.stdout
    assert "1 failed, 7 passed" in ended.stdout
