"""Problem details as RFC 9457 has them."""

from masscomm.problem import FieldError, Problem


def test_the_status_gives_the_title_where_none_is_given() -> None:
    assert Problem(404, "No such send.").body() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "No such send.",
    }


def test_wrong_fields_are_named_with_what_is_allowed() -> None:
    problem = Problem(400, "Wrong.", errors=[FieldError("granularity", "one of minute, hour, day")])
    assert problem.body()["errors"] == [{"field": "granularity", "message": "one of minute, hour, day"}]
