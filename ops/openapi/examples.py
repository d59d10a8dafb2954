"""Completes the examples of response bodies, so that an operation gives only the members with values of their own."""

from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

NOON, ONE = "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"
SEND_ID = "3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f39"

# Member → its value in examples that do not give another one.
_VALUES: Mapping[str, Any] = {
    "at": NOON,
    "channel": "push",
    "club_id": 1,
    "counted_at": NOON,
    "created_at": NOON,
    "end": ONE,
    "generated_at": ONE,
    "grace_ms": 5000,
    "links": {"self": f"/v1/sends/{SEND_ID}"},
    "measure": "sent",
    "reference": "derby-2026",
    "requested_at": NOON,
    "send_id": SEND_ID,
    "start": NOON,
    "type": "news",
    "user_id": 42,
    "watermark": ONE,
}


def completed(body: Any, given: Any) -> Any:
    """Return an example of a type: the given value, with the required members that its bodies lack.

    Raises LookupError for a member that the body does not have, or that has no usual value.

    Args:
        body: The type. TypedDicts are completed, also as members, and in lists and mappings.
        given: A value of the type; of a TypedDict any of its members.
    """
    if given is None:
        return None
    kind = next(each for each in get_args(body) if each is not NoneType) if _is_optional(body) else body
    if is_typeddict(kind):
        hints = get_type_hints(kind)
        if unknown := given.keys() - hints.keys():
            message = f"{kind.__name__} has no {unknown}"
            raise LookupError(message)
        return {
            name: completed(hint, given[name]) if name in given else _usual(name, hint)
            for name, hint in hints.items()
            if name in given or name in kind.__required_keys__
        }
    if get_origin(kind) is list:
        return [completed(get_args(kind)[0], each) for each in given]
    if get_origin(kind) is dict:
        return {name: completed(get_args(kind)[1], each) for name, each in given.items()}
    return given


def _usual(name: str, hint: Any) -> Any:
    """Return the usual value of a member, by its name or else by its type: null where it may be, false, or zero."""
    if name in _VALUES:
        return _VALUES[name]
    if _is_optional(hint):
        return None
    if is_typeddict(hint):
        return completed(hint, {})
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    if hint in (bool, int):
        return hint()
    message = f"the example has no {name}"
    raise LookupError(message)


def _is_optional(hint: Any) -> bool:
    return NoneType in get_args(hint)
