"""The rules of a tenant by REST: who may read and change them, and what a change does."""

import json
from typing import Any

import pytest

from masscomm.domain.audit import Action
from masscomm.domain.tenant_preferences import EVERY_CLUB, INDEX
from masscomm.errors import Retry
from tests.support.harness.preferences_api import Answered, PreferencesApi
from tests.support.inputs.api_gateway_events import EVERY_CLUB as OPERATOR
from tests.support.inputs.api_gateway_events import EVERY_SCOPE
from tests.support.inputs.optional_tables import mapped

OWN, OTHER = ({**EVERY_SCOPE, "club_ids": club} for club in ("7", "8"))
RULES = {"channels": {"push": False}, "categories": {"news": {"email": False}}}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> PreferencesApi:
    return PreferencesApi(monkeypatch)


def call(
    api: PreferencesApi,
    method: str,
    tenant: str = "7",
    body: Any = None,
    *,
    authorizer: dict[str, str] = OWN,
    **headers: str,
) -> Answered:
    answer = api.respond(
        method,
        f"/v1/tenants/{tenant}/preferences",
        body=None if body is None else json.dumps(body),
        multiValueHeaders={name.replace("_", "-"): [value] for name, value in headers.items()},
        requestContext={"authorizer": authorizer},
    )
    return answer["statusCode"], json.loads(answer["body"])


def effective(api: PreferencesApi, category: str, channel: str) -> tuple[bool, str, str | None]:
    _, body = api.call("GET")
    (found,) = (each for each in body["effective"] if (each["category"], each["channel"]) == (category, channel))
    return found["wanted"], found["layer"], found["rule"]


@pytest.mark.kills(guard="preferences.published_rules")
def test_stored_rules_apply_and_are_published(api: PreferencesApi) -> None:
    status, body = call(api, "PUT", body=RULES)
    assert (status, body["club_id"], body["channels"]) == (200, 7, RULES["channels"])
    assert body["categories"] == RULES["categories"]
    assert call(api, "GET") == (200, body)
    assert effective(api, "news", "push") == (False, "tenant", "channel:push")
    assert effective(api, "news", "email") == (False, "tenant", "category:news channel:email")
    assert api.publisher.published == [(INDEX, "7")]
    (entry,) = [each for each in api.audit_log.entries if each.action == Action.TENANT_PREFERENCES_STORED]
    assert (entry.club_id, entry.subject) == (7, "7")


def test_no_rules_are_shown_before_the_first(api: PreferencesApi) -> None:
    status, body = call(api, "GET")
    assert (status, body["channels"], body["categories"], body["changed_at"]) == (200, {}, {}, None)


def test_put_replaces_all_rules(api: PreferencesApi) -> None:
    call(api, "PUT", body=RULES)
    call(api, "PUT", body={"categories": {"news": False}})
    _, body = call(api, "GET")
    assert (body["channels"], body["categories"]) == ({}, {"news": False})


def test_deleted_rules_apply_no_longer(api: PreferencesApi) -> None:
    call(api, "PUT", body=RULES)
    status, body = call(api, "DELETE")
    assert (status, body["channels"], body["categories"]) == (200, {}, {})
    assert effective(api, "news", "push")[:2] == (True, "default")
    assert call(api, "DELETE") == (200, body)


def test_repeated_change_is_audited_once_and_published(api: PreferencesApi) -> None:
    first = call(api, "PUT", body=RULES)
    assert call(api, "PUT", body=RULES) == first
    assert api.publisher.published == [(INDEX, "7")] * 2
    assert len(api.audit_log.entries) == 1


def test_rules_for_every_tenant_are_an_operators(api: PreferencesApi) -> None:
    status, body = call(api, "PUT", "default", RULES, authorizer=OPERATOR)
    assert (status, body["club_id"]) == (200, None)
    assert list(api.tenants.documents) == [EVERY_CLUB]
    assert effective(api, "news", "push") == (False, "global", "channel:push")


@pytest.mark.kills(guard="tenancy.rules_of_every_tenant")
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_rules_for_every_tenant_are_refused_to_a_tenant(api: PreferencesApi, method: str) -> None:
    assert call(api, method, "default", RULES if method == "PUT" else None)[0] == 403
    assert api.tenants.documents == {}


