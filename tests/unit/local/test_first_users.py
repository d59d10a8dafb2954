import io
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class Moment:
    """What the servers answer at one time."""

    complete: bool = True  # Whether the snapshot is marked as complete.
    endpoints: bool = False  # Whether the devices have endpoints.
    lags: tuple[int | None, ...] = ()  # The lag of device_registrar in each partition.


class Servers:
    """OpenSearch and the gateway, with a moment for each look at the snapshot."""

    def __init__(self, *moments: Moment) -> None:
        self.remaining = list(moments)

    def is_complete(self) -> bool:
        self.now = self.remaining.pop(0)
        return self.now.complete

    def endpoints(self, devices: list[int]) -> dict[int, str]:
        return dict.fromkeys(devices, "arn") if self.now.endpoints else {}

    def status(self, _url: str) -> dict[str, Any]:
        partitions = {f"cdc.devices-{number}": {"lag": lag} for number, lag in enumerate(self.now.lags)}
        return {"mappings": {"device_registrar": {"partitions": partitions}}}

    def close(self) -> None:
        """Close nothing."""


ABSENT = (Moment(complete=False, endpoints=True), Moment(), Moment(lags=(0, 3)), Moment(lags=(None, 0)))


@pytest.mark.parametrize(
    ("seeded", "last"),
    [
        (True, (Moment(lags=(0, 0)), Moment(endpoints=True))),
        (False, (Moment(endpoints=True),)),
        (False, (Moment(lags=(0, 0)),)),
    ],
    ids=["first start", "later start", "later start with changed devices"],
)
def test_start_waits_until_a_send_is_delivered_at_once(
    seeded: bool, last: tuple[Moment, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = Servers(*ABSENT, *last)
    monkeypatch.setattr(first_users, "Directory", lambda *_: servers)
    monkeypatch.setattr(first_users, "json_at", servers.status)
    users = FirstUsers(StackConfig.on_free_ports(tmp_path))
    users._seeded = seeded
    users.tasks()[-1].run()
    assert servers.remaining == []
