"""Dates, numbers and plurals have the form of the message's locale; loops are bounded."""

import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest
from babel import Locale as BabelLocale
from babel.numbers import parse_decimal
from hypothesis import given
from hypothesis import strategies as st

from masscomm.domain.limits import RECORD_STEPS
from masscomm.domain.records import ContentFields
from masscomm.domain.users import Template, User
from masscomm.rendering.compiler import MAX_ITEMS, OutOfSteps, RenderError, Steps, compile_source, render
from masscomm.rendering.message_writer import MessageWriter
from masscomm.rendering.templates import context_of, format_locale


def _rendered(source: str, locale: str = "en", **data: Any) -> str:
    steps = Steps(RECORD_STEPS)
    write, *_ = compile_source(source, escaped=False, steps=steps)
    user = User(user_id=1, club_id=7, attributes={"teams": ["A", "B"], "many": list(range(MAX_ITEMS + 1))})
    # Babel puts spaces that do not break into numbers and times.
    return render(write, context_of(user, 7, data, locale), steps).replace("\xa0", " ").replace("\u202f", " ")


AT = "2026-11-23T19:30:00+01:00"


@pytest.mark.parametrize(
    ("source", "locale", "text"),
    [
        ("{{ data.at | date }}", "en", "Nov 23, 2026"),
        ("{{ data.at | date('full') }}", "de-AT", "Montag, 23. November 2026"),
        ("{{ '2026-11-23' | date('short') }}", "de_CH", "23.11.26"),
        ("{{ data.at | time }}", "en", "7:30 PM"),
        ("{{ '19:30' | time }}", "fr", "19:30"),
        ("{{ data.at | datetime }}", "de", "23.11.2026, 19:30:00"),
        ("{{ data.n | number }}", "de-CH", "1\u2019234.567"),
        ("{{ data.n | number(0) }}", "de-AT", "1.235"),
        ("{{ data.n | currency('EUR') }}", "fr", "1 234,57 €"),
        ("{{ 0.5 | percent }}", "de", "50 %"),
        ("{{ 3 | plural(one='one', few='few {n}', other='other {n}') }}", "pl", "few 3"),
        ("{{ 1 | plural(one='one', other='other {n}') }}", "en", "one"),
        ("{{ data.n | plural(other='{n} {n}') }}", "en", "1,234.567 {n}"),
        # A locale that is unknown has the formats of its language, else those of English.
        ("{{ data.n | number }}", "de-XX", "1.234,567"),
        ("{{ data.n | number }}", "zz", "1,234.567"),
        ("{{ data.n | number }}", "../../etc", "1,234.567"),
    ],
)
def test_values_have_the_form_of_the_locale(source: str, locale: str, text: str) -> None:
    assert _rendered(source, locale, at=AT, n="1234.567") == text


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'tomorrow' | date }}",
        "{{ data.at | date('yyyy' ) }}",
        "{{ data | date }}",
        "{{ 'x' | number }}",
        "{{ true | number }}",
        "{{ '1e999999999' | number }}",
        "{{ 1 | number(99) }}",
        "{{ 1 | currency }}",
        "{{ 1 | currency('euro') }}",
        "{{ 1 | plural(one='x') }}",
        "{{ 1 | plural(other='x', twelve='y') }}",
        "{{ data.missing | number }}",
    ],
)
def test_value_that_cannot_be_formatted_is_an_error(source: str) -> None:
    with pytest.raises(RenderError):
        _rendered(source, at=AT)


