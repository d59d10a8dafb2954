"""What a cell of the fault matrix is, and what comes of one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.fault_stack.bench import Bench

# Sends the load: at the moment the fault chooses.
type Send = Callable[[], None]
type FaultOf = Callable[["Bench", Send], None]


@dataclass(frozen=True, kw_only=True)
class Load:
    """A send. users: recipients; named: their places, where not each is named once; chunk: recipients a record; own:
    people nobody else sends to, because the fault changes what is known of them; channel: push or email.
    """

    users: int = 400
    named: Sequence[int] | None = None
    chunk: int = 2_500
    own: bool = False
    channel: str = "push"


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What the fault may leave besides the oracle's results.

    dead_letters: reasons of the dead letters; bound: duplicates that no kill accounts for (answers that are lost);
    gone: places of recipients whose endpoints the provider refuses for good: suppressed, and nothing is taken for them.
    """

    dead_letters: Sequence[str] = ()
    bound: int = 0
    gone: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One fault under one load.

    ci: among the quarter that runs with the other tests; timeout_s: in which it ends with every guard
    in place, for whoever takes one away and waits in vain.
    """

    name: str
    fault: FaultOf
    load: Load = field(default_factory=Load)
    expectation: Expectation = field(default_factory=Expectation)
    ci: bool = False
    timeout_s: float = 25.0


@dataclass(kw_only=True)
class Result:
    """What came of a cell. expected, sent, unexpected: provider calls; wrong: what else was not as it must be."""

    cell: str
    expected: int = 0
    sent: int = 0
    lost: int = 0
    unexpected: int = 0
    duplicates: int = 0
    bound: int = 0
    metric_error: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not (self.lost or self.unexpected or self.metric_error or self.wrong) and self.duplicates <= self.bound

    def as_json(self) -> dict[str, Any]:
        """A row of out/faults.json."""
        return {
            "cell": self.cell,
            "expected": self.expected,
            "sent": self.sent,
            "lost": self.lost,
            "duplicates": self.duplicates,
            "bound": self.bound,
            "metric_error": self.metric_error,
            "seconds": round(self.seconds, 1),
            "ok": self.ok,
        }

    def describe(self) -> str:
        """What is not as it must be, in a line."""
        numbers = [f"{name} {count}" for name in ("lost", "unexpected", "metric_error") if (count := vars(self)[name])]
        if self.duplicates > self.bound:
            numbers.append(f"duplicates {self.duplicates} of at most {self.bound}")
        return "; ".join([*numbers, *self.wrong])
