"""The categories of sends (the field `type`), from schemas/categories.yaml."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from schemas import read_text

CHANNELS = ("push", "email")

# A category's or a template's name, as a regular expression.
NAME_PATTERN = r"^[A-Za-z0-9_.:-]{1,128}$"


@dataclass(frozen=True)
class Category:
    """A category of sends."""

    # The channels of a send that names none.
    channels: tuple[str, ...]
    # Opt-outs do not apply.
    mandatory: bool


@cache
def _document() -> dict[str, Any]:
    import yaml

    document: dict[str, Any] = yaml.safe_load(read_text("categories.yaml"))
    return document


@cache
def categories() -> Mapping[str, Category]:
    """Return the listed categories by name, and under ``default`` the category of all other names.

    Cached, because the caller needs the result for each recipient.
    """
    default = _document()["default"]
    entries = {"default": default} | {name: default | entry for name, entry in _document()["categories"].items()}
    return MappingProxyType(
        {name: Category(tuple(entry["channels"]), entry["mandatory"]) for name, entry in entries.items()}
    )


def category(name: str) -> Category:
    """Return the category of that name, or the default category."""
    known = categories()
    return known.get(name, known["default"])


def resolve_channels(name: str, requested: Sequence[str]) -> list[str]:
    """Return a send's channels: the requested ones, each once and in their order, else the category's."""
    return list(dict.fromkeys(requested)) or list(category(name).channels)
