"""What one of the workers runs together."""

from devstack.settings import ROOT
from tests import whole_files
from tests.whole_files import STACKS, group


def test_a_file_is_one_worker_s_and_so_are_all_that_hold_a_stack() -> None:
    assert group("tests/unit/a/test_b.py::TestC::test_d[::e]") == "tests/unit/a/test_b.py"
    for file in whole_files.HOLD_A_STACK:
        assert group(f"{file}::test_a[b]") == STACKS
        assert (ROOT / file).exists()


def test_all_that_ask_for_a_stack_are_named() -> None:
    words = ("one_stack_at_a_time: None", "fault_stack: FaultStack")
    asking = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.name != "test_whole_files.py" and any(word in path.read_text() for word in words)
    }
    assert asking == whole_files.HOLD_A_STACK
