"""Reads the environment variables of the functions, only while a function is initialised."""

import math
import os
import re
from collections.abc import Sequence

from masscomm.domain.channels import CHANNELS
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.errors import Stop
from masscomm.integers import integer

# Python's float() also accepts spaces, underscores and other scripts' digits.
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?", re.ASCII)


def required(name: str) -> str:
    """Return the value of a required variable. Raises Stop with its name if it is not set."""
    value = os.environ.get(name, "")
    if not value:
        raise Stop(f"the environment variable {name} is not set")
    return value


def number(name: str, default: float) -> float:
    """Return the value of a numeric variable. Raises Stop if it is not a number."""
    text = os.environ.get(name, "")
    return _number(name, text) if text else default


def whole_number(name: str, default: int, *, lowest: int = 0) -> int:
    """Return the value of a variable that has a whole number. Raises Stop if it is not a whole number, or is less than
    `lowest`.
    """
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        return integer(text, lowest)
    except ValueError as error:
        raise Stop(f"the environment variable {name} is not a whole number of at least {lowest}: {text!r}") from error


def numbers(name: str, default: Sequence[float]) -> tuple[float, ...]:
    """Return the values of a variable that has numbers separated by commas. Raises Stop if one is not a number."""
    text = os.environ.get(name, "")
    return tuple(_number(name, part.strip()) for part in text.split(",")) if text else tuple(default)


def _number(name: str, text: str) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise Stop(f"the environment variable {name} is not a number: {text!r}")
    return value


def choice(name: str, known: Sequence[str]) -> str:
    """Return the value of a variable that has a closed list of values, by default the first one. Raises Stop for any
    other value.
    """
    text = os.environ.get(name) or known[0]
    if text not in known:
        raise Stop(f"the environment variable {name} is none of {', '.join(known)}: {text!r}")
    return text


def lane() -> Lane:
    """Return the lane that this function processes, by default bulk. Raises Stop for an unknown lane."""
    text = os.environ.get("MASSCOMM_LANE", Lane.BULK)
    try:
        return Lane(text)
    except ValueError:
        raise Stop(f"the environment variable MASSCOMM_LANE is not a lane: {text!r}") from None


def broadcast_queues() -> tuple[Lane, ...]:
    """Return the broadcast queues whose topics have consumers, by default all. Raises Stop for more than there are."""
    count = whole_number("BROADCAST_QUEUES", len(BROADCASTS), lowest=1)
    if count > len(BROADCASTS):
        raise Stop(f"the environment variable BROADCAST_QUEUES is more than {len(BROADCASTS)}: {count}")
    return BROADCASTS[:count]


def complete_receipts() -> frozenset[str]:
    """Return the channels whose provider reports each message that has arrived, by default none. Raises Stop for a
    channel that does not exist, and for push: its receipts say that the push service has the message.
    """
    text = os.environ.get("COMPLETE_RECEIPTS", "")
    found = frozenset(part.strip() for part in text.split(",")) if text else frozenset()
    possible = frozenset(name for name, channel in CHANNELS.items() if not channel.to_devices)
    if not found <= possible:
        names = ", ".join(sorted(possible))
        raise Stop(f"the environment variable COMPLETE_RECEIPTS has channels that are none of {names}: {text!r}")
    return found
