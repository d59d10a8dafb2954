from masscomm.http.problem import FieldError, Problem
from masscomm.texts import Text


def test_problem_without_a_title_has_that_of_its_status() -> None:
    assert Problem(404, Text.USER_UNKNOWN.filled()).body() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "This user is unknown.",
        "code": "user_unknown",
        "parameters": {},
    }


def test_wrong_fields_are_named_with_the_allowed_values() -> None:
    message = Text.FORM_CHOICE.filled(choices="minute, hour")
    problem = Problem(
        400, Text.FIELDS_INVALID.filled(fields="granularity"), errors=[FieldError("granularity", message)]
    )
    assert problem.body()["errors"] == [
        {
            "field": "granularity",
            "message": "one of minute, hour",
            "code": "form_choice",
            "parameters": {"choices": "minute, hour"},
        }
    ]
