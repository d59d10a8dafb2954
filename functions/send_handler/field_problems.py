"""The texts of invalid fields that pydantic finds, each with a code."""

import re
from collections.abc import Mapping
from functools import cache

from pydantic_core import ErrorDetails, PydanticCustomError

from masscomm.integers import integer_or
from masscomm.texts import CodedText, Text

# The text of each error of pydantic that the fields of a send can have. Its parameters have the names of pydantic.
OF_PYDANTIC: Mapping[str, Text] = {
    "missing": Text.FIELD_REQUIRED,
    "extra_forbidden": Text.FIELD_EXTRA,
    "string_type": Text.TYPE_TEXT,
    "int_type": Text.TYPE_INTEGER,
    "float_type": Text.TYPE_NUMBER,
    "bool_type": Text.TYPE_BOOLEAN,
    "list_type": Text.TYPE_LIST,
    "dict_type": Text.TYPE_OBJECT,
    "model_type": Text.TYPE_MODEL,
    "literal_error": Text.TYPE_CHOICE,
    "string_too_short": Text.TEXT_TOO_SHORT,
    "string_too_long": Text.TEXT_TOO_LONG,
    "string_pattern_mismatch": Text.TEXT_PATTERN,
    "too_short": Text.LIST_TOO_SHORT,
    "too_long": Text.LIST_TOO_LONG,
    "greater_than_equal": Text.NUMBER_TOO_SMALL,
    "less_than_equal": Text.NUMBER_TOO_LARGE,
    "less_than": Text.NUMBER_NOT_BELOW,
    "timezone_aware": Text.TIME_WITHOUT_ZONE,
    "datetime_from_date_parsing": Text.TIME_UNREADABLE,
}
_BY_CODE = {text.code: text for text in Text}


def field_problem(text: Text, **parameters: str | int) -> PydanticCustomError:
    """Return the error that a validator of a field raises."""
    return PydanticCustomError(text.code, text.value, parameters)


def text_of_details(error: ErrorDetails) -> CodedText:
    """Return the text of an error in pydantic's words, with our code.

    The values are read from the words: the contexts of half a million errors would take a further 140 MB.
    """
    words = error["msg"]
    text = OF_PYDANTIC.get(error["type"]) or _BY_CODE.get(error["type"])
    if text is None or (found := _pattern(text).fullmatch(words)) is None:
        return Text.FIELD_UNUSABLE.filled(words=words)
    values = {name: integer_or(each, each) for name, each in found.groupdict().items()}
    return CodedText.of(words, text.code, values)


@cache
def _pattern(text: Text) -> re.Pattern[str]:
    """Return the pattern of a text in pydantic's words, which have singular and plural."""
    pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.*)", re.escape(text.value))
    return re.compile(re.sub(r"(item|character)s", r"\1s?", pattern).replace("List", "(?:List|Dictionary)"), re.DOTALL)
