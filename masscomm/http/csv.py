"""Formats rows as CSV (RFC 4180), so that a spreadsheet executes no formula in it, such as one in a category's name.

Source: OWASP, "CSV Injection".
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence

# The first characters of a formula, with the full-width forms that East Asian keyboards produce.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001 - the wide forms are meant

# Leading characters that a spreadsheet may ignore: spaces, control characters, characters without width.
_IGNORED = re.compile(r"^[\s\x00-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")


def csv_rows(columns: Sequence[str], rows: Sequence[Mapping[str, int | str]]) -> str:
    """Return a header line and one line for each row, each ending with CR LF.

    A text that begins like a formula is prefixed with an apostrophe. Numbers, also negative ones, are unchanged.
    """
    lines = io.StringIO(newline="")
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(row[column]) for column in columns] for row in rows)
    return lines.getvalue()


def _cell(value: int | str) -> int | str:
    if isinstance(value, str) and (value.startswith(_FORMULA) or _IGNORED.sub("", value).startswith(_FORMULA)):
        return f"'{value}"
    return value
