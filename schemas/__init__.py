"""Records, topics, indices, tables and the databases' certificate authorities, as files."""

from pathlib import Path

_HERE = Path(__file__).parent


def read_text(path: str) -> str:
    """A file's content, by its path in here.

    Errors: OSError where there is none. importlib.resources does the same, and imports what unpacks archives for it.
    """
    return (_HERE / path).read_text()


def absolute(path: str) -> str:
    """Where a file stands, by its path in here, for libraries that open it themselves."""
    return str((_HERE / path).resolve())
