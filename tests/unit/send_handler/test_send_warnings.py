"""The response to a send names content that no message contains, and channels without a template."""

import json
import threading
from typing import Any

import pytest

from masscomm.domain.time_limits import TEMPLATES_CACHED_S
from masscomm.domain.users import Template
from masscomm.errors import Retry
from tests.support.harness.send_api import SendApi


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    api = SendApi(monkeypatch)
    api.directory.ready = True
    return api


def _put(api: SendApi, title: str = "News", body: str = "{{ data.headline }}", **values: Any) -> None:
    fields = {"template_id": 1, "club_id": None, "type": "news", "channel": "push", "locale": "en"} | values
    api.directory.put(Template(title=title, body=body, **fields))


def _warnings(api: SendApi, **values: Any) -> dict[str, str]:
    status, body, _ = api.post(**values)
    assert status == 202
    assert len(api.sends()) > 0
    return {each["field"]: each["message"] for each in body.get("warnings", [])}


def test_data_that_a_template_replaces_is_named(api: SendApi) -> None:
    _put(api)
    words = {"title": "Hello", "body": "It works.", "headline": "h", "place": "Bern"}
    assert _warnings(api, data=words) == {
        "data.title": "is not used on push: the template 'news' comes before title and body",
        "data.body": "is not used on push: the template 'news' comes before title and body",
        "data.place": "is not used: no template 'news' reads it",
    }


def test_used_data_has_no_warnings(api: SendApi) -> None:
    _put(api, title="{{ data.title }}", body="{{ data['headline'] }}{{ data.match.place }}")
    status, body, _ = api.post(data={"title": "t", "headline": "h", "match": "m"})
    assert (status, "warnings" in body) == (202, False)


def test_own_words_without_a_template_have_no_warnings(api: SendApi) -> None:
    assert _warnings(api, data={"title": "t", "body": "b"}) == {}


def test_template_that_reads_all_data_uses_each_name(api: SendApi) -> None:
    _put(api, body="{{ data[user.locale] | default('') }}")
    assert _warnings(api, data={"de": "Hallo"}) == {}


def test_channel_without_a_template_is_named(api: SendApi) -> None:
    _put(api)
    found = _warnings(api, channels=["push", "email"], data={"headline": "h"})
    assert found == {"type": "there is no template 'news' on email"}
    _put(api, template_id=2, type="other", channel="email")
    found = _warnings(api, template="other", channels=["push", "email"], data={"headline": "h"})
    assert found == {"template": "there is no template 'other' on push"}


@pytest.mark.kills(guard="templates.unknown_template")
@pytest.mark.parametrize("key", [None, "k"])
def test_a_template_that_does_not_exist_is_a_400(api: SendApi, key: str | None) -> None:
    """Neither the club has it, nor is it a template for every club. The key stays free."""
    _put(api, template_id=2, type="others", club_id=8)
    headers = {} if key is None else {"Idempotency-Key": key}
    answers = [
        api.call(json.dumps(api.valid(template=name)), headers=headers) for name in ("nope", "others", "nope", "news")
    ]
    _put(api)
    api.clock.advance(TEMPLATES_CACHED_S + 1)
    answers.append(api.call(json.dumps(api.valid(template="news")), headers=headers))
    assert [status for status, _, _ in answers] == [400] * 4 + [202]
    assert [error["field"] for error in answers[0][1]["errors"]] == ["template"]
    assert len(api.sends()) == 1


def test_own_words_replace_a_missing_template(api: SendApi) -> None:
    assert _warnings(api, template="nope", data={"title": "t", "body": "b"}) == {}


def test_a_template_is_not_checked_without_the_directory(api: SendApi) -> None:
    """A new template may take seconds until the directory has it; a directory that is away refuses no send."""
    api.directory.failing = Retry("away")
    assert api.post(template="nope")[0] == 202


def test_only_the_template_of_the_locale_counts(api: SendApi) -> None:
    _put(api)
    _put(api, body="{{ data.schlagzeile }}", template_id=2, locale="de")
    assert _warnings(api, data={"schlagzeile": "s", "headline": "h"}) == {}
    assert list(_warnings(api, data={"schlagzeile": "s", "headline": "h"}, locale="de-AT")) == ["data.headline"]


def test_users_without_a_language_get_title_and_body(api: SendApi) -> None:
    """A user whose language has no template gets the send's own words, if there is no English template."""
    _put(api, locale="de")
    assert _warnings(api, data={"title": "t", "body": "b", "headline": "h"}) == {}


def test_templates_of_other_tenants_do_not_count(api: SendApi) -> None:
    _put(api, club_id=8)
    assert _warnings(api, data={"title": "t", "body": "b"}) == {}


def test_template_that_does_not_compile_is_named(api: SendApi) -> None:
    _put(api, body="{{ data.x.pop() }}")
    found = _warnings(api, data={"x": "1"})
    assert found == {
        "type": "a template 'news' on push cannot be rendered: body: line 1: Call is not allowed in a template"
    }


def test_directory_that_is_down_delays_no_acceptance(api: SendApi) -> None:
    api.directory.failing = Retry("down")
    assert _warnings(api, data={"x": "1"}) == {}
    api.directory.failing = ValueError("our own fault")
    assert _warnings(api, data={"x": "1"}) == {}


@pytest.mark.kills(guard="templates.warnings_do_not_queue")
def test_directory_that_hangs_delays_one_send_only(api: SendApi, monkeypatch: pytest.MonkeyPatch) -> None:
    answering, look_ups = threading.Event(), []

    def templates(keys: list[tuple[int, str, str]]) -> dict[tuple[int, str, str], list[Template]]:
        look_ups.append(keys)
        answering.wait()
        return {key: [] for key in keys}

    monkeypatch.setattr("functions.send_handler.send_warnings.WARNINGS_S", 0.01)
    monkeypatch.setattr(api.directory, "templates", templates)
    try:
        assert [_warnings(api, template=f"t{number}") for number in range(3)] == [{}, {}, {}]
    finally:
        answering.set()
    api.use_cases.warnings._pool.shutdown()
    assert len(look_ups) == 1


def test_repeated_request_has_the_first_warnings(api: SendApi) -> None:
    first = api.post_with("k", data={"x": "1"})
    _put(api, body="{{ data.x }}")
    assert api.post_with("k", data={"x": "1"})[1] == first[1]
    assert [each["field"] for each in first[1]["warnings"]] == ["type", "data.x"]
