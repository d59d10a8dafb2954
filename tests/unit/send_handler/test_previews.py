"""POST /v1/previews: the text is the builder's, and each missing value is named."""

import json
from typing import Any

import pytest

from functions.send_handler import previews
from masscomm.domain.limits import RECORD_STEPS
from masscomm.domain.users import Template, User
from masscomm.errors import Retry
from masscomm.rendering.compiler import MAX_OUTPUT_BYTES, MAX_STEPS, Steps
from masscomm.rendering.preview import MAX_MISSING
from masscomm.stores.categories.in_memory import InMemoryCategories
from tests.support.categories import put_version
from tests.support.harness.builder import Builder, texts_by_user
from tests.support.harness.chain import build
from tests.support.harness.send_api import SendApi
from tests.support.sms import CLUB, SENDER, SETTINGS, sms_settings

OTHER_SENDER = {"identity": "Club", "two_way": False, "segments_per_s": 10}
BODY = "{{ user.first_name or 'there' }}: {{ data.kick_off | default('soon') }}, {{ user.attributes.plan }}"
HTML = "<p>{{ user.first_name }} & {{ data.opponent }}</p>"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    api = SendApi(monkeypatch)
    api.directory.ready = True
    monkeypatch.setattr(previews, "directory", lambda: api.directory)
    api.directory.put(
        User(user_id=1, club_id=7, first_name="<Ada>", email="ada@club.example", attributes={"plan": "gold"}),
        User(user_id=2, club_id=7, locale="de-AT"),
        Template(1, None, "news", "push", "en", "{{ data.opponent }}", BODY),
        Template(2, 7, "news", "push", "de", "Deutsch", "Hallo"),
        Template(3, None, "news", "email", "en", "{{ data.opponent }}", BODY, HTML),
    )
    return api


def _preview(api: SendApi, **values: Any) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"type": "news", "club_id": 7, "channels": ["push"]} | values)
    status, answer, _ = api.call(body, path="/v1/previews")
    assert api.producer.produced == []
    return status, answer


def _message(api: SendApi, **values: Any) -> dict[str, Any]:
    status, answer = _preview(api, **values)
    assert status == 200, answer
    (message,) = answer["messages"]
    assert answer["complete"] is (message["problem"] is None)
    found: dict[str, Any] = message
    return found


def test_previewed_texts_are_those_of_the_builder(api: SendApi) -> None:
    data = {"opponent": "FC & Sons"}
    status, answer = _preview(api, user_id=1, data=data, channels=["push", "email"])
    assert (status, answer["complete"], answer["warnings"]) == (200, True, [])
    builder = Builder()
    builder.put_user(1, first_name="<Ada>", attributes={"plan": "gold"})
    for template_id, channel in ((1, "push"), (2, "email")):
        fields = {"template_id": template_id, "channel": channel, "html": HTML}
        builder.put_template("{{ data.opponent }}", BODY, **fields)
        builder.build(build([1], channel=channel, data=data, record_id=channel))
    sent = [texts_by_user([delivery])[1] for delivery in builder.deliveries()]
    assert [message["fields"] for message in answer["messages"]] == sent
    assert sent[1]["html"] == "<p>&lt;Ada&gt; & FC &amp; Sons</p>"


def test_every_missing_value_is_named_and_marked(api: SendApi) -> None:
    found = _message(api, data={"unread": "x"})
    assert found["missing"] == ["data.opponent", "user.attributes.plan"]
    assert found["fields"] == {"title": "[opponent]", "body": "there: soon, [plan]"}
    assert found["problem"] == "a value is missing: data.opponent, user.attributes.plan"
    assert _preview(api, data={"unread": "x"})[1]["warnings"][0]["field"] == "data.unread"


def test_given_values_replace_those_of_a_user(api: SendApi) -> None:
    user = {"first_name": "Eve", "attributes": {"plan": "silver", "points": 7}}
    found = _message(api, user=user, data={"opponent": "o"})
    assert found["fields"] == {"title": "o", "body": "Eve: soon, silver"}
    assert found["template"] == {"id": 1, "club_id": None, "locale": "en"}


def test_template_of_the_users_language_is_previewed(api: SendApi) -> None:
    assert _message(api, user_id=2)["template"] == {"id": 2, "club_id": 7, "locale": "de"}
    assert _message(api, user_id=2, locale="fr", data={"opponent": "o"})["template"]["locale"] == "en"


