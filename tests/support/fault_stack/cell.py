"""A cell of the fault matrix: a fault, the sends during it, the expectation, and the result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from local.emulators.event_source import Pollers
from masscomm.directory.chosen import OPENSEARCH

if TYPE_CHECKING:
    from tests.support.fault_stack.bench import Bench

# A function that requests the sends of a cell; the fault calls it at the right moment.
type Send = Callable[[], None]
type FaultOf = Callable[["Bench", Send], None]


@dataclass(frozen=True, kw_only=True)
class Load:
    """The send of a cell.

    Attributes:
        users: The number of recipients.
        named: The indices of the recipients in to_users, if some occur several times or not at all.
        chunk: The number of recipients in one record.
        own: Whether the cell needs new users, because the fault changes their rows.
        channel: The channel: push or email.
    """

    users: int = 400
    named: Sequence[int] | None = None
    chunk: int = 2_500
    own: bool = False
    channel: str = "push"


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """How the host runs the functions.

    Attributes:
        pollers: The mode of the event source mappings.
        environments: The environments of each function of the chain, and the mappings of each of its topics; None: as
            in functions.yaml.
        directory: Where the functions look up.
    """

    pollers: Pollers = Pollers.PROVISIONED
    environments: int | None = None
    directory: str = OPENSEARCH


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """The deviations from the oracle's results that the fault may cause.

    Attributes:
        dead_letters: The reasons of the dead letters.
        bound: The maximum number of duplicates that lost responses cause, without a kill.
        refused_users: The positions of recipients whose endpoints the provider refuses permanently; they are
            suppressed.
    """

    dead_letters: Sequence[str] = ()
    bound: int = 0
    refused_users: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One fault during one set of sends.

    Attributes:
        deployment: The deployment of the functions during the fault.
        ci: Whether the cell runs with the other tests, as a fifth of the cells do.
        timeout_s: The seconds within which the cell ends if every guard works; a mutant that loses records fails then.
    """

    name: str
    fault: FaultOf
    load: Load = field(default_factory=Load)
    expectation: Expectation = field(default_factory=Expectation)
    deployment: Deployment = field(default_factory=Deployment)
    ci: bool = False
    timeout_s: float = 25.0


@dataclass(kw_only=True)
class Result:
    """The result of a cell.

    Attributes:
        expected, sent, unexpected: Numbers of provider calls.
        wrong: Descriptions of all other deviations.
    """

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
        """Return the deviations of this cell in one line."""
        numbers = [f"{name} {count}" for name in ("lost", "unexpected", "metric_error") if (count := vars(self)[name])]
        if self.duplicates > self.bound:
            numbers.append(f"duplicates {self.duplicates} of at most {self.bound}")
        return "; ".join([*numbers, *self.wrong])
