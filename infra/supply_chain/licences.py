"""The licence of everything the project brings along, from its bills of materials: `make licences`.

Reads CycloneDX files (https://cyclonedx.org/docs/1.6/json/), writes a line a component. Exit status 1 where a component
names no licence and nobody has looked it up (UNNAMED), or where its licence would bind whoever offers masscomm as a
service (REFUSED).
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

# Looked up by hand: {name: (licence, where it stands)}.
UNNAMED = {
    "protobuf": ("BSD-3-Clause", "the LICENSE file of its wheel"),
}
# Licences that ask users of a network service for its source, or forbid offering one.
REFUSED = re.compile(
    r"\b(AGPL|Affero|SSPL|Server Side Public|BUSL|Business Source|Commons Clause|Elastic-2)", re.IGNORECASE
)
# Ours: the modules that only list jars.
_OWN_GROUP = "masscomm.devstack"


@dataclass(frozen=True, order=True)
class Component:
    """A package or a jar; licences: as it names them, none where it names none."""

    name: str
    version: str
    licences: tuple[str, ...]

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Self:
        """A component of a CycloneDX file."""
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
    """Every component of these CycloneDX documents, each once, by name."""
    entries = (entry for bill in bills for entry in bill["components"] if entry.get("group") != _OWN_GROUP)
    return sorted({Component.of(entry) for entry in entries})


def faults(found: Iterable[Component]) -> Iterator[str]:
    """What stands against using them, a line each."""
    for component in found:
        if not component.licences:
            yield f"{component.name} {component.version} names no licence: look it up and name it in UNNAMED"
        elif all(REFUSED.search(licence) for licence in component.licences):
            yield f"{component.name} {component.version} is under {', '.join(component.licences)}"


def main() -> int:
    """Print the list; exit status 1 after the faults, on stderr."""
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
