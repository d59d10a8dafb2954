"""GET /v1/templates: pages by id, with the variables and the problem of each template."""

from typing import Any

import pytest

from functions.send_handler.list_templates import TemplatesRoute
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.users import Template
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs

CLUB_1 = Clubs(frozenset({1}))


@pytest.fixture
def route() -> TemplatesRoute:
    directory = InMemoryDirectory()
    directory.put(
        Template(1, None, "news", "push", "en", "News", "{{ data.a }}{{ user.first_name }}"),
        Template(2, 1, "news", "email", "de", "T" * 300, "b", "{{ data.html }}"),
        Template(3, 2, "news", "push", "en", "other", "b"),
        Template(4, 1, "final", "push", "en", "{{ data.x.pop() }}", "b"),
    )
    return TemplatesRoute(directory)


def _ids(body: Any) -> list[int]:
    return [row["id"] for row in body["rows"]]


def test_rows_have_variables_and_problems(route: TemplatesRoute) -> None:
    rows = {row["id"]: row for row in route.answer({}, CLUB_1)["rows"]}
    assert rows[1] == {
        "id": 1,
        "club_id": None,
        "type": "news",
        "channel": "push",
        "locale": "en",
        "title": "News",
        "variables": ["data.a", "user.first_name"],
        "problem": None,
        "problem_text": None,
    }
    assert (rows[2]["variables"], len(rows[2]["title"])) == (["data.html"], 200)
    assert (rows[4]["variables"], rows[4]["problem"]) == ([], "title: line 1: Call is not allowed in a template")


def test_pages_have_each_template_once(route: TemplatesRoute) -> None:
    seen, parameters = [], {"limit": ["2"]}
    while True:
        body = route.answer(parameters, ALL_CLUBS)
        seen += _ids(body)
        assert body["truncated"] is (body["next_cursor"] is not None)
        if body["next_cursor"] is None:
            break
        parameters = {"limit": ["2"], "cursor": [body["next_cursor"]]}
    assert seen == [1, 2, 3, 4]


def test_filters_select_templates(route: TemplatesRoute) -> None:
    assert _ids(route.answer({}, CLUB_1)) == [1, 2, 4]
    assert _ids(route.answer({"club_id": ["2"]}, ALL_CLUBS)) == [1, 3]
    assert _ids(route.answer({"type": ["final", "none"]}, CLUB_1)) == [4]
    assert _ids(route.answer({"channel": ["email"]}, CLUB_1)) == [2]


@pytest.mark.parametrize(
    "parameters",
    [
        {"limit": ["0"]},
        {"limit": ["101"]},
        {"cursor": ["x"]},
        {"unknown": ["x"]},
        {"channel": [""]},
    ],
)
def test_invalid_parameters_are_refused(route: TemplatesRoute, parameters: dict[str, list[str]]) -> None:
    with pytest.raises(Problem) as error:
        route.answer(parameters, CLUB_1)
    assert (error.value.status, error.value.errors[0].field) == (400, next(iter(parameters)))


def test_a_cursor_of_another_query_is_refused(route: TemplatesRoute) -> None:
    cursor = route.answer({"limit": ["1"]}, CLUB_1)["next_cursor"]
    assert cursor is not None
    with pytest.raises(Problem):
        route.answer({"limit": ["1"], "cursor": [cursor]}, ALL_CLUBS)


def test_long_templates_use_up_the_steps_of_a_page(route: TemplatesRoute, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.send_handler.list_templates.PAGE_STEPS", 50)
    rows = route.answer({}, CLUB_1)["rows"]
    assert "takes too many steps" in str(rows[-1]["problem"])
