"""Rendering ends in a text or an error within a bounded number of steps, and writes the same text as Jinja."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from masscomm.channels.email import email_message
from masscomm.domain.limits import RECORD_STEPS
from masscomm.domain.users import Template, User
from masscomm.rendering import compiler
from masscomm.rendering.compiler import (
    MAX_STEPS,
    MissingVariable,
    OutOfSteps,
    RenderError,
    Steps,
    compile_source,
    render,
)
from masscomm.rendering.templates import MAX_LINE_BYTES, SizedCache, context_of, fields_of, literal_fields
from tests.support.harness.builder import TEMPLATE_ERROR, Builder, texts_by_user
from tests.support.harness.chain import build, results_of

ROOT = Path(__file__).parents[3]
VALUES: Mapping[str, Any] = {
    "data": {"a": "A <b>&amp; c</b>", "n": "12.5", "empty": "", "b_c": "straße 'x'", "items": "own"},
    "user": {"first_name": "Ada", "last_name": "", "locale": "de"},
    "club_id": 7,
}


def _rendered(source: str, *, escaped: bool = False, total: float = RECORD_STEPS) -> str:
    steps = Steps(total)
    write, *_ = compile_source(source, escaped=escaped, steps=steps)
    return render(write, VALUES, steps)


@pytest.mark.guarantee("templates.hostile_arguments_are_bounded")
@pytest.mark.kills(guard="templates.filter_arguments")
def test_hostile_templates_end_within_a_cpu_limit() -> None:
    """Hostile arguments for every allowed filter, test and operator, and the hardest sources, end within the limit."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.unit.rendering.hostile_templates"], cwd=ROOT, capture_output=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:].decode()


@pytest.mark.kills(guard="templates.control_characters")
@pytest.mark.parametrize("from_template", [True, False])
def test_control_characters_are_in_no_message(from_template: bool) -> None:
    """Mail servers refuse a message with NUL. Tab and line breaks stay in a body."""
    text = "".join(map(chr, range(0x20))) + "\x7f<é"
    user, steps = User(user_id=1, club_id=7, first_name=text), Steps(RECORD_STEPS)
    template = Template(
        1, 7, "news", "email", "en", "{{ data.title }}", "{{ user.first_name }}", "{{ user.first_name }}"
    )
    data = {"title": f"a{text}b", "body": text}
    fields = fields_of(template, steps) if from_template else literal_fields("email", data)
    assert fields is not None
    texts = {field.name: field.render(context_of(user, 7, data, "en"), steps) for field in fields}
    assert texts["subject"] == "a <éb"
    assert texts["text"].split() == ["<é"]
    assert {each for each in texts["text"] if each < " "} == {"\t", "\n", "\r"}
    message = email_message(
        sender="a@club.example", recipient="b@club.example", notification_id="n", html=texts.get("html"),
        subject=texts["subject"], text=texts["text"],
    )  # fmt: skip
    assert {each for each in message if each < 0x20 or each == 0x7F} <= {0x09, 0x0A, 0x0D}


@pytest.mark.kills(guard="templates.null")
@pytest.mark.parametrize("escaped", [False, True])
def test_null_inside_an_attribute_is_a_missing_variable(escaped: bool) -> None:
    """No customer reads "Your coach is None"."""
    context = context_of(User(user_id=1, club_id=7, attributes={"team": {"coach": None}}), 7, {}, "en")

    def rendered(source: str) -> str:
        steps = Steps(RECORD_STEPS)
        return render(compile_source(source, escaped=escaped, steps=steps).write, context, steps)

    coach = "user.attributes.team.coach"
    for source in (f"{{{{ {coach} }}}}", f"{{{{ {coach} | upper }}}}", "{{ user.attributes.team['coach'] | trim }}"):
        with pytest.raises(MissingVariable, match=coach) as caught:
            rendered(source)
        assert caught.value.path == coach
    assert rendered(f"{{{{ {coach} | default('new') }}}}") == "new"
    assert rendered(f"{{% if {coach} %}}yes{{% else %}}no{{% endif %}}") == "no"
    assert rendered(f"{{{{ {coach} is none }}}}") == "True"


def _sampled(alternatives: str) -> st.SearchStrategy[str]:
    return st.sampled_from(alternatives.split(" ; "))


