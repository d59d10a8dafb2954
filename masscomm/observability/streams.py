"""The stream to which log lines are written: standard output, or standard error in a command, whose results are on
standard output.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class LogStream(logging.StreamHandler[TextIO]):
    """Writes to the current sys.stdout, which may have been redirected after the logger was created; in a command to
    sys.stderr.
    """

    in_command = False

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """Return the stream to which the next line is written."""
        return sys.stderr if LogStream.in_command else sys.stdout


@contextmanager
def to_standard_error() -> Iterator[None]:
    """Write all lines of this process to standard error inside this context: it runs a command."""
    LogStream.in_command = True
    try:
        yield
    finally:
        LogStream.in_command = False
