"""Parses query parameters. All invalid parameters are reported together, with the allowed values, before the store
is read.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import overload

from masscomm.domain.times import parse_rfc3339
from masscomm.http.problem import FieldError, Problem
from masscomm.integers import integer
from masscomm.texts import CodedText, Text

MAX_FILTER_VALUES = 100

_MAX_TEXT = 200


class Parser[T]:
    """Parses one value of a parameter.

    Args:
        form: The form of the valid values, for callers. The API description has it, too.
        parse: Returns the value in a text. Raises ValueError for an invalid text.
    """

    def __init__(self, form: CodedText, parse: Callable[[str], T]) -> None:
        self.form = form
        self._parse = parse

    def __call__(self, text: str) -> T:
        return self._parse(text)


def of_form[T](form: CodedText) -> Callable[[Callable[[str], T]], Parser[T]]:
    """Return a decorator that makes a function the parser of values of this form."""
    return lambda parse: Parser(form, parse)


class Reader:
    """Parses parameters ({name: values}) and collects their errors, so that one response contains all of them."""

    def __init__(self, parameters: Mapping[str, list[str]], allowed: tuple[str, ...] = ()) -> None:
        self._parameters = parameters
        unknown = (
            Text.PARAMETER_UNKNOWN.filled(parameters=", ".join(allowed)) if allowed else Text.PARAMETERS_NONE.filled()
        )
        self.errors = [FieldError(name[:100], unknown) for name in parameters if name not in allowed]

    def given(self, name: str) -> bool:
        return bool(self._parameters.get(name))

    def single[T](self, name: str, parse: Parser[T], *, required: bool = False) -> T | None:
        """Return the value of a parameter that may occur once; None if it is missing or invalid."""
        values = self._parameters.get(name, [])
        if len(values) > 1:
            self.refuse(name, Text.GIVEN_TWICE.filled())
            return None
        if not values:
            if required:
                self.refuse(name, Text.MISSING_FORM.filled(form=parse.form))
            return None
        return self._parsed(name, values[0], parse)

    def several[T](self, name: str, parse: Parser[T]) -> tuple[T, ...]:
        """Return the distinct valid values of a parameter that may occur several times."""
        values = self._parameters.get(name, [])
        if len(values) > MAX_FILTER_VALUES:
            self.refuse(name, Text.GIVEN_TOO_OFTEN.filled(maximum=MAX_FILTER_VALUES))
            return ()
        parsed = (self._parsed(name, value, parse) for value in values)
        return tuple(dict.fromkeys(value for value in parsed if value is not None))

    def refuse(self, name: str, message: CodedText) -> None:
        self.errors.append(FieldError(name, message))

    def check(self) -> None:
        """Raise Problem with status 400 and all errors, if there is one."""
        if self.errors:
            raise self.problem()

    def problem(self) -> Problem:
        """Return the problem response with status 400 and all errors."""
        names = ", ".join(dict.fromkeys(error.field for error in self.errors))
        return Problem(400, Text.PARAMETERS_INVALID.filled(parameters=names), errors=self.errors)

    def _parsed[T](self, name: str, value: str, parse: Parser[T]) -> T | None:
        try:
            value.encode()  # Postgres refuses a text with half of a surrogate pair.
            return parse(value)
        except ValueError:
            self.refuse(name, Text.VALUE_UNUSABLE.filled(value=ascii(value[:100]), form=parse.form))
            return None


time = Parser(Text.FORM_TIME.filled(), parse_rfc3339)


def whole_number(lowest: int, highest: int) -> Parser[int]:
    """Return a parser of whole numbers from `lowest` to `highest`."""

    def parse(text: str) -> int:
        return integer(text, lowest, highest)

    return Parser(Text.FORM_NUMBER.filled(lowest=lowest, highest=highest), parse)


def choice[T: str](values: Iterable[T]) -> Parser[T]:
    """Return a parser of one of several texts."""
    known: dict[str, T] = {str(each): each for each in values}

    def parse(text: str) -> T:
        if text not in known:
            raise ValueError(text)
        return known[text]

    return Parser(Text.FORM_CHOICE.filled(choices=", ".join(known)), parse)


@of_form(Text.FORM_WORDS.filled())
def words(text: str) -> str:
    if not 1 <= len(text) <= _MAX_TEXT or "\0" in text:
        raise ValueError(text)
    return text


cursor = Parser(Text.FORM_CURSOR.filled(), str)


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
