"""Parses query parameters. All invalid parameters are reported together, with the allowed values, before the store
is read.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import overload

from masscomm.http.problem import FieldError, Problem
from masscomm.http.texts import Text
from masscomm.integers import integer

MAX_FILTER_VALUES = 100

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_MAX_TEXT = 200
# The earliest and the latest permitted time: far from the limits of Python's calendar, so that no sum of times exceeds
# these.
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


class Reader:
    """Parses parameters ({name: values}) and collects their errors, so that one response contains all of them.

    A parser raises ValueError for an invalid value. Its docstring describes the valid values, for the callers.
    """

    def __init__(self, parameters: Mapping[str, list[str]], allowed: tuple[str, ...]) -> None:
        self._parameters = parameters
        can_be = f"allowed are {', '.join(allowed)}" if allowed else "none is allowed here"
        self.errors = [
            FieldError(name[:100], f"is not a parameter; {can_be}") for name in parameters if name not in allowed
        ]

    def given(self, name: str) -> bool:
        return bool(self._parameters.get(name))

    def single[T](self, name: str, parse: Callable[[str], T], *, required: bool = False) -> T | None:
        """Return the value of a parameter that may occur once; None if it is missing or invalid."""
        values = self._parameters.get(name, [])
        if len(values) > 1:
            self.refuse(name, "must be given once")
            return None
        if not values:
            if required:
                self.refuse(name, f"is missing: {parse.__doc__}")
            return None
        return self._parsed(name, values[0], parse)

    def several[T](self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """Return the distinct valid values of a parameter that may occur several times."""
        values = self._parameters.get(name, [])
        if len(values) > MAX_FILTER_VALUES:
            self.refuse(name, f"may be given at most {MAX_FILTER_VALUES} times")
            return ()
        parsed = (self._parsed(name, value, parse) for value in values)
        return tuple(dict.fromkeys(value for value in parsed if value is not None))

    def refuse(self, name: str, message: str) -> None:
        self.errors.append(FieldError(name, message))

    def problem(self) -> Problem:
        """Return the problem response with status 400 and all errors."""
        names = ", ".join(dict.fromkeys(error.field for error in self.errors))
        return Problem(400, Text.PARAMETERS_INVALID.filled(parameters=names), errors=self.errors)

    def _parsed[T](self, name: str, value: str, parse: Callable[[str], T]) -> T | None:
        try:
            value.encode()  # Postgres refuses a text with half of a surrogate pair.
            return parse(value)
        except ValueError:
            shown = ascii(value[:100])
            self.refuse(name, f"{shown} cannot be used: {parse.__doc__}")
            return None


# The API description shows the docstrings of the following parsers to callers.


def time(text: str) -> datetime:
    """an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B)"""
    if not _RFC3339.fullmatch(text):
        raise ValueError(text)
    try:
        moment = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError as error:
        # The UTC time is outside Python's calendar.
        raise ValueError(text) from error
    if not _EARLIEST <= moment < _LATEST:
        raise ValueError(text)
    return moment


def whole_number(lowest: int, highest: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from `lowest` to `highest`."""

    def parse(text: str) -> int:
        return integer(text, lowest, highest)

    parse.__doc__ = f"a whole number from {lowest} to {highest}"
    return parse


def words(text: str) -> str:
    """1 to 200 characters, no NUL"""
    if not 1 <= len(text) <= _MAX_TEXT or "\0" in text:
        raise ValueError(text)
    return text


@overload
def rfc3339(moment: datetime) -> str: ...
@overload
def rfc3339(moment: datetime | None) -> str | None: ...
def rfc3339(moment: datetime | None) -> str | None:
    """Format a time for responses: UTC, with milliseconds if it has any; None stays None."""
    if moment is None:
        return None
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def time_of_ms(moment_ms: int) -> str:
    """Format a time in milliseconds since the epoch for responses."""
    return rfc3339(datetime.fromtimestamp(moment_ms / 1000, UTC))
