"""The texts for callers: each is used, with its parameters."""

import ast
from collections.abc import Iterator

import pytest

from local.devstack.config import ROOT
from masscomm.http.problem import FieldError, Problem, invalid
from masscomm.http.rest import problem_response
from masscomm.texts import CodedText, Text, text_of

_FOLDERS = ("masscomm", "functions", "local/emulators", "infra")


def _nodes() -> Iterator[tuple[str, ast.AST]]:
    """Yield each part of the code that serves requests, with its place."""
    for path in (each for folder in _FOLDERS for each in sorted((ROOT / folder).rglob("*.py"))):
        if "node_modules" in path.parts:
            continue
        name = path.relative_to(ROOT)
        for node in ast.walk(ast.parse(path.read_text())):
            yield f"{name}:{getattr(node, 'lineno', 0)}", node


def test_each_text_is_used_with_its_parameters() -> None:
    used: set[str] = set()
    for place, node in _nodes():
        match node:
            case ast.Attribute(attr=name, value=ast.Name(id="Text")) if name in Text.__members__:
                used.add(name)
            case (
                ast.Call(func=ast.Attribute(attr="filled", value=ast.Attribute(attr=name, value=ast.Name(id="Text"))))
                | ast.Call(func=ast.Name(id="field_problem"), args=[ast.Attribute(attr=name)])
            ):
                given = {str(keyword.arg) for keyword in node.keywords} - {"longest"}
                assert given == set(Text[name].parameters), place
    assert used == set(Text.__members__)


def test_no_problem_has_a_text_without_a_code() -> None:
    problems = [
        (place, node)
        for place, node in _nodes()
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Problem"
        and len(node.args) > 1
    ]
    assert len(problems) > 30
    assert [place for place, node in problems if isinstance(node.args[1], ast.Constant | ast.JoinedStr)] == []


def test_problem_has_the_code_and_the_values_of_its_text() -> None:
    body = Problem(409, Text.SEND_RELEASED.filled(send_at="2026-11-21T08:00:00Z")).body()
    assert body["detail"] == "The send is released: its send_at was 2026-11-21T08:00:00Z."
    assert body["code"] == "send_released"
    assert body["parameters"] == {"send_at": "2026-11-21T08:00:00Z"}


def test_field_error_has_the_code_of_its_text() -> None:
    body = invalid([FieldError("template", Text.TEMPLATE_UNKNOWN.filled()), FieldError("type", Text.MISSING.filled())])
    assert [error.get("code") for error in body.body()["errors"]] == ["template_unknown", "missing"]


def test_text_in_a_text_has_its_own_code_and_values() -> None:
    form = Text.FORM_NUMBER.filled(lowest=1, highest=9)
    body = invalid([FieldError("limit", Text.MUST_BE.filled(form=form))]).body()
    assert body["detail"] == "limit: must be a whole number from 1 to 9"
    assert body["parameters"] == {"field": "limit", "reason": "must be a whole number from 1 to 9"}
    assert body["texts"] == {
        "reason": {
            "code": "must_be",
            "parameters": {"form": "a whole number from 1 to 9"},
            "texts": {"form": {"code": "form_number", "parameters": {"lowest": 1, "highest": 9}}},
        }
    }


def test_text_of_an_error_keeps_its_code() -> None:
    kept = text_of(ValueError(Text.URL_INVALID.filled()))
    assert isinstance(kept, CodedText)
    assert kept.code == "url_invalid"
    assert text_of(ValueError("a", 1)) == "('a', 1)"


def test_values_of_a_problem_are_masked() -> None:
    response = problem_response(Problem(503, Text.DEPENDENCY_DOWN.filled(reason="no answer to ada@club.example")))
    assert "ada@club.example" not in response.body


@pytest.mark.parametrize("longest", [5, 400])
def test_text_and_values_are_shortened(longest: int) -> None:
    filled = Text.DATA_UNUSED.filled(longest=longest, template="t" * 500)
    assert len(filled) == min(longest, len(Text.DATA_UNUSED.filled(template="t" * 500)))
    assert filled.parameters == {"template": "t" * longest}


def test_text_in_a_text_is_shortened() -> None:
    outer = Text.FIELD_INVALID.filled(field="a", reason=Text.RENDER_LINK.filled(link="l" * 500)).cut(20)
    reason = outer.parameters["reason"]
    assert isinstance(reason, CodedText)
    assert reason.parameters == {"link": "l" * 20}
