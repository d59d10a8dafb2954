"""When the snapshot generations were created, and whether one is complete, in the index directory_state.

Log positions order the rows of one generation only: a moved or restored database assigns them again. Between two
generations the time decides at which cdc_consumer stored the first state of each. It never changes.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from masscomm.directory.by_id import documents_by_id
from masscomm.directory.client import OpenSearch

INDEX = "directory_state"
CREATED_AT = "created_at"


def document_id(generation: str) -> str:
    """Return the id of the document with a generation's state."""
    return f"generation-{generation}"


def created_at(state: Mapping[str, Any]) -> int:
    """Return when a generation was created, in ms since the epoch; 0 if it has no state."""
    return int(state.get(CREATED_AT, 0))


class CreationTimes(Protocol):
    def of(self, generations: Collection[str]) -> dict[str, int]:
        """Return the times of creation (ms since the epoch) of the generations that have a state. Raises Retry."""
        ...

    def is_any_complete(self, generations: Collection[str]) -> bool:
        """Return whether one of the generations has all rows of its snapshot. Raises Retry."""
        ...


class OpenSearchCreationTimes:
    def __init__(self, client: OpenSearch) -> None:
        self._client = client
        self._known: dict[str, int] = {}

    def of(self, generations: Collection[str]) -> dict[str, int]:
        if missing := sorted(set(generations) - self._known.keys()):
            self._known |= {name: created_at(state) for name, state in self._states(missing).items()}
        return {name: self._known[name] for name in generations if name in self._known}

    def is_any_complete(self, generations: Collection[str]) -> bool:
        return any(state.get("complete") is True for state in self._states(sorted(generations)).values())

    def _states(self, generations: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return the states of the generations that have one. Raises Retry."""
        names = {document_id(each): each for each in generations}
        found = documents_by_id(self._client, INDEX, names)
        return {names[id_]: document["_source"] for id_, document in found.items()}


class InMemoryCreationTimes:
    def __init__(self, **times: int) -> None:
        self.times = times
        self.complete = True

    def of(self, generations: Collection[str]) -> dict[str, int]:
        return {name: self.times[name] for name in generations if name in self.times}

    def is_any_complete(self, generations: Collection[str]) -> bool:  # noqa: ARG002 - all have one state here
        return self.complete
