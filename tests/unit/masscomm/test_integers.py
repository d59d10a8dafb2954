"""One spelling of each integer is accepted in a text from outside."""

import re
from pathlib import Path

import pytest

from masscomm.integers import HIGHEST, LOWEST, integer, integer_or

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("number", [0, 1, -1, 10, 9_000_000_000_000_001, LOWEST, HIGHEST])
def test_an_integer_has_its_canonical_text(number: int) -> None:
    assert integer(str(number)) == integer(str(number).encode()) == number


@pytest.mark.kills(guard="integers.canonical")
@pytest.mark.parametrize(
    "text",
    [
        *(None, "", " ", "1_0", "01", "-0", "+1", " 1", "1 ", "1\n", "1.0", "1e3", "0x1", "--1", "x"),
        *("\u0661", "\uff11", "\u00b2", str(HIGHEST + 1), str(LOWEST - 1), "9" * 5_000),
        *(b"1_0", b"\xff", b""),
    ],
    ids=ascii,
)
def test_another_spelling_of_an_integer_is_refused(text: str | bytes | None) -> None:
    with pytest.raises(ValueError, match=r"integer|not from"):
        integer(text)
    assert integer_or(text, None) is None


def test_an_integer_outside_the_limits_is_refused() -> None:
    assert [integer_or(text, None, 1, 20) for text in ("0", "1", "20", "21")] == [None, 1, 20, None]


def test_texts_are_parsed_by_this_module_alone() -> None:
    """str.isdecimal and str.isdigit accept other scripts' digits, and precede an int() of a text from outside."""
    exceptions = {
        "masscomm/domain/webhooks.py",  # Retry-After is one or more digits (RFC 9110).
        "masscomm/stores/delayed_records/dynamodb.py",  # DynamoDB writes its numbers itself.
    }
    found = {
        str(path.relative_to(ROOT))
        for room in ("masscomm", "functions", "infra", "spark_metrics")
        for path in (ROOT / room).rglob("*.py")
        if re.search(r"\.is(decimal|digit|numeric)\(", path.read_text())
    }
    assert found == exceptions