IF = "{{% if {} -%}}  yes\n{{% elif {} %}}other{{% else %}}no{{% endif %}}\n"
CONSTANTS = st.sampled_from(["0", "1", "-1", "2.5", "'x'", "'<i>'", "''", "true", "none", "[1, 'A']", "('x', 2)"])
PATHS = _sampled(
    "data.a ; data['n'] ; data.empty ; data.b_c ; data.missing ; user.first_name ; user.last_name ; club_id ; "
    "data.a[0] ; data.a[1:3] ; data.n[::-1] ; missing ; data.a[99]"
)
FILTERS = _sampled(
    "upper ; lower ; capitalize ; title ; trim ; trim('A') ; striptags ; e ; escape ; truncate(3) ; truncate(8, "
    "true) ; urlencode ; first ; last ; truncate(5, false, '', 0) ; length ; int ; int(5) ; int(0, 16) ; float "
    "; round ; round(1) ; round(1, 'ceil') ; abs ; string ; round(method='floor') ; default('d') ; d('<d>', "
    "true)"
)
TESTS = _sampled(
    "defined ; undefined ; none ; string ; number ; integer ; float ; boolean ; odd ; even ; mapping ; "
    "divisibleby(3) ; upper ; lower ; sequence ; iterable ; eq('x') ; in('xyz') ; gt(1) ; sameas(none)"
)
OPERATORS = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{} | {}".format, inner, FILTERS),
        st.builds("({} is {})".format, inner, TESTS),
        st.builds("({} is not {})".format, inner, TESTS),
        st.builds("({} {} {})".format, inner, OPERATORS, inner),
        st.builds("({} < {} == {})".format, inner, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("({} if {})".format, inner, inner),
        st.builds("(not {})".format, inner),
        st.builds("(-({}))".format, inner),
    )


EXPRESSIONS = st.recursive(CONSTANTS | PATHS, _grown, max_leaves=4)
SOURCES = st.lists(
    st.one_of(
        st.builds("{{{{ {} }}}}".format, EXPRESSIONS),
        st.builds(IF.format, EXPRESSIONS, EXPRESSIONS),
        st.sampled_from(["<p>text & more</p>\n", "{# a comment #}", "{% raw %}{{ x }}{% endraw %}", "  "]),
    ),
    min_size=1,
    max_size=4,
).map("".join)


@settings(max_examples=200)
@given(source=SOURCES, escaped=st.booleans())
def test_a_template_renders_as_jinja_renders_it(source: str, *, escaped: bool) -> None:
    """Jinja's sandbox is the reference: the same text, or an error if Jinja raises one."""
    jinja = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=escaped)
    try:
        expected = jinja.from_string(source).render(VALUES)
    except Exception:  # a tenant's expression can raise any error of Python's operators
        expected = None
    try:
        assert _rendered(source, escaped=escaped) == expected
    except RenderError:
        assert expected is None


@pytest.mark.parametrize("source", ["{{ data.items }}", "{{ data['items'] }}"])
def test_a_name_of_a_python_attribute_is_a_key(source: str) -> None:
    assert _rendered(source) == "own"


@pytest.mark.parametrize(
    "source",
    [
        "{{ 1 | round(-99999999) }}",
        "{{ 1 | round(999999999, 'ceil') }}",
        "{{ '%999999999d' is odd }}",
        "{{ '%999999999d' is divisibleby(1) }}",
        "{{ 'x' | round(99999999, 'ceil') }}",
        "{{ ('0x' ~ data.a) }}",
        "{{ data.a | truncate(*data) }}",
        "{{ data.a | trim('abcdefghijklmnopqrstuvwxyz') }}",
        "{{ 18446744073709551616 }}",
        "{{ " + "1" * 100 + " }}",
        "{{ 0x" + "f" * 100 + " }}",
        "{% if 0 %}" + "{% elif 0 %}" * 500 + "{% endif %}",
        "{{ " + "(" * 500 + "1" + ")" * 500 + " }}",
    ],
    ids=lambda source: source[:40],
)
def test_an_operation_without_a_bound_is_an_error(source: str) -> None:
    with pytest.raises(RenderError):
        _rendered(source)


@pytest.mark.kills(guard="templates.steps")
def test_a_rendering_takes_a_limited_number_of_steps() -> None:
    source = "{% if data.long | title %}{% endif %}" * 10
    steps = Steps(RECORD_STEPS)
    write, *_ = compile_source(source, escaped=False, steps=steps)
    compiled = steps.remaining
    with pytest.raises(OutOfSteps):
        render(write, {"data": {"long": "a " * 20_000}}, steps)
    # The operation that exceeds the limit is charged before it begins, and does not run.
    assert MAX_STEPS < compiled - steps.remaining <= MAX_STEPS + 40_000 / 4 + 1


