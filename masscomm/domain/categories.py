"""The categories of sends (the field `type`), from schemas/categories.yaml."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from schemas import read_text


@dataclass(frozen=True)
class Category:
    """A category of sends, such as news."""

    # The channels of a send that does not name its channels.
    channels: tuple[str, ...]
    # Whether the category is sent even to users that have opted out.
    mandatory: bool


@cache
def _document() -> dict[str, Any]:
    import yaml

    document: dict[str, Any] = yaml.safe_load(read_text("categories.yaml"))
    return document


@cache
def categories() -> Mapping[str, Category]:
    """Return the listed categories by name, and under ``default`` the category that applies to all other names.

    The result is cached, because the caller needs it for each recipient.
    """
    default = _document()["default"]
    entries = {"default": default} | {name: default | entry for name, entry in _document()["categories"].items()}
    return MappingProxyType(
        {name: Category(tuple(entry["channels"]), entry["mandatory"]) for name, entry in entries.items()}
    )


def category(name: str) -> Category:
    """Return the category with that name, or else the default category."""
    known = categories()
    return known.get(name, known["default"])


def resolve_channels(name: str, requested: Sequence[str]) -> list[str]:
    """Return a send's channels: the requested ones in their order without repetitions, else those of its category."""
    return list(dict.fromkeys(requested)) or list(category(name).channels)
