"""Definitions of records, topics, indices and tables, and the databases' certificate authorities, as files."""

from pathlib import Path

_HERE = Path(__file__).parent


def read_text(path: str) -> str:
    """The content of a file, by its path in this package.

    importlib.resources would also import zip support, which costs time at a cold start.

    Raises:
        OSError: the file does not exist.
    """
    return (_HERE / path).read_text()


def absolute(path: str) -> str:
    """The absolute path of a file in this package, for libraries that open the file themselves."""
    return str((_HERE / path).resolve())
