"""Parses all JSON from producers. Every value that it accepts can be written as JSON, as Avro and to OpenSearch.

Python's own parser accepts more (NaN, lone surrogates, numbers that no store can hold), and for deep nesting it raises
RecursionError, which is not a ValueError.

JSON on one line, as Debezium and PostgreSQL write it, is read by orjson, in half of the time with all checks: a text
that orjson writes again from the value, but for blanks, has lost nothing, such as the first of two equal keys.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from masscomm.texts import CodedText, Text

# The maximum nesting: far above that of records from Debezium, SNS and SES, and far below the limits of Python and of
# Jackson (1,000).
MAX_DEPTH = 100
_LONG = 2**63
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Digits of an integer from 2**63 to 2**64 - 1, which orjson reads. Two patterns, because a search for a pattern that
# begins with one certain character is five times as fast.
_UNSIGNED = (re.compile(rb"9[2-9]\d{17}"), re.compile(rb"1\d{19}"))


class InvalidJson(ValueError):
    """The text is not valid JSON."""


class UnstorableJson(InvalidJson):
    """The text is valid JSON, but has a value that our stores cannot hold."""


def read_json(text: bytes | str, *, bounded: bool = True) -> Any:
    """Return the value of a JSON text in UTF-8.

    Args:
        bounded: Whether to refuse numbers and texts that no store can hold. False if the caller checks each field
            itself, in order to name the field in its error.

    Raises:
        InvalidJson: the text is not JSON, or not UTF-8.
        UnstorableJson: a number is not a signed 64-bit integer or finite double, an object names a key twice, a text
            holds half of a surrogate pair, or the nesting is deeper than MAX_DEPTH.
    """
    # orjson refuses the bytes of half of a surrogate pair.
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    if (value := _without_loss(data)) is not None:
        return value
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        if bounded and not isinstance(text, bytes):
            decoded.encode()
        value = json.loads(
            decoded,
            object_pairs_hook=_object,
            parse_int=_integer if bounded else int,
            parse_float=_finite if bounded else float,
            parse_constant=_no_number,
        )
    except InvalidJson:
        raise
    except ValueError as error:
        raise InvalidJson(str(error)) from error
    except RecursionError as error:  # guard: json.nesting
        raise UnstorableJson(Text.JSON_TOO_DEEP.filled(maximum=MAX_DEPTH)) from error
    # A check reads the whole value, so it runs only if the text contains a character that can violate it.
    if decoded.count("{") + decoded.count("[") > MAX_DEPTH and _depth_exceeds(value, MAX_DEPTH):
        raise UnstorableJson(Text.JSON_TOO_DEEP.filled(maximum=MAX_DEPTH))
    if bounded and _SURROGATE.search(decoded):  # guard: json.surrogates
        _encode(value)
    return value


def _without_loss(text: bytes) -> Any:
    """Return the value of a text that orjson reads without loss; None if it may lose something, or is deep."""
    import orjson

    # Beyond its own limit, orjson.dumps raises a TypeError.
    if text.count(b"{") + text.count(b"[") > MAX_DEPTH:  # guard: json.compact_nesting
        return None
    try:
        value = orjson.loads(text)
    except ValueError:
        return None
    # guard: json.read_without_loss
    if orjson.dumps(value).replace(b" ", b"") != text.replace(b" ", b""):
        return None
    return None if _UNSIGNED[0].search(text) or _UNSIGNED[1].search(text) else value  # guard: json.unsigned


def unstorable_values(value: Any, place: str = "") -> Iterator[tuple[str, CodedText]]:
    """Yield each value that no store can hold, as (place, problem) with places such as `clubs[3]`.

    Args:
        value: A value of `read_json` with `bounded=False`, so that its nesting is limited.
        place: The place of the value.
    """
    match value:
        case dict():
            for name, each in value.items():
                shown = name.encode(errors="backslashreplace").decode()
                inner = f"{place}.{shown}" if place else shown
                if shown != name:
                    yield inner, Text.HALF_PAIR_IN_NAME.filled()
                yield from unstorable_values(each, inner)
        case list():
            for number, each in enumerate(value):
                yield from unstorable_values(each, f"{place}[{number}]")
        case int() if not -_LONG <= value < _LONG:
            yield place, Text.NOT_64_BITS.filled()
        case float() if not math.isfinite(value):
            yield place, Text.NOT_A_DOUBLE.filled()
        case str() if value != value.encode(errors="backslashreplace").decode():
            yield place, Text.HALF_PAIR.filled()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UnstorableJson(Text.JSON_KEY_TWICE.filled())
    return found


def _integer(text: str) -> int:
    # The length is checked first: Python refuses more than 4,300 digits, and takes quadratic time below that.
    if len(text) > 20 or not -_LONG <= (number := int(text)) < _LONG:
        raise UnstorableJson(Text.JSON_NOT_64_BITS.filled(number=text[:30]))
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise UnstorableJson(Text.JSON_NOT_A_DOUBLE.filled(number=text[:30]))
    return number


def _no_number(text: str) -> float:
    raise InvalidJson(Text.JSON_NO_NUMBER.filled(value=text))


def _encode(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UnstorableJson(Text.JSON_HALF_PAIR.filled()) from error


def _depth_exceeds(value: Any, limit: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        children = (child for each in level for child in (each.values() if isinstance(each, dict) else each))
        level = [child for child in children if isinstance(child, dict | list)]
    return bool(level)
