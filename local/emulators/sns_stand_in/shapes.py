"""Checks requests against the models of AWS' services in botocore."""

import base64
import binascii
import re
from functools import cache
from typing import Any

_KINDS: dict[str, Any] = {
    "structure": dict,
    "map": dict,
    "list": list,
    "string": str,
    "blob": str,
    "integer": int,
    "boolean": bool,
}


class Invalid(Exception):
    """A field of a request is not valid."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


def check_shape(service: str, name: str, request: Any) -> None:
    """Check a request against a shape of a service's model. Raises Invalid."""
    _check("", request, _model(service).shape_for(name))


@cache
def _model(service: str) -> Any:
    import botocore.session

    return botocore.session.get_session().get_service_model(service)


def _check(where: str, value: Any, shape: Any) -> None:
    kind = shape.type_name
    if not isinstance(value, _KINDS[kind]) or (kind == "integer" and isinstance(value, bool)):
        raise Invalid(where, f"no {kind}")
    if kind == "blob":
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise Invalid(where, "no Base64") from error
        return
    if kind == "structure":
        if unknown := value.keys() - shape.members.keys():
            raise Invalid(min(unknown), "unknown")
        if missing := set(shape.required_members) - value.keys():
            raise Invalid(min(missing), "missing")
        for name, each in value.items():
            _check(name, each, shape.members[name])
        return
    if kind == "map":
        for key, each in value.items():
            _check(where, key, shape.key)
            _check(where, each, shape.value)
    if kind == "list":
        for each in value:
            _check(where, each, shape.member)
    size = value if kind == "integer" else len(value) if hasattr(value, "__len__") else 0
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if (least is not None and size < least) or (most is not None and size > most):
        raise Invalid(where, f"not between {least} and {most}")
    if kind == "string":
        pattern, allowed = shape.metadata.get("pattern"), getattr(shape, "enum", [])
        if (pattern and not re.fullmatch(pattern, value)) or (allowed and value not in allowed):
            raise Invalid(where, "another form")
