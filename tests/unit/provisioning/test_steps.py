import json

import pytest

from ops.provisioning import ProvisioningError
from ops.provisioning.steps import Step, printing, run_steps


class Server:
    """A server with changes that steps make."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.lines: list[str] = []

    def step(self, name: str, *, wanted: bool = True) -> Step:
        def pending() -> list[str]:
            return [f"make {name}"] if wanted and name not in self.made else []

        return Step(name=name, pending=pending, run=lambda: self.made.append(name))

    def run(self, *steps: Step, check: bool = False, as_json: bool = False) -> int:
        self.lines.clear()
        return run_steps(steps, check=check, report=printing(self.lines.append, as_json=as_json))


def test_steps_run_in_order_and_only_if_pending() -> None:
    server = Server()
    steps = [server.step("topics"), server.step("schemas", wanted=False), server.step("tables")]
    assert server.run(*steps) == 2
    assert server.made == ["topics", "tables"]
    assert server.lines == ["topics: done", "    make topics", "schemas: not needed", "tables: done", "    make tables"]
    assert server.run(*steps) == 0
    assert server.lines == ["topics: not needed", "schemas: not needed", "tables: not needed"]


def test_a_check_changes_nothing() -> None:
    server = Server()
    steps = [server.step("topics"), server.step("schemas", wanted=False)]
    assert server.run(*steps, check=True) == 1
    assert server.made == []
    assert server.lines == ["topics: would be done", "    make topics", "schemas: not needed"]


def test_results_for_programs_are_an_object_a_line() -> None:
    server = Server()
    steps = [server.step("topics"), server.step("schemas", wanted=False)]
    for check in (True, False):
        server.run(*steps, check=check, as_json=True)
        assert [json.loads(line) for line in server.lines] == [
            {"step": "topics", "done": not check, "changes": ["make topics"]},
            {"step": "schemas", "done": False, "changes": []},
        ]


def test_a_refused_step_ends_the_run() -> None:
    server = Server()

    def refuse() -> None:
        raise ProvisioningError("no")

    refused = Step(name="schemas", pending=lambda: ["register"], run=refuse)
    with pytest.raises(ProvisioningError):
        server.run(server.step("topics"), refused, server.step("tables"))
    assert server.made == ["topics"]
    assert server.lines == ["topics: done", "    make topics"]
