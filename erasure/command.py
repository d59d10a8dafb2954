"""One run: what the stores say of the person, then every store in turn, then a report.

The directory's rows are last: a run that was cut off, or that could not reach a store, finds in them what it looked for
and is run again. Doing it again erases what came since and changes nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from erasure.person import Person
from masscomm.errors import Stop
from masscomm.untrusted import mask, visible

type Step = Callable[[Person], int]


@dataclass
class Report:
    """What came of a run. erased: documents, items, rows or hours, by store; failed: why a store was not finished."""

    erased: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """A line for each store."""
        done = [f"{name}: {count} erased" for name, count in self.erased.items()]
        return done + [f"{name}: NOT finished: {why}" for name, why in self.failed.items()]


def check(person: Person, *, still_known: bool, even_if_known: bool) -> None:
    """Refuse a person whose data must not be erased.

    Raises:
        Stop: a store names the user under other tenants only, or the directory still has the user.
    """
    if person.clubs and person.club_id not in person.clubs:
        raise Stop(f"User {person.user_id} is not a user of club {person.club_id}: nothing is erased.")
    if still_known and not even_if_known:
        raise Stop(
            f"The directory still has user {person.user_id}: change data capture would bring back what is erased."
            " Delete the user in the monolith first, or pass --even-if-known."
        )


def erase(person: Person, stores: Mapping[str, Step], last: tuple[str, Step]) -> Report:
    """Run each store's step, the others of which go on where one fails, and the last where none did."""
    report = Report()
    for name, step in stores.items():
        _run(report, person, name, step)
    if report.failed:  # guard: erasure.directory_last
        report.failed[last[0]] = "kept for the next run, which looks there for what to erase"
    else:
        _run(report, person, *last)
    return report


def _run(report: Report, person: Person, name: str, step: Step) -> None:
    try:
        report.erased[name] = step(person)
    except Exception as error:  # whatever it is, the other stores are erased
        # A client's message may quote what it was asked for.
        report.failed[name] = visible(f"{type(error).__name__}: {mask(str(error))}")[:500]
