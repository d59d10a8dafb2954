"""GET /v1/users: the users of one tenant by page, for callers of the tenant."""

import json
from typing import Any

import pytest

from masscomm.domain.users import User
from tests.support.harness.preferences_api import PreferencesApi
from tests.support.inputs.api_gateway_events import EVERY_CLUB

CLUB_8 = {"principalId": "k", "club_ids": "8", "scopes": "users:read"}
SEVERAL = {"principalId": "k", "club_ids": "7,8", "scopes": "users:read"}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> PreferencesApi:
    found = PreferencesApi(monkeypatch)
    found.directory.put(*(User(user_id=number, club_id=8, email="secret") for number in (3, 1, 5, 4)))
    return found


def _list(api: PreferencesApi, authorizer: dict[str, str] = CLUB_8, **parameters: str) -> tuple[int, Any]:
    status, body = api.read("/v1/users", authorizer, **parameters)
    assert "secret" not in json.dumps(body)
    return status, body


def test_pages_have_each_user_of_the_tenant_once(api: PreferencesApi) -> None:
    first = _list(api, limit="3")[1]
    last = _list(api, limit="3", cursor=first["next_cursor"])[1]
    assert [[each["user_id"] for each in body["rows"]] for body in (first, last)] == [[1, 3, 4], [5]]
    assert (first["truncated"], last["truncated"], last["next_cursor"]) == (True, False, None)


def test_last_page_that_is_full_has_no_cursor(api: PreferencesApi) -> None:
    body = _list(api, limit="4")[1]
    assert (len(body["rows"]), body["truncated"], body["next_cursor"]) == (4, False, None)


def test_row_shows_no_more_than_the_user(api: PreferencesApi) -> None:
    (row, *_) = _list(api)[1]["rows"]
    user = api.read("/v1/users/1", CLUB_8)[1]
    assert {name: value for name, value in row.items() if name != "links"}.items() <= user.items()
    assert row["links"] == {"self": user["links"]["self"]}


def test_caller_of_several_tenants_names_one(api: PreferencesApi) -> None:
    for authorizer in (SEVERAL, EVERY_CLUB):
        status, body = _list(api, authorizer)
        assert (status, body["errors"][0]["field"]) == (400, "club_id")
        assert [each["club_id"] for each in _list(api, authorizer, club_id="7")[1]["rows"]] == [7]


def test_another_tenant_is_refused(api: PreferencesApi) -> None:
    assert _list(api, club_id="7")[0] == 403


def test_cursor_of_another_tenant_is_a_400(api: PreferencesApi) -> None:
    cursor = _list(api, SEVERAL, club_id="8", limit="1")[1]["next_cursor"]
    assert _list(api, SEVERAL, club_id="7", cursor=cursor)[0] == 400
    assert _list(api, cursor="nonsense")[0] == 400


def test_page_is_audited_with_its_first_and_last_user(api: PreferencesApi) -> None:
    _list(api, limit="2")
    _list(api, SEVERAL, club_id="8", limit="1")
    found = [(each.action, each.club_id, each.principal, each.subject, each.detail) for each in api.audit_log.entries]
    assert found[0] == ("users.listed", 8, "k", "1-3", "users: 2")
    assert len(found) == 2


def test_scope_is_needed(api: PreferencesApi) -> None:
    assert _list(api, CLUB_8 | {"scopes": "read users:write"})[0] == 403
