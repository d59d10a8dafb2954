"""The check of a saved template finds those from which no message can be rendered, and no others."""

import pytest

from masscomm.domain.users import Template
from masscomm.rendering.preview import problem_of


def _problem(body: str, channel: str = "push") -> str | None:
    return problem_of(Template(1, None, "news", channel, "en", "Title", body, body))


@pytest.mark.parametrize(
    "body",
    [
        "{{ user.first_name }} {{ data.opponent | upper }} {{ club_id }}",
        "{{ user.attributes.plan }} {{ user.attributes['score'] | int > 3 }}",
        "{{ data.kick_off[:2] }} {{ data.count | int }} {{ user.attributes.address.city }}",
        "{% if data.a == 'x' %}{{ data.b }}{% endif %}",
        "{{ unknown | default('x') }}",
        # It needs a number, which the data may have.
        "{{ data.goals is even }}",
    ],
)
def test_template_that_can_be_rendered_has_no_problem(body: str) -> None:
    assert _problem(body) is None
    assert _problem(body, "email") is None


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("{{ usr.first_name }}", "body: UndefinedError: 'usr' is undefined"),
        ("{{ user.nickname }}", "body: UndefinedError: 'dict object' has no attribute 'nickname'"),
        ("{{ data.x | shout }}", "body: line 1: there is no filter 'shout'"),
        ("{% include 'x' %}", "body: line 1: Include is not allowed in a template"),
        ("{{ data.match.title }}", "body: UndefinedError: 'str object' has no attribute 'title'"),
        ("{{", "body: line 1: TemplateSyntaxError"),
        ("x" * 200_001, "body: the template is longer than 200000 characters"),
    ],
)
def test_template_that_never_renders_has_a_problem(body: str, problem: str) -> None:
    assert str(_problem(body)).startswith(problem)


def test_template_of_an_unknown_channel_has_a_problem() -> None:
    assert _problem("b", "pigeon") == "the channel 'pigeon' is none of push, email, sms"
