import json
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from masscomm.json_reader import MAX_DEPTH, InvalidJson, read_json, unstorable_values

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
_VALUES = st.recursive(_SCALARS, lambda each: st.lists(each) | st.dictionaries(st.text(), each), max_leaves=8)


@pytest.mark.kills(guard="json.compact_nesting")
@pytest.mark.kills(guard="json.read_without_loss")
@pytest.mark.kills(guard="json.unsigned")
@pytest.mark.kills(guard="json.surrogates")
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b'"\xed\xa0\x80"',
        b'"\\ud800"',
        b'{"\\uDC00": 1}',
        b'{"a": {"b": ["x\\ud83dy"]}}',
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e400",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"1" * 5_000,
        b'{"a": 1, "a": 2}',
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b"18446744073709551615",
        b'{"a":1,"b":{"c":1,"c":2}}',
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
        b"[" * 500 + b"]" * 500,
        b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
        b"\xef\xbb\xbf{}",
        '"\ud800"',
        "{} {}",
    ],
    ids=lambda text: repr(text[:30]),
)
def test_unstorable_json_is_invalid(text: bytes | str) -> None:
    with pytest.raises(InvalidJson):
        read_json(text)


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, -(2**63), 2**63 - 1, 1.5e300, None, True, "ü\U0001f600\u0000", {}]},
        [],
        json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH),
        [[]] * 500,
        "\\ud800",
    ],
    ids=repr,
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_storable_json_is_read_unchanged(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)

    assert read_json(text) == value
    assert read_json(text.encode()) == value


def _outcome(text: bytes | str) -> str:
    try:
        return repr(read_json(text))
    except InvalidJson as error:
        return type(error).__name__


@settings(max_examples=50)
@given(_VALUES, st.booleans(), st.sampled_from([(",", ":"), (", ", ": ")]))
@example(2**63, False, (",", ":"))
@example(-0.0, False, (",", ":"))
@example(1e20, False, (",", ":"))
def test_json_on_one_line_is_read_as_any_other(value: object, ascii_only: bool, separators: tuple[str, str]) -> None:
    """A line feed before the text excludes the reading by orjson."""
    text = json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode()

    assert _outcome(text) == _outcome(text.decode()) == _outcome(b"\n" + text)


@pytest.mark.parametrize("text", ["[" * 100_000, "NaN", '{"a": 1, "a": 2}', "1" * 5_000, "[" * 101 + "]" * 101])
def test_unbounded_values_are_still_json(text: str) -> None:
    with pytest.raises(InvalidJson):
        read_json(text, bounded=False)
    assert read_json('["\\ud800", 9223372036854775808]', bounded=False) == ["\ud800", 2**63]


def test_nesting_is_bounded_below_the_recursion_limit() -> None:
    """json.dumps recurses, so a more deeply nested value could be read but not written."""
    assert sys.getrecursionlimit() / 2 > MAX_DEPTH


def test_unstorable_values_are_named_with_their_places() -> None:
    text = '{"a": [1, 9223372036854775808], "b": {"c": 1e999, "\\ud800": 1}, "d": "\\udc00x", "e": [true, null, "ok"]}'
    assert dict(unstorable_values(read_json(text, bounded=False))) == {
        "a[1]": "must be a 64-bit integer",
        "b.c": "must be within the range of a double",
        "b.\\ud800": "its name contains half of a surrogate pair",
        "d": "contains half of a surrogate pair",
    }
