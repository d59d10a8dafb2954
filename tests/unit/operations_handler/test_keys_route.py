"""API keys over HTTP: a caller manages the keys of its clubs, and creates none with more authority than its own."""

import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from functions.operations_handler import handler as operations_handler
from functions.operations_handler.routes.keys import Caller, KeysRoute, Made
from masscomm.clock import FixedClock
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.http.scopes import ALL_SCOPES, Scope
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.stores.api_keys.in_memory import InMemoryApiKeys
from masscomm.stores.api_keys.port import ApiKey, digest_of, every_key
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.audit_log.port import Audit
from tests.support.harness import operations_api
from tests.support.harness.operations_api import KEY_ID, key
from tests.support.inputs.api_gateway_events import get, lambda_context

CLOCK = FixedClock(1_795_262_400_000)  # 2026-11-21T12:00:00Z
NOW_S = CLOCK.now_ms() // 1000
OPERATOR = Caller(ALL_CLUBS, ALL_SCOPES, {}, "operator")
SEVEN = Caller(Clubs(frozenset({7})), frozenset({Scope.ADMIN, Scope.READ}), {}, "k7")


class Setting:
    def __init__(self) -> None:
        self.keys, self.audit_log = InMemoryApiKeys(), InMemoryAuditLog()
        self.route = KeysRoute(self.keys, CLOCK)

    def audit(self, principal: str = "k7") -> Audit:
        return operations_handler.audits(self.audit_log, CLOCK)(principal)

    def create(self, caller: Caller = OPERATOR, **fields: Any) -> Any:
        return self.route.create(json.dumps({"name": "shop", "clubs": [7]} | fields), caller, self.audit()).body

    def repeatable(self, key: str, caller: Caller = SEVEN, **fields: Any) -> Made:
        """Create a key by a request with an Idempotency-Key."""
        content = json.dumps({"name": "shop", "clubs": [7]} | fields)
        return self.route.create(content, caller, self.audit(caller.principal), key)

    def refusal(self, caller: Caller = OPERATOR, **fields: Any) -> tuple[int, list[str]]:
        with pytest.raises(Problem) as raised:
            self.create(caller, **fields)
        assert list(every_key(self.keys)) == []
        assert self.audit_log.entries == []
        return raised.value.status, [error.field for error in raised.value.errors]

    def listed(self, caller: Caller, **parameters: str) -> Any:
        return self.route.answer({name: [value] for name, value in parameters.items()}, caller)

    def stored(self, **properties: Any) -> ApiKey:
        self.keys.put(made := key(**properties))
        return made


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_a_created_keys_text_is_in_one_response_only(setting: Setting) -> None:
    body = setting.create(SEVEN, scopes=["read"], expires_at="2027-01-01T00:00:00Z", recipients_a_day=9)
    (stored,) = every_key(setting.keys)
    assert stored.digest == digest_of(body["key"]) == body["sha256"]
    assert body["properties"] == setting.listed(SEVEN)["rows"][0]
    assert body["key"] not in json.dumps(setting.listed(OPERATOR)) + repr(setting.audit_log.entries)
    (entry,) = setting.audit_log.entries
    assert (entry.action, entry.club_id, entry.principal, entry.subject) == ("key.created", 7, "k7", stored.key_id)


def test_a_key_without_scopes_reads_only(setting: Setting) -> None:
    assert setting.create()["properties"]["scopes"] == ["read"]


@pytest.mark.guarantee("api_keys.no_more_authority_than_the_caller")
@pytest.mark.kills(guard="api_keys.authority_of_the_caller")
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"scopes": ["send"]}, "scopes"),
        ({"scopes": ["admin", "operate"]}, "scopes"),
        ({"clubs": [8]}, "clubs"),
        ({"clubs": [7, 8]}, "clubs"),
        ({"clubs": None}, "clubs"),
    ],
)
def test_a_key_beyond_the_callers_is_refused(setting: Setting, fields: dict[str, Any], field: str) -> None:
    assert setting.refusal(SEVEN, **fields) == (403, [field])


def test_a_key_has_no_higher_limit_and_no_later_end(setting: Setting) -> None:
    setting.stored(key_id="c" * 16, clubs="7", expires_at=NOW_S + 3_600)
    caller = replace(SEVEN, principal="c" * 16, limits={"recipients_a_day": 100})
    for fields, refused in (
        ({}, ["recipients_a_day", "expires_at"]),
        ({"recipients_a_day": 101, "expires_at": "2026-11-21T13:00:00Z"}, ["recipients_a_day"]),
        ({"recipients_a_day": 100, "expires_at": "2026-11-21T13:00:01Z"}, ["expires_at"]),
    ):
        with pytest.raises(Problem) as raised:
            setting.create(caller, **fields)
        assert (raised.value.status, [error.field for error in raised.value.errors]) == (403, refused)
    assert setting.create(caller, recipients_a_day=100, expires_at="2026-11-21T13:00:00Z")


