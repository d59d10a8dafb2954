"""Steps that bring an installation to this version. Each step lists its changes before it makes them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
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


def run_steps(steps: Iterable[Step], *, check: bool, report: Callable[[str], None]) -> int:
    """Run the steps with pending changes, in order, and return their number.

    Args:
        steps: The steps.
        check: Whether to change nothing.
        report: A function that is called with a line of text for each step, and for each of its changes.

    Raises:
        ProvisioningError: A server refused a step; the steps before it are done.
    """
    number = 0
    for step in steps:
        changes = step.pending()
        if not changes:
            report(f"{step.name}: not needed")
            continue
        number += 1
        if not check:
            step.run()
        report(f"{step.name}: {'would be done' if check else 'done'}")
        for change in changes:
            report(f"    {change}")
    return number
