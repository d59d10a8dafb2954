"""Reads allowed.tsv: resources that LocalStack may report as created without creating them, each with a reason."""

from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("allowed.tsv")


@dataclass(frozen=True, order=True)
class Allowed:
    """A resource type in one stack (the name is without the environment's prefix)."""

    stack: str
    type: str
    reason: str


def read_allowed(file: Path = FILE) -> list[Allowed]:
    """Return the entry of every line.

    Raises:
        ValueError: A line has no reason, or occurs twice.
    """
    found = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        parts = line.split("\t")
        if len(parts) != 3 or not all(part.strip() for part in parts):
            raise ValueError(f"{file.name}, line {number}: not a stack, a type and a reason")
        found.append(Allowed(*parts))
    if len({(each.stack, each.type) for each in found}) < len(found):
        raise ValueError(f"{file.name}: a stack and type occur twice")
    return found
