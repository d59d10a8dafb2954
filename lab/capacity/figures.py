"""A published figure, such as a price or a quota, with its source, its date, and its reliability."""

from dataclasses import dataclass
from enum import StrEnum


class Trust(StrEnum):
    """How a figure was checked."""

    DOCUMENTED = "documented"
    """AWS' own documentation has the figure."""
    COPIED = "copied"
    """AWS' price list, quoted by others: several sources agree, or one names the offer file."""
    UNVERIFIED = "unverified"
    """Sources differ, or none was found: verify it before use."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A price, a quota or another published figure.

    Attributes:
        value: The number in `unit`.
        read: The month in which the source was read.
        raise_by: The way to raise a quota.
    """

    name: str
    value: float
    unit: str
    region: str
    read: str
    source: str
    trust: Trust
    raise_by: str = ""
