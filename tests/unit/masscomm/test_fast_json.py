"""JSON by orjson equals JSON by Python's module, for every value that json accepts."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from masscomm import fast_json

TEXTS = st.text(st.characters(), max_size=20)  # Halves of surrogate pairs, too.
INTEGERS = st.integers(-(2**63), 2**64 - 1)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5), max_leaves=20
)


@given(VALUES | st.integers())
def test_encoded_value_is_read_as_the_same_value(value: Any) -> None:
    assert json.loads(fast_json.encoded(value)) == value


@given(VALUES)
def test_json_of_pythons_module_is_parsed_to_the_same_value(value: Any) -> None:
    assert fast_json.parsed(json.dumps(value).encode()) == value


@given(st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, st.lists, max_leaves=20))
@example("\x7f")
def test_ascii_text_is_that_of_pythons_module(value: Any) -> None:
    """The delivery ledger compares stored texts, which another version may have written."""
    assert fast_json.ascii_text(value) == json.dumps(value, separators=(",", ":"))


def test_default_replaces_unknown_objects() -> None:
    assert fast_json.encoded({"a": [b"x"]}, lambda value: value.decode()) == b'{"a":["x"]}'
    assert json.loads(fast_json.encoded([b"x", "\ud83d"], lambda value: value.decode())) == ["x", "\ud83d"]
    with pytest.raises(TypeError):
        fast_json.encoded({"a": b"x"})


def test_invalid_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        fast_json.parsed(b"{")
