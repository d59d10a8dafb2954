"""Writes rows in COPY's text form."""

import re
from collections.abc import Sequence
from typing import Any

import psycopg

_NULL = "\\N"
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ESCAPED = re.compile(r"[\\\t\n\r]")


def line(*values: object) -> str:
    """Return a row in COPY's text form."""
    texts = [_NULL if value is None else str(value) for value in values]
    if _ESCAPED.search("".join([value for value in values if isinstance(value, str)])):
        texts = [
            _ESCAPED.sub(lambda found: _ESCAPES[found[0]], text) if isinstance(value, str) else text
            for text, value in zip(texts, values, strict=True)
        ]
    return "\t".join(texts)


def copy_lines(connection: psycopg.Connection[Any], table: str, lines: Sequence[str]) -> None:
    """Copy lines into a table, whose columns they have in its order."""
    if lines:
        with connection.cursor() as cursor, cursor.copy(f"copy {table} from stdin".encode()) as copy:
            copy.write("\n".join(lines) + "\n")
