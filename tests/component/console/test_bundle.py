"""The files that a browser reads before the console's first page, as they are built."""

import gzip
import re
from pathlib import Path

from devstack.services.lambda_host import CONSOLE

# The limit of docs/console.md, in bytes of gzip.
LARGEST = 200_000
_NAMED = re.compile(r"""(?:from|import)\s*["']\./([\w.-]+\.js)["']""")


def first_load() -> dict[Path, int]:
    """Return the compressed size of the page, and of each script and style that it names or imports statically."""
    page = CONSOLE / "index.html"
    assert page.exists(), "the console is not built: make setup"
    wanted = [CONSOLE / name for name in re.findall(r'(?:src|href)="\./([\w./-]+)"', page.read_text())]
    found = {page: len(gzip.compress(page.read_bytes()))}
    while wanted:
        file = wanted.pop()
        if file not in found:
            found[file] = len(gzip.compress(file.read_bytes()))
            if file.suffix == ".js":
                wanted += [file.with_name(name) for name in _NAMED.findall(file.read_text())]
    return found


def test_the_first_load_is_small() -> None:
    files = first_load()
    assert {file.suffix for file in files} >= {".html", ".js", ".css"}
    assert sum(files.values()) <= LARGEST, {file.name: size for file, size in files.items()}


def test_charts_are_loaded_with_the_page_that_has_them() -> None:
    assert not any("echarts" in file.read_text() for file in first_load() if file.suffix == ".js")
    assert any("dataZoom" in file.read_text() for file in (CONSOLE / "assets").glob("MetricsPage-*.js"))
