"""The texts of problem details: each is used with its parameters, and no problem has a text without a code."""

import ast
from collections.abc import Iterator
from string import Formatter

import pytest

from devstack.config import ROOT
from masscomm.http.problem import FieldError, Problem, invalid
from masscomm.http.rest import problem_response
from masscomm.http.texts import Text

_FOLDERS = ("masscomm", "functions")


def _calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield each call in the code that serves requests, with its place."""
    for path in (each for folder in _FOLDERS for each in sorted((ROOT / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


CALLS = list(_calls())


def _parameters(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_each_text_is_used_with_its_parameters() -> None:
    used: set[str] = set()
    for place, call in CALLS:
        match call.func:
            case ast.Attribute(attr="filled", value=ast.Attribute(attr=name, value=ast.Name(id="Text"))):
                used.add(name)
                given = {str(keyword.arg) for keyword in call.keywords} - {"longest"}
                assert given == _parameters(Text[name]), place
    # The limiter chooses its text by the kind of limit.
    assert used | {"REQUESTS_LIMIT", "RECIPIENTS_LIMIT"} == set(Text.__members__)


def test_no_problem_has_a_text_without_a_code() -> None:
    written = (ast.Constant, ast.JoinedStr)
    problems = [
        (place, call)
        for place, call in CALLS
        if isinstance(call.func, ast.Name) and call.func.id == "Problem" and len(call.args) > 1
    ]
    assert len(problems) > 30
    assert [place for place, call in problems if isinstance(call.args[1], written)] == []


def test_problem_has_the_code_and_the_values_of_its_text() -> None:
    body = Problem(409, Text.SEND_RELEASED.filled(send_at="2026-11-21T08:00:00Z")).body()
    assert body["detail"] == "The send is released: its send_at was 2026-11-21T08:00:00Z."
    assert body["code"] == "send_released"
    assert body["parameters"] == {"send_at": "2026-11-21T08:00:00Z"}


def test_field_error_has_the_code_of_its_text() -> None:
    body = invalid([FieldError("template", Text.TEMPLATE_UNKNOWN.filled()), FieldError("type", "is missing")]).body()
    assert [error.get("code") for error in body["errors"]] == ["template_unknown", None]
    assert body["parameters"] == {"field": "template", "reason": Text.TEMPLATE_UNKNOWN.value}


def test_values_of_a_problem_are_masked() -> None:
    response = problem_response(Problem(503, Text.DEPENDENCY_DOWN.filled(reason="no answer to ada@club.example")))
    assert "ada@club.example" not in response.body


@pytest.mark.parametrize("longest", [5, 400])
def test_text_and_values_are_shortened(longest: int) -> None:
    filled = Text.DATA_UNUSED.filled(longest=longest, template="t" * 500)
    assert len(filled) == min(longest, len(Text.DATA_UNUSED.filled(template="t" * 500)))
    assert filled.parameters == {"template": "t" * longest}
