"""Guards are found by their comments, and each change removes its guard."""

import ast

import pytest

from tests.faults.mutation import (
    Always,
    Argument,
    Becomes,
    Change,
    DoesNotApply,
    Never,
    Removed,
    Replaced,
    Returns,
    Without,
    guards_in,
    without_guard,
)

MODULE = '''
import json

LIMIT = 350  # guard: a.constant
# guard: a.text
QUERY = """
select 1 -- é
"""


def function(value: str, known: dict[str, int]) -> str | None:  # guard: a.function
    """What it does."""
    if (
        value
        and known  # guard: a.operand
    ):
        return value
    # guard: a.elif
    elif value is None:
        return ""
    try:
        value = json.loads(value) if value else "é"  # guard: a.choice
        value = mask("é", value)  # guard: a.call
        rest = [
            each
            for each in known
            if each != value  # guard: a.filter
        ]
        print(
            # guard: a.keyword
            end=value,
            **{
                "é": value,  # guard: a.entry
            },
        )
    except (ValueError, TypeError):  # guard: a.handler
        return None
    while rest or value:  # guard: a.loop
        rest.clear()  # guard: a.statement
    return str(rest)  # guard: a.return
'''


@pytest.mark.parametrize(
    ("guard", "change", "before", "after"),
    [
        ("a.constant", Becomes("2 * GUARDED"), "LIMIT = 350", "LIMIT = 2 * 350"),
        ("a.text", Becomes("GUARDED.strip()"), 'é\n"""', 'é\n""".strip()'),
        ("a.operand", Never(), "and known", "and False"),
        ("a.operand", Always(), "and known", "and True"),
        ("a.elif", Never(), "elif value is None", "elif False"),
        ("a.choice", Always(), "if value else", "if True else"),
        ("a.choice", Becomes("value"), 'json.loads(value) if value else "é"', "value"),
        ("a.call", Argument(2), 'mask("é", value)', "value"),
        ("a.filter", Always(), "each != value", "True"),
        ("a.keyword", Becomes("str(GUARDED)"), "end=value", "end=str(value)"),
        ("a.entry", Never(), '"é": value', '"é": False'),
        ("a.handler", Never(), "(ValueError, TypeError)", "()"),
        ("a.loop", Without(1), "rest or value", "value"),
        ("a.loop", Without(2), "rest or value", "rest"),
        ("a.statement", Removed(), "rest.clear()", "pass"),
        ("a.statement", Replaced("if rest:\n    rest.pop()"), "rest.clear()", "if rest: rest.pop()"),
        ("a.return", Returns("value"), "return str(rest)", "return value"),
    ],
)
def test_change_alters_only_the_marked_code(guard: str, change: Change, before: str, after: str) -> None:
    assert MODULE.count(before) == 1
    changed = without_guard(MODULE, guard, change)
    assert ast.dump(ast.parse(changed)) == ast.dump(ast.parse(MODULE.replace(before, after)))


def test_function_that_returns_a_value_has_no_other_body() -> None:
    changed = ast.parse(without_guard(MODULE, "a.function", Returns("value")))
    function = next(each for each in changed.body if isinstance(each, ast.FunctionDef))
    assert [ast.unparse(each) for each in function.body] == ["return value"]


@pytest.mark.parametrize(
    "code",
    [
        "if not clubs:  # guard: a.b\n    pass\n",
        "# guard: a.b\nif not clubs:\n    pass\n",
        "if (  # guard: a.b\n    not clubs\n):\n    pass\n",
        "if (\n    not clubs\n):  # guard: a.b\n    pass\n",
    ],
)
def test_reformatted_guard_is_found(code: str) -> None:
    assert ast.unparse(ast.parse(without_guard(code, "a.b", Never()))) == "if False:\n    pass"


def test_comment_after_closing_brackets_marks_the_statement() -> None:
    assert without_guard("if x:\n  store(\n    x\n  )  # guard: a.b\n", "a.b", Removed()).startswith("if x:\n  pass")


def test_comment_of_another_form_is_refused() -> None:
    with pytest.raises(DoesNotApply, match="form"):
        list(guards_in("x = 1  # guard: Tenancy\n"))


@pytest.mark.parametrize(
    ("guard", "change"),
    [
        ("a.unknown", Never()),
        ("a.constant", Never()),
        ("a.constant", Argument(1)),
        ("a.constant", Without(1)),
        ("a.constant", Returns("1")),
        ("a.constant", Becomes("350")),
        ("a.constant", Becomes("LIMITS")),
        ("a.constant", Becomes("LIMIT.limits")),
        ("a.constant", Becomes("1 +")),
        ("a.operand", Removed()),
        ("a.loop", Without(3)),
        ("a.call", Argument(3)),
    ],
)
def test_change_that_does_not_fit_is_refused(guard: str, change: Change) -> None:
    with pytest.raises(DoesNotApply):
        without_guard(MODULE, guard, change)


def test_guard_that_is_marked_twice_is_refused() -> None:
    with pytest.raises(DoesNotApply, match="once"):
        without_guard("x = 1  # guard: a.b\ny = 1  # guard: a.b\n", "a.b", Becomes("2"))
