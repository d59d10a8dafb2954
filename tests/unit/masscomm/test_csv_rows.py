"""CSV that reads back unchanged, and that no spreadsheet evaluates as a formula."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.http.csv import csv_rows

_FORMULA = set("=+-@\t\r\n＝＋－＠")  # noqa: RUF001


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=5))
def test_csv_text_is_read_back_but_for_the_apostrophe(texts: list[str]) -> None:
    written = csv_rows(["type", "count_total"], [{"type": text, "count_total": 1} for text in texts])
    assert written.startswith("type,count_total\r\n")
    assert written.endswith("\r\n")
    header, *rows = csv.reader(io.StringIO(written, newline=""), strict=True)
    assert header == ["type", "count_total"]
    assert [row[0].removeprefix("'") for row in rows] == [text.removeprefix("'") for text in texts]
    assert not any(row[0].lstrip()[:1] in _FORMULA for row in rows if row[0].strip())


@pytest.mark.guarantee("csv.formula_is_text")
@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\uff1d1", "\x00=1", "\ufeff=1", "\u200b\xa0@x"]
)
def test_text_like_a_formula_is_quoted(text: str) -> None:
    (row,) = list(csv.reader(io.StringIO(csv_rows(["type"], [{"type": text}]), newline="")))[1:]
    assert row == [f"'{text}"]


def test_special_characters_are_quoted_but_numbers_are_not() -> None:
    assert csv_rows(["a", "b"], [{"a": 'x"y, z\r\n', "b": -7}]) == 'a,b\r\n"x""y, z\r\n",-7\r\n'
