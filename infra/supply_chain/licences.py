"""Lists the licences of all dependencies from their bills of materials: `make licences`.

The command reads CycloneDX files (https://cyclonedx.org/docs/1.6/json/) and prints a line for each component. The exit
status is 1 if a component has no known licence (add it to UNNAMED), or only a licence with obligations for a company
that offers masscomm as a service (REFUSED).
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

# Licences that were looked up by hand: {name: (licence, source)}.
UNNAMED = {
    "protobuf": ("BSD-3-Clause", "the LICENSE file of its wheel"),
}
# Licences that require providers of a network service to publish its source, or that forbid such a service.
REFUSED = re.compile(
    r"\b(AGPL|Affero|SSPL|Server Side Public|BUSL|Business Source|Commons Clause|Elastic-2)", re.IGNORECASE
)
# Our own Maven modules, which only list jars.
_OWN_GROUP = "masscomm.devstack"


@dataclass(frozen=True, order=True)
class Component:
    """One dependency: a Python package or a jar."""

    name: str
    version: str
    # The names of the licences in the bill of materials; empty if it names none.
    licences: tuple[str, ...]

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Self:
        """Return the dependency in an entry of a CycloneDX file."""
        group = entry.get("group")
        name = f"{group}:{entry['name']}" if group else entry["name"]
        named = tuple(sorted({_licence(choice) for choice in entry.get("licenses", [])} - {""}))
        if not named and name in UNNAMED:
            named = (UNNAMED[name][0],)
        return cls(name, entry.get("version", ""), named)


def _licence(choice: dict[str, Any]) -> str:
    if "expression" in choice:
        return str(choice["expression"])
    licence = choice["license"]
    return str(licence.get("id") or licence.get("name") or "")


def components(bills: Iterable[dict[str, Any]]) -> list[Component]:
    """Return the distinct dependencies in these CycloneDX documents, sorted by name."""
    entries = (entry for bill in bills for entry in bill["components"] if entry.get("group") != _OWN_GROUP)
    return sorted({Component.of(entry) for entry in entries})


def faults(found: Iterable[Component]) -> Iterator[str]:
    """Return a line for each dependency whose licence is unknown or refused."""
    for component in found:
        if not component.licences:
            yield f"{component.name} {component.version} has no licence: look it up and add it to UNNAMED"
        elif all(REFUSED.search(licence) for licence in component.licences):
            yield f"{component.name} {component.version} has a refused licence: {', '.join(component.licences)}"


def main() -> int:
    """Print the dependencies, and faults to stderr. Return the exit status: 1 if there are faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bill", nargs="+", type=Path, help="a CycloneDX file, JSON")
    found = components(json.loads(path.read_text()) for path in parser.parse_args().bill)
    for component in found:
        print(f"{component.name}\t{component.version}\t{' / '.join(component.licences)}")
    wrong = list(faults(found))
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
