"""Steps that bring an installation to this version. Each step lists its changes before it makes them."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Self


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of provisioning, which may be repeated."""

    name: str
    # Returns a line of text for each change that `run` would make; none if the installation is up to date.
    pending: Callable[[], list[str]]
    # Makes the changes. It may raise ProvisioningError.
    run: Callable[[], object]

    @classmethod
    def of[**Arguments](
        cls,
        name: str,
        pending: Callable[Arguments, list[str]],
        run: Callable[Arguments, object],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Self:
        """Return a step whose functions get the same arguments."""
        return cls(name=name, pending=partial(pending, *arguments, **options), run=partial(run, *arguments, **options))


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """A step after its turn."""

    step: str
    # Whether its changes were made; False if there are none, or after a check.
    done: bool
    # A line of text for each change.
    changes: list[str]

    def lines(self) -> list[str]:
        """Return the result as text."""
        state = "not needed" if not self.changes else "done" if self.done else "would be done"
        return [f"{self.step}: {state}", *(f"    {change}" for change in self.changes)]


def printing(print_line: Callable[[str], object], *, as_json: bool) -> Callable[[StepResult], None]:
    """Return a function that prints each result: its lines of text, or a JSON object."""

    def report(result: StepResult) -> None:
        for line in [json.dumps(asdict(result))] if as_json else result.lines():
            print_line(line)

    return report


def run_steps(steps: Iterable[Step], *, check: bool, report: Callable[[StepResult], None]) -> int:
    """Run the steps with pending changes, in order, and return their number.

    Args:
        steps: The steps.
        check: Whether to change nothing.
        report: A function that is called with the result of each step.

    Raises:
        ProvisioningError: A server refused a step; the steps before it are done.
    """
    number = 0
    for step in steps:
        changes = step.pending()
        number += bool(changes)
        if changes and not check:
            step.run()
        report(StepResult(step=step.name, done=bool(changes) and not check, changes=changes))
    return number
