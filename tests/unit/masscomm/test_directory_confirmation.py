"""A batch waits at most once until the directory has caught up, and only while time remains."""

import pytest

from masscomm.directory.confirmation import Confirmation
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.users import DirectoryPosition
from masscomm.errors import Retry
from tests.support.harness.chain import NOW


def test_stale_directory_is_waited_for_once() -> None:
    directory = InMemoryDirectory(caught_up=DirectoryPosition(lsn=1, ts_ms=NOW - 1))
    confirmation = Confirmation(directory=directory, remaining_s=lambda: 60)
    for ts_ms in (NOW, NOW + 5, NOW):
        with pytest.raises(Retry):
            confirmation.confirm(ts_ms)
    assert directory.calls["confirm"] == 1
    confirmation.confirm(NOW - 1)
    assert directory.position() == DirectoryPosition(lsn=1, ts_ms=NOW - 1)


def test_directory_is_not_waited_for_without_remaining_time() -> None:
    directory = InMemoryDirectory()
    with pytest.raises(Retry, match="time"):
        Confirmation(directory=directory, remaining_s=lambda: 4.9).confirm(NOW)
    assert directory.calls["confirm"] == 0
    directory.confirm(NOW)
    Confirmation(directory=directory, remaining_s=lambda: 0.1).confirm(NOW)
    assert directory.calls["confirm"] == 1
