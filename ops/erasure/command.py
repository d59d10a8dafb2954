"""One run of the erasure: it checks the person, erases the data in each store in turn, and reports the results.

The directory's rows are erased last, because the next run after an aborted or failed one needs them to find the
person's data. A repeated run erases newly arrived data and changes nothing else.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from masscomm.errors import Stop
from masscomm.untrusted import mask, visible
from ops.erasure.person import Person

type Step = Callable[[Person], int]


@dataclass
class Report:
    """The result of a run."""

    # The number of erased documents, items, rows or archive hours of each store.
    erased: dict[str, int] = field(default_factory=dict)
    # The error of each store whose step failed.
    failed: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the report as text, one line for each store."""
        done = [f"{name}: {count} erased" for name, count in self.erased.items()]
        return done + [f"{name}: NOT finished: {reason}" for name, reason in self.failed.items()]

    def answer(self, kept: Sequence[str], *, as_json: bool) -> list[str]:
        """Return the lines of the command's answer, or one with a JSON object.

        Args:
            kept: Until when topics and backups keep other copies, one line for each.
        """
        if as_json:
            return [json.dumps({**asdict(self), "still_kept": list(kept)})]
        return [*self.lines(), "Still kept:", *kept]


def check(person: Person, *, still_known: bool, even_if_known: bool) -> None:
    """Check that the person's data may be erased.

    Raises:
        Stop: The stores have the user under other tenants only, or the directory in OpenSearch still has the user.
    """
    if person.clubs and person.club_id not in person.clubs:
        raise Stop(f"User {person.user_id} is not a user of club {person.club_id}: nothing was erased.")
    if still_known and not even_if_known:
        raise Stop(
            f"The directory still has user {person.user_id}: change data capture would restore the erased data."
            " Delete the user in the monolith first, or pass --even-if-known."
        )


def erase(person: Person, stores: Mapping[str, Step], last: tuple[str, Step]) -> Report:
    """Run the step of each store, even if another step failed. Run the last step only if no step failed."""
    report = Report()
    for name, step in stores.items():
        _run(report, person, name, step)
    if report.failed:  # guard: erasure.directory_last
        report.failed[last[0]] = "kept, because the next run needs it to find the remaining data"
    else:
        _run(report, person, *last)
    return report


def _run(report: Report, person: Person, name: str, step: Step) -> None:
    try:
        report.erased[name] = step(person)
    except Exception as error:  # The steps of the other stores must run in spite of any error.
        # The message is masked, because it may quote personal data from the request.
        report.failed[name] = visible(f"{type(error).__name__}: {mask(str(error))}")[:500]
