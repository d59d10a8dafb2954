"""The environment variables of the functions, read only while a function is built."""

import math
import os
from collections.abc import Sequence

from masscomm.domain.lanes import Lane
from masscomm.errors import Stop


def required(name: str) -> str:
    """Return a variable that must be set. Errors: Stop with its name."""
    value = os.environ.get(name, "")
    if not value:
        raise Stop(f"the environment variable {name} is not set")
    return value


def number(name: str, default: float) -> float:
    """Return a numeric variable. Errors: Stop where it is not a number."""
    text = os.environ.get(name, "")
    return _number(name, text) if text else default


def numbers(name: str, default: Sequence[float]) -> tuple[float, ...]:
    """Return a variable of numbers with commas between them. Errors: Stop where one is not a number."""
    text = os.environ.get(name, "")
    return tuple(_number(name, part) for part in text.split(",")) if text else tuple(default)


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Stop(f"the environment variable {name} is not a number: {text!r}")
    return value


def choice(name: str, known: Sequence[str]) -> str:
    """Return a variable with one of the known values, by default the first. Errors: Stop for another value."""
    text = os.environ.get(name) or known[0]
    if text not in known:
        raise Stop(f"the environment variable {name} is none of {', '.join(known)}: {text!r}")
    return text


def lane() -> Lane:
    """Return the lane that this function serves, by default bulk. Errors: Stop where it is no lane."""
    text = os.environ.get("MASSCOMM_LANE", Lane.BULK)
    try:
        return Lane(text)
    except ValueError:
        raise Stop(f"the environment variable MASSCOMM_LANE is no lane: {text!r}") from None
