"""A published figure, with its source, its date, and its reliability."""

from dataclasses import dataclass
from enum import StrEnum


class Trust(StrEnum):
    """How a figure was checked."""

    DOCUMENTED = "documented"
    """It stands in AWS' own documentation."""
    COPIED = "copied"
    """AWS' price list, as others quote it: several agree, or one names the offer file it is from."""
    UNVERIFIED = "unverified"
    """Sources differ, or none was found: look it up before it is relied on."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """value: in `unit`; read: the month in which the source was looked up; raise_by: how more of it is to be had."""

    name: str
    value: float
    unit: str
    region: str
    read: str
    source: str
    trust: Trust
    raise_by: str = ""
