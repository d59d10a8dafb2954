import io
import re
from pathlib import Path
from typing import cast

import pytest

from cli.terminal import Terminal
from local.devstack.config import StackConfig
from local.devstack.demo.waiting import DemoError, Pending, Waiter
from local.devstack.handle import StackHandle


class Handle:
    def __init__(self, folder: Path) -> None:
        self.config = StackConfig(folder)


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def waiter(tmp_path: Path, said: io.StringIO) -> Waiter:
    log = tmp_path / "logs" / "spark.log"
    log.parent.mkdir()
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    return Waiter(cast(StackHandle, Handle(tmp_path)), Terminal(file=said, width=140))


def test_wait_ends_once_nothing_is_missing(waiter: Waiter, said: io.StringIO) -> None:
    answers = iter([Pending("two", 0, 2), Pending("one", 1, 2), None])

    waiter.until("both are there", lambda: next(answers), timeout_s=5, every_s=0)

    assert re.fullmatch(r"✓ both are there \(0\.\d s\)\n", said.getvalue())


def test_timeout_names_the_missing_and_the_end_of_its_log(waiter: Waiter) -> None:
    with pytest.raises(DemoError) as error:
        waiter.until("the rows", lambda: Pending("7 users", 3, 10), timeout_s=0, every_s=0, logs=["spark", "none such"])

    first, where, *lines = str(error.value).splitlines()
    assert first == "the rows: not within 0 s. Still missing: 7 users (3 of 10)"
    assert where.startswith("The end of ")
    assert where.endswith("spark.log:")
    assert lines == [f"line {number}" for number in range(88, 100)]