@pytest.mark.kills(guard="templates.plural_of_the_shown_number")
@pytest.mark.parametrize(
    ("value", "locale", "text"),
    [
        ("1.0", "en", "1 goal"),
        ("1.0004", "en", "1 goal"),
        ("0.9999", "de", "1 goal"),
        ("-1.00", "en", "-1 goal"),
        ("1.5", "en", "1.5 goals"),
        ("1", "en", "1 goal"),
        ("100", "en", "100 goals"),
        ("1.0", "fr", "1 goal"),
        ("1.50", "fr", "1,5 goal"),
        ("0", "fr", "0 goal"),
    ],
)
def test_plural_is_that_of_the_shown_number(value: str, locale: str, text: str) -> None:
    assert _rendered("{{ data.n | plural(one='{n} goal', other='{n} goals') }}", locale, n=value) == text


@given(
    st.sampled_from(["en", "de", "fr", "pl", "ar", "lt", "si", "da"]),
    st.decimals(-(10**6), 10**6, places=5) | st.integers(0, 110).map(Decimal),
)
def test_equal_shown_numbers_have_one_plural(locale: str, number: Decimal) -> None:
    forms = ", ".join(f"{form}='{form} {{n}}'" for form in ("zero", "one", "two", "few", "many", "other"))
    form, shown = _rendered(f"{{{{ data.n | plural({forms}) }}}}", locale, n=str(number)).split(" ", 1)
    read = parse_decimal(shown.replace(" ", "\u202f" if locale == "fr" else "\xa0"), locale)
    assert form == BabelLocale(locale).plural_form(read.normalize())


@pytest.mark.kills(guard="templates.dotted_capital")
@pytest.mark.parametrize(
    ("locale", "upper", "lower", "title"),
    [
        ("tr", "İSTANBUL ISPARTA", "istanbul \u0131sparta", "İstanbul Isparta"),
        ("az-Latn-AZ", "İSTANBUL ISPARTA", "istanbul \u0131sparta", "İstanbul Isparta"),
        ("en", "ISTANBUL ISPARTA", "i\u0307stanbul isparta", "Istanbul Isparta"),
        ("az-Cyrl", "ISTANBUL ISPARTA", "i\u0307stanbul isparta", "Istanbul Isparta"),
    ],
)
def test_case_is_that_of_the_templates_language(locale: str, upper: str, lower: str, title: str) -> None:
    """The same source in another language is another template, even for the cache."""
    source = "{{ data.small | upper }}|{{ data.large | lower }}|{{ data.small | title }}|{{ data.word | capitalize }}"
    template = Template(1, None, "news", "push", locale, "t", source)
    data = {"small": "istanbul \u0131sparta", "large": "İSTANBUL ISPARTA", "word": "iyi"}
    (text,) = _bodies([template], [User(user_id=1, club_id=7, locale=locale)], data)
    assert text == f"{upper}|{lower}|{title}|{'İyi' if upper.startswith('İ') else 'Iyi'}"


@pytest.mark.parametrize(
    ("template", "wanted", "formats"),
    [
        ("de", "de-AT", "de-AT"),
        ("de", "de_at", "de_at"),
        ("de-AT", "de-AT", "de-AT"),
        ("de", "de", "de"),
        ("de", "des", "de"),
        # Another language or script has words that do not fit the template's.
        ("en", "de-AT", "en"),
        ("en", "fr", "en"),
        ("sr", "sr-Latn-RS", "sr"),
        ("sr-Latn", "sr-Latn-RS", "sr-Latn-RS"),
        ("en", "", "en"),
    ],
)
def test_formats_are_those_of_the_recipients_region(template: str, wanted: str, formats: str) -> None:
    assert format_locale(Template(1, None, "news", "push", template, "t", "b"), wanted) == formats


def _bodies(templates: list[Template], users: list[User], data: dict[str, str], locale: str | None = None) -> list[str]:
    content = ContentFields(club_id=7, type="news", timestamp=0, data=data, locale=locale)
    writer = MessageWriter(content, "push", templates, users)
    return [found["body"] for user in users if (found := writer.texts(user)) is not None]


