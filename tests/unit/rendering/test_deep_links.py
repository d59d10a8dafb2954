"""The deep link of a push comes from its template or its data, and has https or the scheme of an app."""

import pytest

from masscomm.domain.deep_links import is_deep_link
from masscomm.domain.records import ContentFields
from masscomm.domain.users import Template, User
from masscomm.http.unused_content import unused_content
from masscomm.rendering.compiler import RenderError
from masscomm.rendering.message_writer import MessageWriter
from masscomm.rendering.preview import preview, problem_of
from tests.support.harness.chain import send

ADA = User(user_id=1, club_id=7, first_name="Ada")
WORDS = {"title": "Hello", "body": "It works."}


def template(url: str | None, channel: str = "push") -> Template:
    return Template(1, None, "news", channel, "en", "Title", "Body", url=url)


def texts(templates: list[Template], channel: str = "push", **data: str) -> dict[str, str] | None:
    return MessageWriter(content(data), channel, templates, [ADA]).texts(ADA)


def content(data: dict[str, str]) -> ContentFields:
    return send([1], data=data)


@pytest.mark.parametrize(
    "link", ["https://club.example/matches/7?a=%C3%BC#top", "riverside://matches/7", "com.example.app+x://a"]
)
def test_https_and_schemes_of_apps_are_deep_links(link: str) -> None:
    assert is_deep_link(link)


@pytest.mark.kills(guard="push.scheme_of_link")
@pytest.mark.parametrize("scheme", ["http", "javascript", "file", "data", "intent", "content", "vbscript"])
def test_scheme_without_an_app_is_refused_as_deep_link(scheme: str) -> None:
    assert not is_deep_link(f"{scheme}://matches/7")


@pytest.mark.parametrize(
    "text", ["", "matches/7", "//a.b", "https://", "https://a b", "https://münchen", "HTTPS://a", "javascript:x", "a:b"]
)
def test_text_of_another_form_is_refused_as_deep_link(text: str) -> None:
    assert not is_deep_link(text)


def test_push_has_the_link_of_its_template() -> None:
    found = texts([template(" riverside://matches/{{ data.match | urlencode }} ")], match="FC Rot & Weiß")
    assert found == {"title": "Title", "body": "Body", "url": "riverside://matches/FC%20Rot%20%26%20Wei%C3%9F"}


@pytest.mark.parametrize("url", [None, "", "{{ data.link | default('') }}"])
def test_template_without_a_link_has_an_empty_one(url: str | None) -> None:
    assert not (texts([template(url)]) or {}).get("url")


def test_link_of_the_data_is_that_of_the_message() -> None:
    assert texts([], **WORDS, url="https://club.example") == {**WORDS, "url": "https://club.example"}
    assert texts([], **WORDS) == WORDS
    assert texts([], "email", **WORDS, url="no link") == {"subject": "Hello", "text": "It works."}


@pytest.mark.parametrize("from_template", [True, False])
def test_invalid_link_fails_for_its_recipient(from_template: bool) -> None:
    templates = [template("{{ data.url }}")] if from_template else []
    with pytest.raises(RenderError, match=r"url: 'http://a' is no address with https:// or the scheme of an app"):
        texts(templates, **WORDS, url="http://a")


def test_saved_template_with_an_invalid_link_has_a_problem() -> None:
    assert str(problem_of(template("http://club.example"))).startswith("url: 'http://club.example' is no address")
    assert problem_of(template("{{ data.url }}")) is None, "the data may have a link"
    assert str(problem_of(template("{{ usr.url }}"))).startswith("url: UndefinedError")
    assert problem_of(template("http://x", "email")) is None, "an e-mail has no deep link"


def test_preview_has_the_link() -> None:
    found = preview(content({"match": "7"}), "push", [template("riverside://matches/{{ data.match }}")], ADA)
    assert (found.texts or {})["url"] == "riverside://matches/7"


@pytest.mark.parametrize(("channels", "warned"), [(["push"], []), (["push", "email"], []), (["email"], ["data.url"])])
def test_link_is_unused_only_where_no_push_is_sent(channels: list[str], warned: list[str]) -> None:
    data = {**WORDS, "url": "https://a"}
    found = unused_content(content(data), dict.fromkeys(channels, ()), list(data))
    assert [each.field for each in found] == warned
