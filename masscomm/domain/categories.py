"""What a send's `type` means: schemas/categories.yaml."""

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
    """channels: where it goes when the send names none; mandatory: a user's opt-out does not apply."""

    channels: tuple[str, ...]
    mandatory: bool


@cache
def _document() -> dict[str, Any]:
    import yaml

    document: dict[str, Any] = yaml.safe_load(read_text("categories.yaml"))
    return document


@cache
def categories() -> Mapping[str, Category]:
    """The listed categories by name; the one for all others stands under ``default``. Asked once a recipient: kept."""
    default = _document()["default"]
    entries = {"default": default} | {name: default | entry for name, entry in _document()["categories"].items()}
    return MappingProxyType(
        {name: Category(tuple(entry["channels"]), entry["mandatory"]) for name, entry in entries.items()}
    )


def category(name: str) -> Category:
    """The category of that name, or the default one."""
    known = categories()
    return known.get(name, known["default"])


def resolve_channels(name: str, requested: Sequence[str]) -> list[str]:
    """Return a send's channels: the requested ones, each once and in their order, else the category's."""
    return list(dict.fromkeys(requested)) or list(category(name).channels)