def test_shared_text_is_rendered_for_each_locale() -> None:
    """A text without names is shared by the recipients of one locale only."""
    templates = [
        Template(1, None, "news", "push", "de", "t", "{{ data.n | number }} {{ data.at | date }}"),
        Template(2, None, "news", "push", "en", "t", "{{ data.n | number }} {{ data.at | date }}"),
    ]
    users = [User(user_id=n, club_id=7, locale=locale) for n, locale in enumerate(("de", "de-CH", "en-GB", "fr", "de"))]
    data = {"n": "1234.5", "at": AT}
    german, british = "1.234,5 23.11.2026", "1,234.5 23 Nov 2026"
    assert _bodies(templates, users, data) == [
        german,
        "1\u2019234.5 23.11.2026",
        british,
        "1,234.5 Nov 23, 2026",
        german,
    ]
    assert set(_bodies(templates, users, data, "en-GB")) == {british}, "the locale of the send comes first"


@pytest.mark.kills(guard="templates.steps_of_regions")
def test_each_region_is_charged() -> None:
    """Loading the formats of many regions may not take longer than a record's share."""
    template = Template(1, None, "news", "push", "en", "t", "{{ data.n | number }}")
    regions = [f"{first}{second}" for first in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" for second in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    users = [User(user_id=n, club_id=7, locale=f"en-{region}") for n, region in enumerate(regions)]
    with pytest.raises(OutOfSteps):
        _bodies([template], users, {"n": "1"})


def test_babel_is_imported_by_the_first_of_its_filters_only() -> None:
    program = """
import sys
from masscomm.domain.users import Template
from masscomm.rendering.preview import problem_of
def imported(body):
    assert problem_of(Template(1, None, "news", "push", "en", "t", body)) is None
    return any(name.partition(".")[0] == "babel" for name in sys.modules)
print(imported("{{ data.a | upper }}{% for b in data.c | split %}{{ b }}{% endfor %}"), imported("{{ 1 | number }}"))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True"]


def test_loops_render_each_item() -> None:
    body = "{% for team in user.attributes.teams %}{{ loop.index }}{{ team }}{{ '-' if not loop.last }}{% endfor %}"
    assert _rendered(body) == "1A-2B"
    assert _rendered("{% for x in data.none | split %}{{ x }}{% endfor %}|", none="a , b") == "ab|"
    assert _rendered("{% for x in user.attributes.teams[:0] %}x{% else %}none{% endfor %}") == "none"
    nested = "{% for a in [1, 2] %}{% for b in [3, 4] %}{{ a }}{{ b }}{{ loop.index }} {% endfor %}{% endfor %}"
    assert _rendered(nested) == "131 142 231 242 "


@pytest.mark.kills(guard="templates.loop_items")
@pytest.mark.parametrize(
    "source",
    [
        "{% for x in user.attributes.many %}{% endfor %}",
        "{% for x in data.text %}{% endfor %}",
        "{% for x in data.missing %}{% endfor %}",
        "{% for x in user %}{% endfor %}",
        "{% for user in [1] %}{% endfor %}",
        "{% for loop in [1] %}{% endfor %}",
        "{% for a, b in [1] %}{% endfor %}",
        "{% for x in [1] if x %}{% endfor %}",
        "{% for x in [1] recursive %}{% endfor %}",
        "{% for x in [1] %}{% endfor %}{{ x }}",
        "{% for x in [1] %}{% break %}{% endfor %}",
        "{% for x in [1, 2, 3] %}" * 10 + "x" + "{% endfor %}" * 10,
    ],
)
def test_loop_without_a_short_list_is_an_error(source: str) -> None:
    with pytest.raises(RenderError):
        _rendered(source, text="abc")


def test_names_bound_by_a_loop_are_not_variables_of_the_send() -> None:
    source = "{% for x in data.list | split %}{{ x }}{{ loop.index }}{{ data.y }}{% endfor %}{{ z }}"
    compiled = compile_source(source, escaped=False, steps=Steps(RECORD_STEPS))
    assert compiled.reads == {"data.list", "data.y", "z"}