LIMITED = replace(SEVEN, limits={"recipients_a_day": 100}, counted_under="k7")


@pytest.mark.guarantee("limits.first_maker")
def test_keys_of_a_limited_caller_count_with_it(setting: Setting) -> None:
    """So do the keys that these keys make, and those that an operator rotates."""
    first = setting.create(LIMITED, recipients_a_day=100)["properties"]["id"]
    own = setting.keys.find_by_id(first)
    assert own is not None
    assert own.context["counted_under"] == "k7"
    child = replace(LIMITED, principal=first, counted_under=own.context["counted_under"])
    second = setting.create(child, recipients_a_day=50)["properties"]["id"]
    third = setting.route.rotate(second, None, OPERATOR, setting.audit()).body["properties"]["id"]
    assert [key.counted_under for key in every_key(setting.keys)] == ["k7", "k7", "k7"]
    assert third not in (first, second)


def test_keys_of_a_caller_without_limits_count_by_themselves(setting: Setting) -> None:
    setting.create(SEVEN, recipients_a_day=100)
    (made,) = every_key(setting.keys)
    assert made.counted_under is None
    assert "counted_under" not in made.context


@pytest.mark.kills(guard="limits.rotated_key")
def test_a_rotated_key_keeps_the_use_of_the_previous_one(setting: Setting) -> None:
    setting.keys.put(previous := replace(key(clubs="7", scopes="read"), recipients_a_day=100))
    made = setting.route.rotate(previous.key_id, None, SEVEN, setting.audit()).body["properties"]["id"]
    again = setting.route.rotate(made, '{"hours": 0}', SEVEN, setting.audit()).body["properties"]["id"]
    found = [setting.keys.find_by_id(key_id) for key_id in (made, again)]
    assert [key and key.counted_under for key in found] == [previous.key_id] * 2


def test_a_limited_caller_gains_nothing_by_rotating_another_key(setting: Setting) -> None:
    setting.keys.put(other := replace(key(clubs="7", scopes="read"), recipients_a_day=100))
    made = setting.route.rotate(other.key_id, None, LIMITED, setting.audit()).body["properties"]["id"]
    found = setting.keys.find_by_id(made)
    assert found is not None
    assert found.counted_under == "k7"


@pytest.mark.guarantee("api_keys.other_tenants_keys_are_unknown")
@pytest.mark.kills(guard="tenancy.api_keys")
@pytest.mark.parametrize("clubs", ["8", "7,8", "*"])
def test_a_key_of_another_club_is_unknown(setting: Setting, clubs: str) -> None:
    setting.stored(clubs=clubs, scopes="read")
    assert setting.listed(SEVEN)["rows"] == []
    for change in (setting.route.rotate, setting.route.revoke):
        with pytest.raises(Problem, match="unknown") as raised:
            change(KEY_ID, None, SEVEN, setting.audit())
        assert raised.value.status == 404
    assert [each.expires_at for each in every_key(setting.keys)] == [None]
    assert [row["id"] for row in setting.listed(OPERATOR)["rows"]] == [KEY_ID]


def test_a_rotated_key_ends_after_the_hours(setting: Setting) -> None:
    previous = setting.stored(clubs="7", scopes="read")
    body = setting.route.rotate(KEY_ID, '{"hours": 2}', SEVEN, setting.audit()).body
    ends = {each.key_id: each.expires_at for each in every_key(setting.keys)}
    assert ends == {previous.key_id: NOW_S + 7_200, body["properties"]["id"]: None}
    assert [entry.action for entry in setting.audit_log.entries] == ["key.rotated"]


@pytest.mark.kills(guard="api_keys.rotated_key_outlives")
def test_a_rotated_key_is_not_rotated_again(setting: Setting) -> None:
    """The second key would end with the first, a day later, although it replaces a key without an end."""
    setting.stored(clubs="7", scopes="read")
    made = setting.route.rotate(KEY_ID, None, SEVEN, setting.audit()).body["properties"]
    with pytest.raises(Problem, match="2026-11-22T12:00:00Z") as raised:
        setting.route.rotate(KEY_ID, None, SEVEN, setting.audit())
    assert raised.value.status == 409
    assert {each.key_id for each in every_key(setting.keys)} == {KEY_ID, made["id"]}
    again = setting.route.rotate(made["id"], '{"hours": 0}', SEVEN, setting.audit()).body["properties"]
    assert again["expires_at"] is None