def test_draft_replaces_the_saved_templates(api: SendApi) -> None:
    draft = {"title": "{{ data.headline }}", "body": "Hi {{ user.first_name }}"}
    found = _message(api, user_id=1, draft=draft, locale="de-AT", data={"headline": "Win"})
    assert (found["template"], found["fields"]) == (None, {"title": "Win", "body": "Hi <Ada>"})


def test_send_without_a_template_has_no_message(api: SendApi) -> None:
    found = _message(api, template="none")
    assert (found["fields"], found["problem"]) == (None, "there is no template, and the data has no title and body")
    assert _message(api, template="none", data={"title": "t", "body": "b"})["fields"] == {"title": "t", "body": "b"}


def test_user_without_an_address_would_get_no_message(api: SendApi) -> None:
    user = {"channels": ["email"], "user_id": 2, "data": {"opponent": "o"}}
    assert _message(api, **user)["problem"] == "the user has no address on this channel"


HOSTILE = {
    "{{ user.__class__ }}": "no attribute '__class__'",
    "{{ user.first_name.__class__.__mro__ }}": "no attribute '__class__'",
    "{{ ''['__class__'] }}": "no attribute '__class__'",
    "{% for i in data %}x{% endfor %}": "dict is not a list",
    "{% for i in data.long | split(' ') %}x{% endfor %}": "more than 100 items",
    "{% for i in [1, 2, 3] %}" * 9 + "x" + "{% endfor %}" * 9: "takes too many steps",
    "{% set x = 1 %}": "Assign is not allowed",
    "{{ " + "(" * 30 + "1" + ")" * 30 + " if " + "not " * 30 + "1 }}": "nested more than",
    "{{ cycler.__init__.__globals__ }}": "'cycler' is undefined",
    "{{ data.long | title | title | title }}": "takes too many steps",
    "{{ data.long }}" * 3: f"longer than {MAX_OUTPUT_BYTES} bytes",
    "{{ data[data] }}": "no attribute 'dict'",
    "{{": "TemplateSyntaxError",
}


@pytest.mark.parametrize(("source", "problem"), HOSTILE.items(), ids=range(len(HOSTILE)))
def test_hostile_draft_ends_in_a_problem(api: SendApi, source: str, problem: str) -> None:
    found = _message(api, draft={"title": "t", "body": source}, data={"long": "a " * 45_000}, user_id=1)
    assert found["fields"] is None
    assert problem in found["problem"]
    assert len(found["problem"]) <= 300


def test_a_preview_names_a_bounded_number_of_values(api: SendApi) -> None:
    """Each missing value costs a rendering, so a preview names only some of them."""
    body = "{{ 'x' | title }}" + "".join(f"{{{{ data.v{number} }}}}" for number in range(100))
    found = _message(api, draft={"title": "t", "body": body})
    assert len(found["missing"]) == MAX_MISSING
    assert found["fields"] is None