@pytest.mark.guarantee("templates.steps_a_record_are_bounded")
@pytest.mark.kills(guard="templates.share_of_steps")
def test_a_slow_template_uses_up_only_its_share_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two slow templates use up no more steps than a record has; the third template's recipients are still rendered."""
    spent = []

    def counted(write: Any, values: Mapping[str, Any], steps: Steps) -> str:
        before = steps.remaining
        try:
            return render(write, values, steps)
        finally:
            spent.append(before - steps.remaining)

    monkeypatch.setattr("masscomm.rendering.templates.render", counted)
    builder = Builder()
    locale = {user_id: ("en", "fr", "de")[(user_id - 1) // 200] for user_id in range(1, 451)}
    for user_id in locale:
        builder.put_user(user_id, first_name="Ada", locale=locale[user_id])
    slow = "{{ (data.x | title | length) if user.locale }}"
    for template_id, (name, body) in enumerate({"en": slow, "fr": slow, "de": "Hallo"}.items()):
        builder.put_template("{{ user.first_name }}", body, template_id=template_id, locale=name)
    assert builder.build(build(list(locale), data={"x": "a " * 40_000})) == []
    written = set(texts_by_user(builder.deliveries()))
    failed = {user_id for user_id, _ in results_of(builder.outcomes())}
    assert failed | written == set(locale)
    assert {locale[user_id] for user_id in failed} == {"en", "fr"}
    assert len(failed) > 300
    # the last operation of each slow template exceeds the limit and is still charged
    assert sum(spent) < RECORD_STEPS + 2 * MAX_STEPS


@pytest.mark.guarantee("templates.slow_template_fails_alone")
def test_a_slow_template_fails_alone_in_its_batch() -> None:
    builder = Builder()
    builder.put_template("{{ data.x | title | title | title }}", "b")
    builder.put_template("Hello", "b", template_id=2, type="other")
    slow, good = build([1, 2], data={"x": "a " * 40_000}), build([3], type="other", record_id="g")
    assert builder.build(slow, good) == []
    assert results_of(builder.outcomes()) == {(1, "push"): TEMPLATE_ERROR, (2, "push"): TEMPLATE_ERROR}
    assert sorted(texts_by_user(builder.deliveries())) == [3]


@pytest.mark.parametrize("title", ["{{", "News"])
def test_a_template_is_compiled_once_for_all_records(monkeypatch: pytest.MonkeyPatch, title: str) -> None:
    """A template that does not compile is also cached, or each of its records would compile it again."""
    compiled = []

    def counted(source: str, **options: Any) -> Any:
        compiled.append(source)
        return compile_source(source, **options)

    monkeypatch.setattr("masscomm.rendering.templates.compile_source", counted)
    monkeypatch.setattr("masscomm.rendering.templates._COMPILED", SizedCache(1_000_000))
    builder = Builder()
    builder.put_template(title, "b")
    for number in range(3):
        builder.build(build([1], record_id=str(number)))
    assert compiled.count(title) == 1


@pytest.mark.parametrize("of_template", [True, False])
def test_a_title_that_is_too_long_fails_its_recipients(of_template: bool) -> None:
    """The length is limited because Python's e-mail package folds a header in quadratic time."""
    builder = Builder()
    if of_template:
        builder.put_template("{{ data.title }}", "b", channel="email")
    long = build([1], channel="email", data={"title": "ä " * MAX_LINE_BYTES, "body": "b"})
    assert builder.build(long, build([2], channel="email", record_id="g", data={"title": "t", "body": "b"})) == []
    assert results_of(builder.outcomes()) == {(1, "email"): TEMPLATE_ERROR}
    assert sorted(texts_by_user(builder.deliveries())) == [2]


@pytest.mark.kills(guard="templates.cache_bytes")
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 120)), max_size=60))
def test_a_cache_holds_at_most_its_bytes(entries: list[tuple[int, int]]) -> None:
    cache: SizedCache[int, int] = SizedCache(100)
    for key, size in entries:
        cache.put(key, size, size)
        kept = [cache.get(each) for each in range(21)]
        assert sum(each for each in kept if each is not None) == cache.size <= 100
        assert (cache.get(key) == size) is (size <= 100)


def test_a_cache_forgets_the_entries_not_used_for_longest() -> None:
    cache: SizedCache[str, int] = SizedCache(3)
    for key in "abc":
        cache.put(key, 1, 1)
    cache.get("a")
    cache.put("d", 1, 1)
    assert [key for key in "abcd" if cache.get(key)] == ["a", "c", "d"]


def test_every_slow_filter_is_charged_as_slow() -> None:
    """title, striptags and urlencode run Python code for each character, and four filters divide texts into grapheme
    clusters; all other filters run a loop in C.
    """
    characters = {name: each.characters for name, each in compiler.ALLOWED_FILTERS.items()}
    assert {name for name, each in characters.items() if each < 10} == {
        *("title", "striptags", "urlencode", "trim"),
        *("truncate", "first", "last", "length"),
    }
