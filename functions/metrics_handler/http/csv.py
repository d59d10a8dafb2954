"""Rows as CSV (RFC 4180) that a spreadsheet can open without running what somebody named a category.

Source: OWASP, "CSV Injection".
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence

# What makes a spreadsheet take a cell for a formula, in the wide forms of East Asian keyboards too.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001 - the wide forms are meant

# What a spreadsheet may drop before it looks at a cell: spaces, controls, characters without width.
_IGNORED = re.compile(r"^[\s\x00-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")


def csv_rows(columns: Sequence[str], rows: Sequence[Mapping[str, int | str]]) -> str:
    """A header and a line a row, ended by CR LF.

    A text that begins like a formula gets an apostrophe before it; numbers are as they are, negative ones too.
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
