"""The builder stores equal texts once and personal values as columns; an error of one recipient affects no other."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masscomm.decisions.messages import MAX_CONTENT_BYTES
from masscomm.domain.records import BuildRequested, DeliveryRequested
from masscomm.domain.users import DirectoryPosition, Template
from masscomm.errors import Retry
from masscomm.rendering import message_writer
from masscomm.rendering.compiler import Steps
from masscomm.rendering.templates import fields_of
from tests.support.harness.builder import TEMPLATE_ERROR, Builder, texts_by_user
from tests.support.harness.chain import NOW, build, results_of

BEHIND = DirectoryPosition(lsn=1, ts_ms=NOW - 1)


def test_shared_text_is_written_once() -> None:
    builder = Builder()
    builder.put_template("{{ data.headline }}", "There is news.")
    assert builder.build(build([1, 2, 3], data={"headline": "Win"})) == []
    (record,) = builder.deliveries()
    assert [(column.field, column.values, column.index) for column in record.content] == [
        ("title", ["Win"], []),
        ("body", ["There is news."], []),
    ]
    assert (record.positions, record.user_ids, record.addresses) == ([0, 1, 2], [1, 2, 3], [])
    assert (record.built_at, record.parent_id) == (NOW, build([]).record_id)


def test_personal_texts_are_a_column_of_distinct_values() -> None:
    builder = Builder()
    builder.put_user(4, first_name="Ada")
    builder.put_template("News", "Hello {{ user.first_name }}")
    builder.build(build([1, 2, 4]))
    (record,) = builder.deliveries()
    assert record.content[1].values == ["Hello Ada", "Hello Bob"]
    assert record.content[1].index == [0, 1, 0]


def test_attributes_of_a_user_are_in_its_text() -> None:
    builder = Builder()
    builder.put_user(1, attributes={"plan": "gold"})
    builder.put_template("News", "Your plan: {{ user.attributes.plan }}")
    builder.build(build([1, 2]))
    assert texts_by_user(builder.deliveries()) == {1: {"title": "News", "body": "Your plan: gold"}}
    assert results_of(builder.outcomes()) == {(2, "push"): TEMPLATE_ERROR}, "a missing attribute is a missing variable"


@pytest.mark.kills(guard="templates.blank_message")
def test_message_without_a_text_is_not_sent() -> None:
    builder = Builder()
    goals = "{% if user.first_name == 'Ada' %}We lead.{% endif %}"
    builder.put_template(goals.replace("We lead.", "Goal"), goals + " ")
    builder.build(build([1, 2]))
    assert texts_by_user(builder.deliveries()) == {1: {"title": "Goal", "body": "We lead. "}}
    assert results_of(builder.outcomes()) == {(2, "push"): TEMPLATE_ERROR}


def test_text_is_rendered_for_each_locale() -> None:
    builder = Builder()
    builder.put_template("{{ data.headline | default('x') }}", "b")
    builder.put_user(2, locale="de")
    assert builder.build(build([1, 2, 3])) == []
    assert texts_by_user(builder.deliveries()) == {user_id: {"title": "x", "body": "b"} for user_id in (1, 2, 3)}


@pytest.mark.parametrize(
    ("locale", "asked", "title"),
    [
        ("de-CH", None, "de-CH"),
        ("de_CH", None, "de-CH"),
        ("de-ch", None, "de-CH"),
        ("de-AT", None, "de of the club"),
        ("de", None, "de of the club"),
        ("fr", None, "en"),
        ("", None, "en"),
        ("de-CH", "fr-FR", "en"),
        ("en", "de-CH", "de-CH"),
    ],
)
def test_nearest_locale_and_own_clubs_template_win(locale: str, asked: str | None, title: str) -> None:
    builder = Builder()
    builder.put_template("en", "b", template_id=1)
    builder.put_template("de", "b", template_id=2, locale="de")
    builder.put_template("de of the club", "b", template_id=3, locale="de", club_id=7)
    builder.put_template("de-CH", "b", template_id=4, locale="de-CH")
    builder.put_template("de-CH of another club", "b", template_id=5, locale="de-CH", club_id=8)
    builder.put_user(1, locale=locale)
    builder.build(build([1], locale=asked))
    assert texts_by_user(builder.deliveries())[1]["title"] == title


@pytest.mark.parametrize(
    ("locale", "title"),
    [
        ("zh-Hant-TW", "traditional"),
        ("zh_TW", "traditional"),
        ("zh-HK", "traditional"),
        ("zh-Hans-CN", "simplified"),
        ("zh_CN", "simplified"),
        ("zh-SG", "zh"),
        ("zh", "zh"),
        ("es-MX", "es-419"),
        ("es-ES", "es-419"),
        ("pt-AO", "pt-PT"),
        ("sr-ME", "sr-Latn"),
        ("sr-Latn-RS", "sr-Latn"),
        ("sr-RS", "sr"),
        ("de-CH-1996-u-co-phonebk", "de-CH"),
        # Android's codes of Hebrew, Indonesian and Yiddish.
        ("iw_IL", "he"),
        ("in-ID", "id"),
        ("ji", "en"),
        ("nb-NO", "no"),
    ],
)
def test_template_of_the_nearest_locale_is_used(locale: str, title: str) -> None:
    builder = Builder()
    templates = {"traditional": "zh-Hant", "simplified": "zh-CN"}
    for number, name in enumerate(
        [
            "en",
            "zh",
            "traditional",
            "simplified",
            "sr",
            "sr-Latn",
            "de-CH",
            "he",
            "id",
            "no",
            "es-419",
            "pt-BR",
            "pt-PT",
        ]
    ):
        builder.put_template(name, "b", template_id=number, locale=templates.get(name, name))
    builder.put_user(1, locale=locale)
    builder.build(build([1]))
    assert texts_by_user(builder.deliveries())[1]["title"] == title


@pytest.mark.parametrize(("address", "sent_to"), [(" ada@example.com\u00a0", ["ada@example.com"]), (" ", None)])
def test_spaces_around_an_address_are_removed(address: str, sent_to: list[str] | None) -> None:
    builder = Builder()
    builder.put_user(1, email=address)
    builder.build(build([1], channel="email", data={"title": "News", "body": "We won"}))
    assert [delivery.addresses for delivery in builder.deliveries()] == ([sent_to] if sent_to else [])
    if sent_to is None:
        assert results_of(builder.outcomes()) == {(1, "email"): ("suppressed", "no_address")}


def test_send_with_a_named_template_uses_it() -> None:
    builder = Builder()
    builder.put_template("of the category", "b", template_id=1)
    builder.put_template("of its own", "b", template_id=2, type="final")
    builder.build(build([1], template="final"))
    assert texts_by_user(builder.deliveries())[1]["title"] == "of its own"


def test_missing_variable_fails_its_recipient_alone() -> None:
    builder = Builder()
    builder.put_template("News", "{% if user.first_name == 'Bob' %}{{ data.missing }}{% endif %}Hello")
    assert builder.build(build([1, 2, 3])) == []
    assert sorted(texts_by_user(builder.deliveries())) == [1, 3]
    assert results_of(builder.outcomes()) == {(2, "push"): TEMPLATE_ERROR}
    assert "missing" in (builder.outcomes()[0].results[0].rule or "")


SANDBOX_ESCAPES = [
    "{{ ().__class__ }}",
    "{{ ().__class__.__bases__[0].__subclasses__() }}",
    "{{ user.__class__ }}",
    "{{ data['__class__'] }}",
    "{{ data.__init__.__globals__ }}",
    "{{ ''.format.__globals__ }}",
    "{{ '{0.__class__}'.format(user) }}",
    "{{ user | attr('__class__') }}",
    "{{ self._TemplateReference__context }}",
    "{{ cycler.__init__.__globals__.os }}",
    "{{ lipsum() }}",
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% extends 'x' %}",
]
PROGRAMS = [
    "{{ 'x' * 1000000000 }}",
    "{{ 10 ** 10 ** 8 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ 'x'.ljust(1000000000) }}",
    "{{ 'x' | center(1000000000) }}",
    "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
    "{% set a = 'xxxxxxxxxx' %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{{ data.x | safe }}",
    "{% autoescape false %}{{ data.x }}{% endautoescape %}",
]
BROKEN = [
    "{{",
    "{% if %}",
    "{{ data.x | no_such_filter }}",
    "{{ " + "1" * 5_000 + " }}",
    "{{ " + "[" * 300 + "]" * 300 + " }}",
    "{{ data.x" + " | upper" * 30 + " }}",
    "{{ '\\ud800' }}",
    "{{ 1 / 0 }}",
    "x" * 200_001,
    "{{ data.x }}" * 100,
]


@pytest.mark.parametrize("source", SANDBOX_ESCAPES + PROGRAMS + BROKEN, ids=lambda source: source[:40])
@pytest.mark.parametrize("where", ["title", "body", "html"])
def test_bad_template_fails_only_its_recipients(source: str, where: str) -> None:
    builder = Builder()
    texts = {"title": "News", "body": "Hello", "html": "<p>Hello</p>"} | {where: source}
    builder.put_template(**texts, channel="email")
    builder.put_template("Hello", "Hello", template_id=2, type="other", channel="email")
    data = {"x": "y" * 10_000}
    good = build([3], type="other", channel="email", record_id="g")
    assert builder.build(build([1, 2], channel="email", data=data), good) == []
    assert results_of(builder.outcomes()) == {(1, "email"): TEMPLATE_ERROR, (2, "email"): TEMPLATE_ERROR}
    assert sorted(texts_by_user(builder.deliveries())) == [3]


def test_template_that_does_not_compile_is_tried_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def counted(template: Template, steps: Steps) -> Any:
        tried.append(template)
        return fields_of(template, steps)

    monkeypatch.setattr(message_writer, "fields_of", counted)
    builder = Builder()
    builder.put_template("{{", "b")
    builder.build(build([1, 2, 3]))
    assert len(tried) == 1
    assert set(results_of(builder.outcomes()).values()) == {TEMPLATE_ERROR}


def test_only_html_content_is_escaped() -> None:
    builder = Builder()
    builder.put_user(1, first_name="<b>Ada</b> & co")
    text = "{{ user.first_name }} {{ data.x }}"
    builder.put_template(text, text, html=f"<p>{text}</p>", channel="email")
    builder.put_template(text, text, template_id=2, html="<p>never</p>")
    builder.build(build([1], channel="email", data={"x": "<i>"}))
    builder.build(build([1], data={"x": "<i>"}))
    email, push = builder.deliveries()
    raw = "<b>Ada</b> & co <i>"
    assert texts_by_user([email])[1] == {
        "subject": raw,
        "text": raw,
        "html": "<p>&lt;b&gt;Ada&lt;/b&gt; &amp; co &lt;i&gt;</p>",
    }
    assert texts_by_user([push])[1] == {"title": raw, "body": raw}
    assert email.addresses == ["user1@example.com"]


@pytest.mark.parametrize("injected", ["\r\nBcc: eve@example.com", "\nX: y", "\x0b", "\x85x", "\u2028y"])
def test_subject_with_any_variables_is_one_line(injected: str) -> None:
    builder = Builder()
    builder.put_user(1, first_name=f"Ada{injected}")
    builder.put_template("{{ user.first_name }} {{ data.x }}", "b", channel="email")
    builder.build(build([1], channel="email", data={"x": f"News{injected}"}))
    builder.build(build([1], type="bare", channel="email", data={"title": f"News{injected}", "body": "b"}))
    for record in builder.deliveries():
        subject = texts_by_user([record])[1]["subject"]
        assert len(subject.splitlines()) == 1
        assert "News" in subject


def test_send_without_template_uses_its_own_text() -> None:
    builder = Builder()
    builder.build(build([1, 2], data={"title": "Hi {{ user.first_name }}", "body": "a\nb"}))
    (record,) = builder.deliveries()
    # The builder does not render a send's own texts: their braces are unchanged.
    assert texts_by_user([record])[2] == {"title": "Hi {{ user.first_name }}", "body": "a\nb"}
    assert [column.index for column in record.content] == [[], []]


def test_a_send_without_template_or_text_fails_its_recipients() -> None:
    builder = Builder()
    assert builder.build(build([1, 2], data={"title": "alone"})) == []
    assert set(results_of(builder.outcomes()).values()) == {("failed", "no_template")}
    assert builder.deliveries() == []


def test_missing_address_suppresses_email_only() -> None:
    builder = Builder()
    builder.put_user(2, email=None)
    builder.put_user(3, email="")
    builder.put_template("News", "b", channel="email")
    builder.put_template("News", "b", template_id=2)
    builder.build(build([1, 2, 3], channel="email"))
    assert results_of(builder.outcomes()) == {
        (2, "email"): ("suppressed", "no_address"),
        (3, "email"): ("suppressed", "no_address"),
    }
    builder.forget()
    builder.build(build([1, 2, 3], record_id="of push"))
    assert sorted(texts_by_user(builder.deliveries())) == [1, 2, 3]


def test_other_clubs_user_is_suppressed() -> None:
    builder = Builder()
    builder.put_user(2, club_id=8)
    builder.put_template("News", "b")
    builder.directory.caught_up = BEHIND
    # Recipients that belong to another club are retried, because the directory may not have their move to this club
    # yet.
    assert builder.build(build([1, 2])) == [0]
    builder.directory.caught_up = DirectoryPosition(lsn=2, ts_ms=NOW)
    builder.build(build([1, 2]))
    assert results_of(builder.outcomes()) == {(2, "push"): ("suppressed", "unknown_user")}
    assert sorted(texts_by_user(builder.deliveries())) == [1]


def test_unknown_user_and_template_wait_for_the_directory() -> None:
    builder = Builder()
    builder.put_template("News", "b")
    builder.directory.caught_up = BEHIND
    assert builder.build(build([1, 99]), build([1], type="newer"), build([2])) == [0, 1]
    assert sorted(texts_by_user(builder.deliveries())) == [2]
    assert builder.outcomes() == []
    builder.directory.caught_up = DirectoryPosition(lsn=2, ts_ms=NOW)
    builder.forget()
    assert builder.build(build([1, 99]), build([1], type="newer")) == []
    assert [results_of([outcome]) for outcome in builder.outcomes()] == [
        {(99, "push"): ("suppressed", "unknown_user")},
        {(1, "push"): ("failed", "no_template")},
    ]


def test_failed_look_up_redelivers_every_build_record() -> None:
    builder = Builder()
    builder.directory.failing = Retry("down")
    assert builder.build(build([1]), build([2])) == [0, 1]
    assert builder.producer.produced == []


def test_changed_template_is_used_within_seconds() -> None:
    builder = Builder()
    builder.put_template("old", "b")
    builder.build(build([1]))
    builder.put_template("new", "b")
    builder.build(build([1]))
    builder.clock.advance(5)
    builder.build(build([1]))
    assert [texts_by_user([record])[1]["title"] for record in builder.deliveries()] == ["old", "old", "new"]
    assert builder.directory.calls["templates"] == 2


def test_look_ups_do_not_grow_with_records() -> None:
    builder = Builder()
    builder.put_template("News", "b")
    assert builder.build(*(build([1, 2, 3], record_id=str(place)) for place in range(20))) == []
    assert builder.directory.calls == {"users": 1, "templates": 1}


def test_first_decisions_cost_one_write_a_record_of_several() -> None:
    builder = Builder()
    builder.put_template("News", "b")
    assert builder.build(build([1, 2, 3, 99], record_id="a"), build([1, 2], record_id="b"), build([3])) == []
    assert builder.log.calls == 2


def test_nothing_is_forwarded_while_the_decision_log_is_down() -> None:
    builder = Builder()
    builder.put_template("News", "b")
    builder.log.failing = Retry("DynamoDB is down")
    assert builder.build(build([1, 99], record_id="a"), build([2])) == [0]
    assert sorted(texts_by_user(builder.deliveries())) == [2]


def _size(record: DeliveryRequested) -> int:
    return sum(len(value.encode()) for column in record.content for value in column.values)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 190_000), min_size=1, max_size=14), st.booleans())
def test_large_messages_are_split_by_position_without_loss(lengths: Sequence[int], html: bool) -> None:
    builder = Builder()
    users = range(1, len(lengths) + 1)
    for user_id, length in zip(users, lengths, strict=True):
        builder.put_user(user_id, first_name=f"{user_id:x<{length}}")
    builder.put_template(
        "News", "{{ user.first_name }}", channel="email", html="{{ user.first_name }}" if html else None
    )
    assert builder.build(build(users, channel="email")) == []
    records = builder.deliveries()
    assert sorted(texts_by_user(records)) == list(users)
    assert all(_size(record) <= MAX_CONTENT_BYTES for record in records)
    edges = [(record.range_start, record.range_end) for record in records]
    assert all(end <= start for (_, end), (start, _) in pairwise(edges))
    assert len({record.record_id for record in records}) == len(records)


def test_equal_texts_of_two_fields_count_for_both() -> None:
    builder = Builder()
    for user_id in range(1, 5):
        builder.put_user(user_id, first_name=f"{user_id:x<150000}")
    builder.put_template("News", "{{ user.first_name }}", channel="email", html="{{ user.first_name }}")
    assert builder.build(build(range(1, 5), channel="email")) == []
    assert all(_size(record) <= MAX_CONTENT_BYTES for record in builder.deliveries())
    assert sorted(texts_by_user(builder.deliveries())) == [1, 2, 3, 4]


def test_id_of_a_part_does_not_depend_on_another_part() -> None:
    found = []
    for missing in (None, "user1@example.com"):
        builder = Builder()
        for user_id in range(1, 9):
            builder.put_user(user_id, first_name=f"{user_id:x<180000}")
        if missing:
            builder.put_user(1, email=None)
        builder.put_template("News", "{{ user.first_name }}", channel="email")
        builder.build(build(range(1, 9), channel="email", range_end=8))
        found.append({record.range_start: record.record_id for record in builder.deliveries()})
    assert sorted(found[0]) == [0, 2, 4, 6]
    assert {start: name for start, name in found[1].items() if start >= 4} == {
        start: name for start, name in found[0].items() if start >= 4
    }


def test_a_message_that_alone_is_too_large_fails_that_recipient() -> None:
    builder = Builder()
    data = {"title": "News", "body": "x" * (MAX_CONTENT_BYTES + 1)}
    assert builder.build(build([1], data=data)) == []
    assert results_of(builder.outcomes()) == {(1, "push"): ("failed", "too_large")}
    assert builder.deliveries() == []


def test_refused_delivery_record_fails_its_users_under_a_new_id() -> None:
    builder = Builder()
    builder.put_user(2, club_id=8)
    builder.put_template("News", "{{ data.x }}")
    builder.limit(700)
    assert builder.build(build([1, 2], data={"x": "y" * 700})) == []
    first, second = builder.outcomes()
    assert results_of([first]) == {(2, "push"): ("suppressed", "unknown_user")}
    assert results_of([second]) == {(1, "push"): ("failed", "dead_letter"), (2, "push"): ("failed", "dead_letter")}
    assert first.record_id != second.record_id


@pytest.mark.parametrize("values", [{"channel": "pigeon"}, {"positions": [0]}])
def test_inconsistent_build_record_is_dead_lettered(values: dict[str, Any]) -> None:
    builder = Builder()
    builder.put_template("News", "b")
    assert builder.build(build([1, 2], **values), build([3])) == []
    assert [headers["masscomm.reason"] for headers in builder.dead_letters()] == ["invalid"]
    assert sorted(texts_by_user(builder.deliveries())) == [3]


def test_critical_records_stay_in_the_critical_lane() -> None:
    builder = Builder()
    builder.put_template("News", "b")
    builder.run(builder.use_case, builder.encoded(build([1, 99]), "build.critical"))
    assert {topic for topic, *_ in builder.producer.produced} == {"delivery.critical", "outcome"}


def test_small_send_keeps_its_lane() -> None:
    builder = Builder()
    builder.put_template("News", "b")
    builder.run(builder.use_case, builder.encoded(build([1]), "build.small"), builder.encoded(build([2]), "build"))
    assert [topic for topic, *_ in builder.producer.produced] == ["delivery.small", "delivery"]


def test_redelivered_build_record_derives_the_same_records() -> None:
    builder = Builder()
    builder.put_template("News", "Hello {{ user.first_name }}")
    builder.build(build([1, 2, 99]))
    first = builder.produced()
    builder.forget()
    builder.build(build([1, 2, 99]))
    assert builder.produced() == first


@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 5, 99]), unique=True, max_size=6),
    st.sampled_from(["push", "email"]),
    st.sampled_from(["Hello", "{{ user.first_name }}", "{{ data.missing }}", None]),
)
def test_each_recipient_has_one_message_or_one_outcome(users: list[int], channel: str, body: str | None) -> None:
    builder = Builder()
    builder.put_user(4, club_id=8)
    builder.put_user(5, email=None)
    if body is not None:
        builder.put_template("News", body, channel=channel)
    record: BuildRequested = build(users, channel=channel)
    assert builder.build(record) == []
    written = [user_id for delivery in builder.deliveries() for user_id in delivery.user_ids]
    assert sorted([*written, *(user_id for user_id, _ in results_of(builder.outcomes()))]) == sorted(users)


@pytest.mark.kills(guard="templates.own_data_is_not_shared")
@pytest.mark.parametrize("own_position", [0, 1, 2])
def test_recipients_get_their_own_data(own_position: int) -> None:
    builder = Builder()
    builder.put_template("Seat {{ data.seat }}", "{{ data.opponent }}")
    own = {str(own_position): {"seat": "A1"}}
    builder.build(build([1, 2, 3], data={"seat": "any", "opponent": "FC"}, recipient_data=own))
    seats = ["Seat A1" if position == own_position else "Seat any" for position in range(3)]
    assert texts_by_user(builder.deliveries()) == {
        user_id: {"title": seat, "body": "FC"} for user_id, seat in enumerate(seats, 1)
    }


def test_recipients_without_needed_data_fail_alone() -> None:
    builder = Builder()
    builder.put_template("Seat {{ data.seat }}", "b")
    builder.build(build([1, 2], recipient_data={"1": {"seat": "A1"}, "7": {"seat": "A7"}, "x": {"seat": "x"}}))
    assert texts_by_user(builder.deliveries()) == {2: {"title": "Seat A1", "body": "b"}}
    assert results_of(builder.outcomes()) == {(1, "push"): TEMPLATE_ERROR}


def test_own_words_of_a_recipient_replace_those_of_the_send() -> None:
    builder = Builder()
    own = {"1": {"body": "for you"}, "2": {"title": "Bye"}}
    builder.build(build([1, 2, 3], data={"title": "Hello", "body": "for all"}, recipient_data=own))
    assert texts_by_user(builder.deliveries()) == {
        1: {"title": "Hello", "body": "for all"},
        2: {"title": "Hello", "body": "for you"},
        3: {"title": "Bye", "body": "for all"},
    }
    assert builder.build(build([3], record_id="g", recipient_data={"0": {"title": "t", "body": "b"}})) == []
    assert texts_by_user(builder.deliveries())[3] == {"title": "t", "body": "b"}
