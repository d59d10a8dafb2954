import io
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from cli.terminal import Terminal
from local.devstack import first_users
from local.devstack.commands import FIRST_COMMAND
from local.devstack.config import ROOT, StackConfig
from local.devstack.first_users import FirstUsers, people_table, shown_users


def test_table_of_people_fits_a_terminal_of_80_columns() -> None:
    output = io.StringIO()
    Terminal(file=output, width=80).print(people_table(shown_users()))
    lines = output.getvalue().splitlines()
    assert "…" not in output.getvalue()
    assert [line.split()[0] for line in lines if line[:1].isdigit()] == [str(each) for each in first_users.SHOWN]
    assert re.search(r"^42 +Rosa Ivanova +en +push \(gcm\), email +everything", output.getvalue(), re.MULTILINE)
    assert "no email, no match_reminder; but newsletter by email" in " ".join(output.getvalue().split())


def test_shown_people_have_the_user_of_the_first_command() -> None:
    words = shlex.split(FIRST_COMMAND)
    users = shown_users()
    assert int(words[words.index("--to") + 1]) in {user.id for user in users}
    assert {user.settings is not None and "news" in user.settings.categories for user in users} == {True, False}
    assert len({user.locale[:2] for user in users}) >= 3


def test_database_of_ones_own_gets_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = StackConfig.on_free_ports(tmp_path)
    assert [task.name for task in FirstUsers(config).tasks()] == ["users", "devices"]
    assert FirstUsers(replace(config, monolith_url="postgresql://shop@db.example.org/shop")).tasks() == []
    monkeypatch.setattr(first_users, "example", lambda: ROOT / "examples" / "crm")
    assert FirstUsers(config).tasks() == []
