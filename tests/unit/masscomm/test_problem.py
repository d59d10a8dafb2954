from masscomm.http.problem import FieldError, Problem


def test_problem_without_a_title_has_that_of_its_status() -> None:
    assert Problem(404, "No such send.").body() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "No such send.",
    }


def test_wrong_fields_are_named_with_the_allowed_values() -> None:
    problem = Problem(400, "Wrong.", errors=[FieldError("granularity", "one of minute, hour, day")])
    assert problem.body()["errors"] == [{"field": "granularity", "message": "one of minute, hour, day"}]
