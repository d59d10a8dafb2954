"""The functions' environment, read where a function is built and nowhere else."""

import math
import os

from masscomm.errors import Stop
from masscomm.topics import Lane


def required(name: str) -> str:
    """A variable that must be set. Errors: Stop, naming it."""
    value = os.environ.get(name, "")
    if not value:
        raise Stop(f"the environment variable {name} is not set")
    return value


def number(name: str, default: float) -> float:
    """A numeric variable. Errors: Stop where it is not a number."""
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Stop(f"the environment variable {name} is not a number: {text!r}")
    return value


def lane() -> Lane:
    """Which lane this function serves; bulk where nothing is said."""
    text = os.environ.get("MASSCOMM_LANE", Lane.BULK)
    try:
        return Lane(text)
    except ValueError:
        raise Stop(f"the environment variable MASSCOMM_LANE is neither bulk nor critical: {text!r}") from None
