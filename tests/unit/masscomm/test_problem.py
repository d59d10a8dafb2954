"""Problem details as RFC 9457 has them."""

import json

from masscomm.problem import FieldError, Problem, problem_response


def test_the_status_gives_the_title_where_none_is_given() -> None:
    assert Problem(404, "No such send.").body() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "No such send.",
    }


def test_wrong_fields_are_named_with_what_is_allowed() -> None:
    response = problem_response(400, None, "Wrong.", [FieldError("granularity", "one of minute, hour, day")])
    assert response.status_code == 400
    assert response.headers["Content-Type"] == "application/problem+json"
    assert json.loads(response.body or "")["errors"] == [
        {"field": "granularity", "message": "one of minute, hour, day"}
    ]


def test_retry_after_and_own_headers_are_sent() -> None:
    response = Problem(503, "Later.", retry_after_s=2).response({"X-Request": "1"})
    assert response.headers["Retry-After"] == "2"
    assert response.headers["X-Request"] == "1"
    assert response.headers["Cache-Control"] == "no-store"
