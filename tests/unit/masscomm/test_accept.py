import pytest

from masscomm.http.accept import chosen

OFFERED = ("application/json", "text/csv")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "application/json"),
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/csv", "text/csv"),
        ("TEXT/CSV; charset=utf-8", "text/csv"),
        ("text/*", "text/csv"),
        ("application/json;q=0.5, text/csv;q=0.9", "text/csv"),
        ("text/html, application/xhtml+xml, */*;q=0.8", "application/json"),
        ("application/json;q=0, */*", "text/csv"),
        ("application/xml", None),
        ("text/csv;q=0", None),
        ("text/csv;q=high", None),
        ("nonsense", None),
        (";;q=,/,", None),
    ],
)
def test_most_weighted_offered_type_is_chosen(accept: str | None, expected: str | None) -> None:
    assert chosen(accept, OFFERED) == expected
