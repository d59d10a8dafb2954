"""Derives schemas/windows_zones.json and schemas/zone_aliases.json from CLDR's data, by Babel.

python -m tests.support.zone_data
"""

import json
from pathlib import Path
from typing import Literal

from babel.core import get_global

from schemas import absolute

# The name of a file → the name of Babel's table.
FILES: dict[str, Literal["windows_zone_mapping", "zone_aliases"]] = {
    "windows_zones.json": "windows_zone_mapping",
    "zone_aliases.json": "zone_aliases",
}


def zone_data(file: str) -> str:
    """Return the content of a file."""
    return json.dumps(dict(sorted(get_global(FILES[file]).items())), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in FILES:
        Path(absolute(name)).write_text(zone_data(name))
