"""The documents of the index device_state: the states of one device, one for each snapshot generation that has its row.

The fields of a document are those of the state in the oldest of these generations; `others` has the states in the later
ones.
"""

from collections.abc import Iterator, Mapping
from typing import Any

INDEX = "device_state"
# The ids of the documents with the devices that have one token (functions.device_registrar.token_holders).
HOLDERS_PREFIX = "token:"

type Source = Mapping[str, Any]


def states_in(document: Source) -> Iterator[dict[str, Any]]:
    """Yield the states of a document, that of the oldest generation first."""
    yield {name: value for name, value in document.items() if name != "others"}
    yield from map(dict, document.get("others") or ())


def document_of(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the document with these states, of which there is at least one."""
    first, *others = states
    return {**first, "others": others} if others else first


def state_for(document: Source, *, generation: str, token: str | None) -> Source:
    """Return the state that applies to a device's row in the directory; an empty one if none has the row's token.

    It is the state in the row's own generation. While the device registrar has not reached this row there, the endpoint
    that another generation's row has given to the same token is as good.
    """
    # Most documents have one state.
    if "others" not in document:
        return document if document.get("token") == token else {}

    def preference(state: Source) -> tuple[bool, bool]:
        # guard: devices.state_of_the_generation
        return state["generation"] != generation, not state["enabled"]

    return min((state for state in states_in(document) if state.get("token") == token), key=preference, default={})


def state_in(document: Source, generation: str) -> Source:
    """Return the state in a snapshot generation; the first one if the device registrar has no row of the device there
    yet.
    """
    states = list(states_in(document))
    return next((state for state in states if state["generation"] == generation), states[0])


def some_state(*conditions: tuple[str, str, Any]) -> dict[str, Any]:
    """Return a query for the documents in which a state meets all conditions (query, field, value).

    A document may match by two of its later states that meet the conditions only together.
    """
    first = [{query: {field: value}} for query, field, value in conditions]
    later = [{query: {f"others.{field}": value}} for query, field, value in conditions]
    return {"bool": {"should": [{"bool": {"filter": first}}, {"bool": {"filter": later}}], "minimum_should_match": 1}}
