"""`masscomm smoke` finds a wrong status, a missing count and an alarm."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import smoke
from cli.errors import CommandError
from masscomm.domain.simulator import RECIPIENTS, simulate


class Installation:
    """An API in which every send ends as it should, unless an attribute says otherwise."""

    def __init__(self) -> None:
        self.sends: list[list[int]] = []
        self.statuses = {each: str(simulate(each, "email").status) for each in RECIPIENTS} | {42: "sent"}
        self.lost, self.alarm, self.ends, self.evaluated = 0, "ok", True, True
        self.channels: list[str] = []

    def send(self, *, to_users: list[int], channels: list[str], **_: Any) -> dict[str, str]:
        self.sends.append(to_users)
        self.channels += channels
        return {"send_id": str(len(self.sends) - 1)}

    def follow(self, send_id: str, **_: Any) -> Iterator[dict[str, Any]]:
        if not self.ends:
            raise TimeoutError
        yield {"send_id": send_id}

    def recipients(self, send_id: str) -> Iterator[dict[str, Any]]:
        for user in self.sends[int(send_id)]:
            yield {"user_id": user, "status": self.statuses[user], "decision": "its reason"}

    def metrics(self, **query: Any) -> dict[str, Any]:
        assert (query["measure"], query["club_id"]) == ("requested", 7)
        counted = sum(map(len, self.sends)) - (self.lost if self.sends else 0)
        return {"rows": [{"count_total": 100}, {"count_total": counted}]}

    def alarms(self) -> dict[str, Any]:
        return {"evaluated": self.evaluated, "rows": [{"name": "kafka-offline", "state": self.alarm}]}


def problems(api: Any, user: int | None = 42) -> list[str]:
    checks = smoke._Checks(club=7, kind="news", user=user, channels=["email", "push"], data={}, timeout_s=0.0)
    return [problem for _, problem in checks.run(api)]


def test_working_installation_has_no_problem() -> None:
    api = Installation()
    assert problems(api) == ["", "", "", "", ""]
    assert api.channels == ["email", "email", "push"]
    assert problems(Installation(), user=None) == ["", "", ""]


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ({"statuses": {**Installation().statuses, RECIPIENTS[0]: "failed"}}, f"{RECIPIENTS[0]} is failed"),
        ({"statuses": {**Installation().statuses, RECIPIENTS[-1]: "sent"}}, f"{RECIPIENTS[-1]} is sent"),
        ({"lost": 1}, f"{len(RECIPIENTS) + 1} after 0 s"),
        ({"alarm": "alarm"}, "kafka-offline"),
        ({"evaluated": False}, "the alarms are not evaluated"),
    ],
)
def test_each_problem_is_named(broken: dict[str, Any], problem: str) -> None:
    api = Installation()
    vars(api).update(broken)
    assert [each for each in problems(api) if each] == [problem]


def test_message_to_the_user_is_not_sent() -> None:
    api = Installation()
    api.statuses[42] = "suppressed"
    assert problems(api) == ["", *["it is suppressed: its reason"] * 2, "", ""]


def test_deployed_environment_is_checked_with_all_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The address in MASSCOMM_API_URL is another API, which gets no key of the environment."""
    called: list[Any] = []

    def run_module(*words: Any) -> int:
        called.append(words)
        return 3

    monkeypatch.setattr(smoke, "run_module", run_module)
    monkeypatch.setenv("MASSCOMM_API_URL", "https://elsewhere")
    options = "--club 7 --user 42 --channel push --channel email --type alert --data a=b --timeout 9 --json"
    answer = CliRunner().invoke(smoke.app, ["prod", *options.split(), "--environments", str(tmp_path)])
    assert answer.exit_code == 3
    words = [
        "--club=7",
        "--user=42",
        "--channel=push",
        "--channel=email",
        "--type=alert",
        "--data=a=b",
        "--timeout=9.0",
    ]
    assert called == [("smoke", "prod", tmp_path, *words, "--json")]


def test_send_that_does_not_end_leads_to_its_trace() -> None:
    api = Installation()
    api.ends = False
    with pytest.raises(CommandError, match="masscomm trace 0"):
        problems(api)