def test_a_leaked_key_with_an_end_is_rotated(setting: Setting) -> None:
    """The new key has the end of the previous one, which ends at once."""
    setting.stored(clubs="7", scopes="read", expires_at=NOW_S + 3_600)
    body = setting.route.rotate(KEY_ID, '{"hours": 0}', SEVEN, setting.audit()).body
    assert body["properties"]["expires_at"] == "2026-11-21T13:00:00Z"


def test_a_key_revoked_during_a_rotation_stays_revoked(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is revoked between the rotation's read of it and the write of its end."""
    previous = setting.stored(clubs="7", scopes="read")
    put = setting.keys.put

    def put_and_revoke(new: ApiKey) -> None:
        put(new)
        setting.route.revoke(KEY_ID, None, SEVEN, setting.audit())

    monkeypatch.setattr(setting.keys, "put", put_and_revoke)
    setting.route.rotate(KEY_ID, '{"hours": 24}', SEVEN, setting.audit())
    ended = setting.keys.find(previous.digest)
    assert ended is not None
    assert ended.expires_at == NOW_S


def test_a_key_with_more_scopes_is_not_rotated(setting: Setting) -> None:
    """The response has the text of the new key."""
    setting.stored(clubs="7", scopes="read send")
    with pytest.raises(Problem) as raised:
        setting.route.rotate(KEY_ID, None, SEVEN, setting.audit())
    assert (raised.value.status, [error.field for error in raised.value.errors]) == (403, ["scopes"])
    assert len(list(every_key(setting.keys))) == 1


@pytest.mark.guarantee("api_keys.revocation_waits_for_no_other")
def test_a_key_is_revoked_while_other_servers_are_down(monkeypatch: pytest.MonkeyPatch) -> None:
    audit_log = InMemoryAuditLog()
    operations_api.build(monkeypatch, clock=CLOCK, audit_log=audit_log)
    monkeypatch.setattr(operations_handler, "bootstrap", Mock(side_effect=Retry("down")))
    event = get(f"/v1/keys/{operations_api.KEY_ID}/revoke")
    event["httpMethod"] = event["requestContext"]["httpMethod"] = "POST"
    assert operations_handler.handler(event, lambda_context())["statusCode"] == 200
    assert [entry.action for entry in audit_log.entries] == ["key.revoked"]


def test_a_revoked_key_is_not_rotated(setting: Setting) -> None:
    setting.stored(clubs="7", scopes="read")
    bodies = [setting.route.revoke(KEY_ID, None, SEVEN, setting.audit()) for _ in range(2)]
    assert bodies == [{"id": KEY_ID, "status": "revoked", "expires_at": "2026-11-21T12:00:00Z"}] * 2
    assert [entry.action for entry in setting.audit_log.entries] == ["key.revoked"]
    with pytest.raises(Problem) as raised:
        setting.route.rotate(KEY_ID, None, SEVEN, setting.audit())
    assert raised.value.status == 409


def test_pages_of_keys_continue_by_cursor(setting: Setting) -> None:
    for number in range(5):
        setting.stored(key_id=f"{number}" * 16, clubs="7", created_at=number // 2)
    found, cursor = list[str](), None
    for _ in range(3):
        body = setting.listed(SEVEN, limit="2", **({} if cursor is None else {"cursor": cursor}))
        found += [row["id"][0] for row in body["rows"]]
        cursor = body["next_cursor"]
    assert (found, cursor) == (["4", "3", "2", "1", "0"], None)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"name": "a" * 101}, "name"),
        ({"clubs": []}, "clubs"),
        ({"clubs": [0]}, "clubs"),
        ({"clubs": [True]}, "clubs"),
        ({"clubs": "7"}, "clubs"),
        ({"scopes": ["root"]}, "scopes"),
        ({"scopes": [["read"]]}, "scopes"),
        ({"scopes": "read"}, "scopes"),
        ({"mode": "other"}, "mode"),
        ({"mode": ["live"]}, "mode"),
        ({"expires_at": "tomorrow"}, "expires_at"),
        ({"expires_at": 5}, "expires_at"),
        ({"expires_at": "2026-11-21T12:00:00Z"}, "expires_at"),
        ({"requests_a_minute": 0}, "requests_a_minute"),
        ({"recipients_a_day": 1.5}, "recipients_a_day"),
        ({"key": "mc_own"}, "key"),
    ],
)
def test_each_wrong_field_of_a_key_is_named(setting: Setting, fields: dict[str, Any], field: str) -> None:
    assert setting.refusal(**fields) == (400, [field])


