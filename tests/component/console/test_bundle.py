"""The files that a browser reads before the console's first page, as they are built."""

import gzip
import re
from pathlib import Path

from local.devstack.services.lambda_host import CONSOLE

# The limit of docs/internals/contributing.md, in bytes of gzip.
LARGEST = 200_000
# Keys of AWS and of the API, secrets of webhooks, private keys, signed tokens, secrets of clients, passwords in URLs.
_SECRETS = (
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bmc_(?:test_)?[A-Za-z0-9_-]{20,}",
    r"\bwhsec_[A-Za-z0-9+/]{20,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{8,}",
    r"""client_secret["']?\s*[:=]\s*["'][^"']{8,}["']""",
    r"\b[a-z][a-z+]+://[\w.-]+:[^@\s/\"'`${}]+@",
)
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


def test_the_bundle_has_no_secret() -> None:
    """Each built file, and the patterns find such texts in a file that has them."""
    files = [file for file in CONSOLE.rglob("*") if file.suffix in {".js", ".css", ".html", ".json", ".svg"}]
    assert len(files) > 5
    assert [(file.name, found) for file in files for found in secrets_in(file.read_text())] == []
    planted = (
        "AKIAIOSFODNN7EXAMPLE",
        "mc_" + "a1B2" * 8,
        "whsec_" + "A1b2" * 8,
        "-----BEGIN EC PRIVATE KEY-----",
        "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJl",
        'client_secret:"abcdefghij"',
        "postgresql://job:word@db/metrics",
    )
    assert [text for text in planted if not secrets_in(f"const a={text};")] == []


def secrets_in(text: str) -> list[str]:
    return [found for pattern in _SECRETS for found in re.findall(pattern, text)]