@pytest.mark.kills(guard="tenancy.rules_of_tenant")
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_rules_of_another_tenant_are_refused(api: PreferencesApi, method: str) -> None:
    call(api, "PUT", body=RULES)
    stored = dict(api.tenants.documents)
    status, body = call(api, method, body={} if method == "PUT" else None, authorizer=OTHER)
    assert (status, api.tenants.documents) == (403, stored)
    assert "push" not in json.dumps(body)


@pytest.mark.parametrize("tenant", ["0", "-1", "x", "00", "Default"])
def test_wrong_tenant_is_refused(api: PreferencesApi, tenant: str) -> None:
    status, body = call(api, "PUT", tenant, RULES, authorizer=OPERATOR)
    assert (status, [each["field"] for each in body["errors"]]) == (400, ["tenant"])
    assert api.tenants.documents == {}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"quiet_hours": None}, "quiet_hours"),
        ({"channels": {"pigeon": True}}, "channels.pigeon"),
        ({"channels": {"push": 1}}, "channels.push"),
        ({"channels": []}, "channels"),
        ({"categories": {"unheard": True}}, "categories.unheard"),
        ({"categories": {"news": None}}, "categories.news"),
        ({"categories": {"news": {"pigeon": True}}}, "categories.news.pigeon"),
        ({"categories": {"account_security": False}}, "categories.account_security"),
    ],
)
def test_unusable_rule_is_named_and_nothing_stored(api: PreferencesApi, body: Any, field: str) -> None:
    status, problem = call(api, "PUT", body=body)
    assert (status, [each["field"] for each in problem["errors"]]) == (400, [field])
    assert api.tenants.documents == {}


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_rules_changed_since_read_are_kept(api: PreferencesApi, method: str) -> None:
    _, read = call(api, "GET")
    _, stored = call(api, "PUT", body=RULES, If_Match=read["etag"])
    changed = {"channels": {"email": False}} if method == "PUT" else None
    assert call(api, method, body=changed, If_Match=read["etag"])[0] == 412
    assert call(api, "GET") == (200, stored)
    assert call(api, method, body=changed, If_Match=stored["etag"])[0] == 200


def test_no_change_is_answered_while_it_is_not_published(api: PreferencesApi) -> None:
    api.publisher.failing = Retry("down")
    assert call(api, "PUT", body=RULES)[0] == 503
    api.publisher.failing = None
    assert call(api, "PUT", body=RULES)[0] == 200
    assert api.publisher.published == [(INDEX, "7")]


@pytest.mark.kills(guard="preferences.owner_of_captured_rules")
def test_captured_rules_are_shown_and_not_changed(api: PreferencesApi) -> None:
    """They have one owner: the monolith. The rules for every tenant stay masscomm's own."""
    call(api, "PUT", body=RULES)
    with mapped("tenant_settings"):
        api.directory.rows["tenant_settings", "7"] = {"channels": {"email": False}, "categories": None}
        for method, body in (("PUT", RULES), ("DELETE", None)):
            status, problem = call(api, method, body=body)
            assert (status, problem["code"]) == (409, "tenant_rules_captured")
        status, body = call(api, "GET")
        assert (status, body["channels"], body["categories"]) == (200, {"email": False}, {})
        assert call(api, "GET", "8", authorizer=OTHER)[1]["channels"] == {}
        assert call(api, "PUT", "default", RULES, authorizer=OPERATOR)[0] == 200
    assert call(api, "GET")[1]["channels"] == RULES["channels"]


@pytest.mark.kills(guard="preferences.damaged_rules_replaced")
def test_damaged_rules_are_replaced_by_a_change(api: PreferencesApi) -> None:
    for method, rules in (("PUT", RULES), ("DELETE", {"channels": {}, "categories": {}})):
        api.directory.tenant_preferences[7] = {"club_id": 7, "version": 1, "channels": {"push": False}}
        assert call(api, "GET")[0] == 503
        assert call(api, method, body=RULES if method == "PUT" else None, if_match='"another"')[0] == 412
        status, body = call(api, method, body=RULES if method == "PUT" else None)
        assert (status, body["channels"], body["categories"]) == (200, *rules.values())
        assert call(api, "GET")[0] == 200