@pytest.mark.parametrize("content", ["[]", '{"hours": -1}', '{"hours": 721}', '{"hours": true}', '{"days": 1}', "{"])
def test_wrong_hours_of_a_rotation_are_refused(setting: Setting, content: str) -> None:
    setting.stored(clubs="7", scopes="read")
    with pytest.raises(Problem) as raised:
        setting.route.rotate(KEY_ID, content, SEVEN, setting.audit())
    assert raised.value.status == 400


@pytest.mark.guarantee("api_keys.repeated_request_makes_no_second_key")
def test_a_repeated_creation_makes_no_second_key(setting: Setting) -> None:
    first = setting.repeatable("order-1")
    for again in (setting.repeatable("order-1"), setting.repeatable("order-1")):
        assert (first.replayed, again.replayed) == (False, True)
        assert again.body == {**first.body, "key": None}
    (stored,) = every_key(setting.keys)
    assert first.body["key"] is not None
    assert digest_of(first.body["key"]) == stored.digest
    assert len(setting.audit_log.entries) == 1


@pytest.mark.kills(guard="api_keys.other_request")
def test_another_creation_under_the_key_is_refused(setting: Setting) -> None:
    first = setting.repeatable("order-1")
    for fields in ({"name": "other"}, {"scopes": ["admin"]}):
        with pytest.raises(Problem) as raised:
            setting.repeatable("order-1", **fields)
        assert (raised.value.status, [error.field for error in raised.value.errors]) == (422, ["Idempotency-Key"])
    assert [each.key_id for each in every_key(setting.keys)] == [first.body["properties"]["id"]]


@pytest.mark.kills(guard="api_keys.principals_request")
def test_callers_may_choose_the_same_idempotency_key(setting: Setting) -> None:
    """The response names another caller's key otherwise."""
    first, other = setting.repeatable("order-1"), setting.repeatable("order-1", replace(SEVEN, principal="k8"))
    assert not other.replayed
    assert first.body["sha256"] != other.body["sha256"]


def test_an_idempotency_key_is_free_after_a_day(setting: Setting) -> None:
    first = setting.repeatable("order-1")
    setting.route = KeysRoute(setting.keys, FixedClock(CLOCK.now_ms() + 86_400_000))
    assert setting.repeatable("order-1").body["sha256"] != first.body["sha256"]


def test_a_repeated_creation_after_the_keys_end_is_refused(setting: Setting) -> None:
    """DynamoDB deletes a key after its end."""
    first = setting.repeatable("order-1")
    setting.keys.delete(first.body["sha256"])
    with pytest.raises(Problem) as raised:
        setting.repeatable("order-1")
    assert raised.value.status == 409


@pytest.mark.kills(guard="api_keys.repeated_rotation_ends_the_key")
@pytest.mark.parametrize("hours", [0, 2])
def test_a_repeated_rotation_makes_no_second_key(setting: Setting, hours: int) -> None:
    """The first attempt is killed before it stores the end of the previous key."""
    previous = setting.stored(clubs="7", scopes="read")

    def rotate() -> Made:
        return setting.route.rotate(KEY_ID, json.dumps({"hours": hours}), SEVEN, setting.audit(), "order-1")

    first = rotate()
    setting.keys.put(previous)
    again = rotate()
    assert again == Made({**first.body, "key": None}, replayed=True) == rotate()
    ends = {each.key_id: each.expires_at for each in every_key(setting.keys)}
    assert ends == {previous.key_id: NOW_S + hours * 3_600, first.body["properties"]["id"]: None}


def test_a_replayed_creation_has_the_header(monkeypatch: pytest.MonkeyPatch) -> None:
    operations_api.build(monkeypatch, clock=CLOCK, audit_log=InMemoryAuditLog())
    event = get("/v1/keys") | {
        "httpMethod": "POST",
        "multiValueHeaders": {"Idempotency-Key": ["order-1"]},
        "body": json.dumps({"name": "shop", "clubs": [1]}),
    }
    first, again = (operations_handler.handler(event, lambda_context()) for _ in range(2))
    assert (first["statusCode"], again["statusCode"]) == (201, 201)
    assert "Idempotency-Replayed" not in first["multiValueHeaders"]
    assert again["multiValueHeaders"]["Idempotency-Replayed"] == ["true"]
    assert json.loads(again["body"])["key"] is None
