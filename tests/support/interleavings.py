"""Run every order in which the steps of concurrent environments can happen, optionally with crashes.

A step is a call of an adapter: environments share nothing between two steps. A crashed environment loses its unwritten
state and begins its work again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Semaphore, Thread
from typing import Any

type Work = Callable[["Environment"], None]


class Crash(BaseException):
    """Simulates a kill of the process; the code under test does not handle it."""


@dataclass
class Environment:
    """One execution environment, which waits for its turn before each step."""

    work: Work
    error: BaseException | None = None
    over: bool = False
    _turn: Semaphore = field(default_factory=lambda: Semaphore(0))
    _waits: Semaphore = field(default_factory=lambda: Semaphore(0))
    _crashing: bool = False

    def steps(self, adapter: Any, *methods: str) -> Any:
        """Wrap an adapter, so that each call of these methods, by default of all, is a step of this environment."""
        return _Stepwise(adapter, self, methods)

    def step(self) -> None:
        """Wait for the turn. Raises Crash if the environment must crash here."""
        self._waits.release()
        self._turn.acquire()
        if self._crashing:
            raise Crash

    def begin(self) -> None:
        """Start the work and run it to its first step."""
        Thread(target=self._run, daemon=True).start()
        self._waits.acquire()

    def go_on(self, *, crashing: bool = False) -> None:
        """Execute the step at which the work waits, and run to the next step or the end."""
        self._crashing = crashing
        self._turn.release()
        self._waits.acquire()

    def _run(self) -> None:
        try:
            self.work(self)
        except Crash:
            pass
        except BaseException as error:
            self.error = error
        self.over = True
        self._waits.release()


class _Stepwise:
    def __init__(self, adapter: Any, environment: Environment, methods: Sequence[str]) -> None:
        self._adapter = adapter
        self._environment = environment
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._adapter, name)
        if self._methods and name not in self._methods:
            return call

        def stepping(*arguments: Any, **options: Any) -> Any:
            self._environment.step()
            return call(*arguments, **options)

        return stepping


def every_order(make: Callable[[], tuple[Sequence[Work], Callable[[], None]]], *, crashes: int = 0) -> Iterator[str]:
    """Run all orders and yield the turns of each: "0 1 1! 0" means that environment 1 crashed at its second step.

    Args:
        make: Returns new environments and the final check.
        crashes: The maximum number of crashes in an order.

    Raises:
        Exception: The error of the work or the check, with the order in a note.
    """
    prefix: list[int] | None = []
    while prefix is not None:
        works, check = make()
        name, choices = _run(works, prefix, crashes)
        try:
            check()
        except AssertionError as error:
            error.add_note(f"order: {name}")
            raise
        yield name
        prefix = _next(choices)


def _run(works: Sequence[Work], prefix: Sequence[int], crashes: int) -> tuple[str, list[tuple[int, int]]]:
    environments = [Environment(work) for work in works]
    for each in environments:
        each.begin()
    taken: list[str] = []
    choices: list[tuple[int, int]] = []
    while alive := [number for number, each in enumerate(environments) if not each.over]:
        options = [(number, False) for number in alive]
        if sum(name.endswith("!") for name in taken) < crashes:
            options += [(number, True) for number in alive]
        place = prefix[len(choices)] if len(choices) < len(prefix) else 0
        choices.append((place, len(options)))
        number, crashing = options[place]
        taken.append(f"{number}!" if crashing else str(number))
        environments[number].go_on(crashing=crashing)
        if error := environments[number].error:
            error.add_note(f"order: {' '.join(taken)}")
            raise error
        if crashing:
            environments[number] = Environment(works[number])
            environments[number].begin()
    return " ".join(taken), choices


def _next(choices: list[tuple[int, int]]) -> list[int] | None:
    while choices:
        place, count = choices.pop()
        if place + 1 < count:
            return [*(each for each, _ in choices), place + 1]
    return None