@pytest.mark.guarantee("templates.steps_a_preview_are_bounded")
@pytest.mark.kills(guard="templates.steps_of_a_preview")
def test_a_preview_costs_no_more_than_a_record(api: SendApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each missing value costs a rendering on each channel, and all of them share the steps of one record."""
    spent: list[float] = []
    spend = Steps.spend

    def counted(steps: Steps, number: float) -> None:
        spent.append(number)
        spend(steps, number)

    monkeypatch.setattr(Steps, "spend", counted)
    costly = "{{ data.long | upper | lower | length }}" * 8
    body = costly + "".join(f"{{{{ data.v{number} }}}}" for number in range(MAX_MISSING))
    draft = {"title": "t", "body": body, "html": body}
    status, answer = _preview(api, draft=draft, data={"long": "a" * 9_000}, channels=["push", "email"])
    assert status == 200
    push, email = (message["problem"] for message in answer["messages"])
    assert push.startswith("a value is missing: ")
    assert email.endswith("the template takes too many steps")
    assert sum(spent) <= RECORD_STEPS + 2 * MAX_STEPS


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"type": "two words"}, "type"),
        ({"channels": ["pigeon"]}, "channels[0]"),
        ({"user_id": 9}, "user_id"),
        ({"user_id": "1"}, "user_id"),
        ({"user": {"first_name": "x" * 201}}, "user.first_name"),
        ({"user": {"attributes": {"a": []}}}, "user.attributes.a"),
        ({"user": {"email": "a@b.c"}}, "user.email"),
        ({"draft": {"title": "t"}}, "draft.body"),
        ({"draft": {"title": "t", "body": "x" * 200_001}}, "draft.body"),
        ({"to_users": [1]}, "to_users"),
        ({"user_id": 1, "user": {}}, "user"),
    ],
)
def test_invalid_request_names_its_field(api: SendApi, values: dict[str, Any], field: str) -> None:
    status, answer = _preview(api, **values)
    assert status == 400
    assert any(each["field"].startswith(field) for each in answer["errors"])


def test_directory_that_is_down_is_a_retry(api: SendApi) -> None:
    api.directory.failing = Retry("down")
    assert _preview(api)[0] == 503


def test_a_push_is_previewed_for_each_platform(api: SendApi) -> None:
    push = {"badge": 1, "data": {"match": "7"}}
    found = _message(api, data={"opponent": "FC"}, user_id=1, push=push)
    body = found["fields"]["body"]
    assert [(each["platform"], each["body"]) for each in found["platforms"]] == [("ios", body), ("android", body)]
    assert not any(each["shortened"] or each["too_large"] for each in found["platforms"])
    plain = _message(api, data={"opponent": "FC"}, user_id=1)["platforms"]
    assert all(
        each["payload_bytes"] > other["payload_bytes"] for each, other in zip(found["platforms"], plain, strict=True)
    )
    assert _message(api, data={"opponent": "FC"}, channels=["email"])["platforms"] == []


@pytest.mark.parametrize("shorten", [True, False])
def test_a_long_push_is_previewed_as_it_is_sent(
    api: SendApi, stored_categories: InMemoryCategories, shorten: bool
) -> None:
    put_version(stored_categories, "news", {"channels": ["push"], "shorten": shorten}, 0)
    long = "Grüezi " * 1_000
    found = _message(api, template="own", data={"title": "Hello", "body": long})
    for each in found["platforms"]:
        assert each["body"] == long if not shorten else long.startswith(each["body"].removesuffix("…"))
        assert (each["shortened"], each["too_large"]) == (shorten, not shorten)
        assert (each["payload_bytes"] <= 4_096) is shorten


def test_a_silent_push_is_previewed_without_texts(api: SendApi) -> None:
    status, answer = _preview(
        api, channels=["push", "email"], data={"opponent": "FC"}, user_id=1, push={"silent": True}
    )
    assert status == 200
    silent, mail = answer["messages"]
    assert (silent["channel"], silent["fields"], silent["problem"]) == ("push", {}, None)
    assert {each["body"] for each in silent["platforms"]} == {""}
    assert (mail["channel"], mail["problem"]) == ("email", None)


def test_an_invalid_push_has_no_preview(api: SendApi) -> None:
    status, answer = _preview(api, push={"badge": -1, "data": {"from": "x"}})
    assert (status, [each["field"] for each in answer["errors"]]) == (400, ["push.badge", "push.data.from"])


def test_preview_of_an_sms_has_segments_and_prices(api: SendApi) -> None:
    """With the way to opt out, the SMS to one country has a segment more, and is UCS-2."""
    own = {"senders": {"default": SENDER, "AT": {**OTHER_SENDER, "way_out": "Stop: ☎"}}}
    settings = SETTINGS | {"tenants": {CLUB: SETTINGS["tenants"][CLUB] | own}}
    with sms_settings(settings):
        found = _message(api, channels=["sms"], template="none", data={"title": "t", "body": "a" * 65})
    assert found["fields"] == {"text": "a" * 65}
    assert found["sms"] == {
        "encoding": "UCS-2",
        "segments": 2,
        "too_large": False,
        "countries": [
            {"country": "AT", "segments": 2, "usd": 0.2},
            {"country": "DE", "segments": 1, "usd": 0.05},
        ],
        "prices_as_of": "2026-11-01",
    }


def test_preview_of_an_sms_without_countries_has_no_price(api: SendApi) -> None:
    body = "a" * 161 * 6
    found = _message(api, channels=["sms"], template="none", data={"title": "t", "body": body})
    sms = {"encoding": "GSM-7", "segments": 7, "too_large": True, "countries": [], "prices_as_of": None}
    assert found["sms"] == sms
    assert _message(api, template="none", data={"title": "t", "body": body})["sms"] is None
