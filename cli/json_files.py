"""Reads the JSON texts that commands get."""

import json
import sys
from pathlib import Path
from typing import Any

from cli.errors import CommandError


def read_file(file: str) -> Any:
    """Return the JSON value in a file; - is standard input. Raises CommandError."""
    try:
        return parsed(sys.stdin.read() if file == "-" else Path(file).read_text(), file)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from error


def parsed(text: str, where: str) -> Any:
    """Return the value of a JSON text. Raises CommandError."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise CommandError(f"{where} is not JSON: {error}") from error
