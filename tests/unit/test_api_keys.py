"""API keys that `masscomm keys` stores in DynamoDB (moto) are authorized, and the functions read their context."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from cli import keys as keys_commands
from cli.installation import Installation
from cli.main import app
from cli.terminal import Terminal
from infra.cdk.handlers import authorizer
from local.devstack.service import AWS_CREDENTIALS
from local.emulators.key_authorizer import KeyAuthorizer
from local.emulators.local import REGION
from masscomm.clock import FixedClock, SystemClock
from masscomm.errors import Retry, Stop
from masscomm.http.scopes import ALL_SCOPES, Scope, scopes_of
from masscomm.http.tenant import ALL_CLUBS, Clubs, clubs_of
from masscomm.stores.api_keys.dynamodb import ApiKeys
from masscomm.stores.api_keys.port import TEST, ApiKey, digest_of, every_key, new_key
from tests.support.servers.dynamodb_table import new_table

ARN = "arn:aws:execute-api:eu-central-1:000000000000:api/live/GET/v1/metrics"
NOW = 2_000_000_000


class Setting:
    """The commands of `masscomm keys` and the deployed authorizer over one table."""

    def __init__(self, client: Any, table: str) -> None:
        self.keys = ApiKeys(client, table)
        self.client, self.table = client, table

    def run(self, *arguments: str, status: int = 0) -> str:
        return self.masscomm("keys", *arguments, status=status)

    def masscomm(self, *arguments: str, status: int = 0) -> str:
        found = CliRunner().invoke(app, arguments)
        assert found.exit_code == status, found.output
        return found.stdout

    def create(self, *arguments: str) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self.run("create", "--name", "shop", "--json", *arguments))
        return made

    def listed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("list", "--json").splitlines()]

    def ask(self, key: str) -> tuple[str, dict[str, str]]:
        """Call the deployed authorizer. Returns the effect and the context of its answer."""
        answer = authorizer.handler({"methodArn": ARN, "headers": {"x-api-key": key}}, None)
        (statement,) = answer["policyDocument"]["Statement"]
        assert key not in json.dumps(answer)
        return str(statement["Effect"]), answer["context"]


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    for name, value in (AWS_CREDENTIALS | {"AWS_DEFAULT_REGION": REGION}).items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        client = boto3.client("dynamodb")
        table = new_table(client, "api_keys")
        monkeypatch.setenv("API_KEYS_TABLE", table)
        tables = {"api_keys": table, "audit_log": new_table(client, "audit_log")}
        chosen = Installation(kafka_bootstrap="", registry_url="", generation="", tables=tables)
        monkeypatch.setattr(Installation, "here", classmethod(lambda _cls: chosen))
        yield Setting(client, table)


@pytest.mark.guarantee("api_keys.only_the_digest_is_stored")
def test_a_created_key_is_stored_as_its_digest(setting: Setting) -> None:
    made = setting.create("--club", "2", "--club", "1", "--scope", "send", "--scope", "read")
    items = setting.client.scan(TableName=setting.table)["Items"]
    assert made["key"].startswith("mc_")
    assert made["key"] not in json.dumps(items)
    assert {item["id"]["S"] for item in items} == {made["sha256"], f"key_id#{made['id']}"}
    assert made["sha256"] == digest_of(made["key"])
    effect, context = setting.ask(made["key"])
    assert effect == "Allow"
    assert clubs_of(context) == Clubs(frozenset({1, 2}))
    assert scopes_of(context) == {Scope.SEND, Scope.READ}


@pytest.mark.guarantee("api_keys.without_scopes_reads_only")
def test_a_key_created_without_scopes_reads(setting: Setting) -> None:
    _, context = setting.ask(setting.create("--every-club")["key"])
    assert clubs_of(context) == ALL_CLUBS
    assert scopes_of(context) == {Scope.READ}


@pytest.mark.parametrize("arguments", [(), ("--every-club", "--club", "1"), ("--club", "0"), ("--club", "-3")])
def test_a_key_without_clubs_is_not_created(setting: Setting, arguments: tuple[str, ...]) -> None:
    setting.run("create", "--name", "shop", *arguments, status=1)
    assert setting.listed() == []


def test_a_test_key_is_marked_in_its_context(setting: Setting) -> None:
    made = setting.create("--club", "1", "--scope", "send", "--test")
    assert made["key"].startswith("mc_test_")
    assert setting.ask(made["key"])[1] == {"club_ids": "1", "scopes": "send", "mode": "test"}
    rotated = json.loads(setting.run("rotate", made["id"], "--json"))
    assert setting.ask(rotated["key"])[1]["mode"] == "test"
    assert "mode" not in setting.ask(setting.create("--club", "1")["key"])[1]


def test_the_limits_of_a_key_are_in_its_context(setting: Setting) -> None:
    made = setting.create("--club", "1", "--recipients-a-day", "1000", "--requests-a-minute", "60")
    limits = {"recipients_a_day": "1000", "requests_a_minute": "60"}
    assert setting.ask(made["key"])[1] == {"club_ids": "1", "scopes": "read"} | limits
    rotated = json.loads(setting.run("rotate", made["id"], "--json"))
    assert rotated["recipients_a_day"] == 1000
    allowed, context = setting.ask(made["key"])
    assert setting.ask(rotated["key"]) == (allowed, context | {"counted_under": made["id"]})


def test_an_unknown_scope_is_refused(setting: Setting) -> None:
    setting.run("create", "--name", "shop", "--club", "1", "--scope", "root", status=2)
    assert setting.listed() == []


def test_the_last_use_of_a_key_is_listed(setting: Setting) -> None:
    key = setting.create("--club", "1", "--days", "2")["key"]
    (before,) = setting.listed()
    assert (before["last_used_at"], before["name"], before["clubs"]) == (None, "shop", "1")
    assert before["expires_at"] > before["created_at"]
    setting.ask(key)
    assert setting.listed()[0]["last_used_at"] is not None


@pytest.mark.guarantee("api_keys.expired_key_is_denied")
@pytest.mark.parametrize(("left_s", "effect"), [(3_600, "Allow"), (0, "Deny")])
def test_a_key_is_denied_from_its_end(setting: Setting, left_s: int, effect: str) -> None:
    end = int(time.time()) + left_s
    setting.keys.put(ApiKey(digest=digest_of("mc_k"), name="n", clubs="1", scopes="read", created_at=1, expires_at=end))
    assert setting.ask("mc_k")[0] == effect


@pytest.mark.parametrize("header", ["x-api-key", "X-Api-Key", "X-API-KEY"])
def test_an_authorized_key_may_use_every_path(setting: Setting, header: str) -> None:
    key = setting.create("--club", "1")["key"]
    answer = authorizer.handler({"methodArn": ARN, "headers": {header: key}}, None)
    (statement,) = answer["policyDocument"]["Statement"]
    assert (statement["Effect"], statement["Resource"]) == ("Allow", ARN.partition("/GET")[0] + "/*")
    assert answer["usageIdentifierKey"] == digest_of(key)


@pytest.mark.parametrize("headers", [None, {}, {"x-api-key": ""}])
def test_a_request_without_a_key_is_denied(setting: Setting, headers: dict[str, str] | None) -> None:
    answer = authorizer.handler({"methodArn": ARN, "headers": headers}, None)
    (statement,) = answer["policyDocument"]["Statement"]
    assert (statement["Effect"], answer["principalId"], answer["context"]) == ("Deny", "nobody", {"club_ids": ""})


@pytest.mark.guarantee("api_keys.revoked_key_is_denied")
def test_a_revoked_key_is_denied(setting: Setting) -> None:
    made, other = setting.create("--club", "1"), setting.create("--club", "1")
    setting.run("revoke", made["id"])
    assert setting.ask(made["key"]) == ("Deny", {"club_ids": ""})
    assert setting.ask(other["key"])[0] == "Allow"
    setting.run("rotate", made["id"], status=1)
    setting.run("revoke", "none", status=1)


def test_a_rotated_key_is_valid_until_its_end(setting: Setting) -> None:
    first = setting.create("--club", "1", "--scope", "send")
    second = json.loads(setting.run("rotate", first["id"], "--json"))
    assert setting.ask(second["key"]) == setting.ask(first["key"])
    third = json.loads(setting.run("rotate", second["id"], "--hours", "0", "--json"))
    assert setting.ask(second["key"])[0] == "Deny"
    assert setting.ask(third["key"])[0] == "Allow"
    assert third["expires_at"] is None


def test_an_unknown_key_of_the_table_is_denied(setting: Setting) -> None:
    assert setting.ask(new_key()) == ("Deny", {"club_ids": ""})


@pytest.mark.parametrize(
    "change",
    [
        {"clubs": {"N": "1"}},
        {"scopes": {}},
        {"expires_at": {"S": "x"}},
        {"requests_a_minute": {"S": "x"}},
        *({"mode": mode} for mode in ({"S": "Test"}, {"S": ""}, {"N": "1"})),
    ],
)
def test_a_malformed_key_is_denied(setting: Setting, change: dict[str, Any]) -> None:
    made = setting.create("--club", "1")
    item = setting.client.get_item(TableName=setting.table, Key={"id": {"S": made["sha256"]}})["Item"]
    setting.client.put_item(TableName=setting.table, Item=item | {n: v or {"BOOL": True} for n, v in change.items()})
    assert setting.ask(made["key"])[0] == "Deny"
    if "expires_at" not in change:
        with pytest.raises(Retry):
            setting.keys.find(made["sha256"])


def test_the_local_gateway_authorizes_as_the_deployed_one(setting: Setting) -> None:
    """The local and the deployed authorizer agree about keys that are valid, expired or unknown."""
    local = KeyAuthorizer(keys=setting.keys, clock=SystemClock())
    valid = ApiKey(digest="", name="n", clubs="1,2", scopes="send", created_at=1)
    for text, key in (
        ("mc_a", valid),
        ("mc_b", replace(valid, expires_at=2)),
        ("mc_c", replace(valid, clubs="*")),
        ("mc_d", replace(valid, recipients_a_day=5, requests_a_minute=7, mode=TEST)),
    ):
        setting.keys.put(replace(key, digest=digest_of(text)))
    for text in ("mc_a", "mc_b", "mc_c", "mc_d", "mc_unknown"):
        effect, context = setting.ask(text)
        found = local(text)
        assert (found is not None) == (effect == "Allow")
        if found is not None:
            assert {name: value for name, value in found.items() if name != "principalId"} == context


@pytest.mark.guarantee("api_keys.revoked_key_ends_locally_too")
def test_the_local_authorizer_forgets_a_key_after_a_minute(setting: Setting) -> None:
    clock = FixedClock()
    local = KeyAuthorizer(keys=setting.keys, clock=clock)
    made = setting.create("--club", "1")
    assert local(made["key"]) is not None
    setting.run("revoke", made["id"])
    clock.advance(59)
    assert local(made["key"]) is not None, "API Gateway keeps a result for a minute"
    clock.advance(1)
    setting.keys.end(made["sha256"], clock.now_ms() // 1000)
    assert local(made["key"]) is None


def test_the_development_key_needs_no_table(setting: Setting) -> None:
    local = KeyAuthorizer(
        keys=ApiKeys(setting.client, "absent"), clock=SystemClock(), development_key=digest_of("mc_mine")
    )
    context = local("mc_mine")
    assert (clubs_of(context), scopes_of(context)) == (ALL_CLUBS, ALL_SCOPES)
    with pytest.raises(Stop):
        local("mc_other")


def test_the_use_of_a_key_is_written_once_a_minute(setting: Setting) -> None:
    made = setting.create("--club", "1")
    written = [setting.keys.record_use(made["sha256"], NOW + seconds) for seconds in (0, 59, 60, 119, 120)]
    assert written == [True, False, True, False, True]


def test_the_authorizer_writes_the_use_once_a_minute(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    made = setting.create("--club", "1")
    for seconds, recorded in ((0, 0), (59, 0), (60, 60)):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: NOW + seconds)
        assert setting.ask(made["key"])[0] == "Allow"
        found = setting.keys.find(made["sha256"])
        assert found is not None
        assert found.last_used_at == NOW + recorded


def test_a_list_in_a_narrow_terminal_has_whole_ids(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_commands, "console", Terminal(width=80))
    made = [setting.create("--every-club", "--scope", "send", "--scope", "users:read") for _ in range(2)]
    listed = setting.run("list")
    assert all(each["id"] in listed for each in made)


def test_a_deleted_key_is_not_restored_by_its_use(setting: Setting) -> None:
    assert not setting.keys.record_use(digest_of("mc_a"), NOW)
    assert not setting.keys.end(digest_of("mc_a"), NOW)
    assert list(every_key(setting.keys)) == []


@pytest.mark.guarantee("audit.commands")
def test_commands_on_keys_are_in_the_audit_log(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry is in the log of each club of the key; no entry has the key."""
    monkeypatch.setenv("LOGNAME", "ada")
    made = setting.create("--club", "2", "--club", "1", "--scope", "send")
    second = json.loads(setting.run("rotate", made["id"], "--json"))
    setting.run("revoke", second["id"])
    setting.create("--every-club")
    logs = {
        club: [json.loads(line) for line in setting.masscomm("audit", *club, "--json").splitlines()]
        for club in ((), ("--club", "1"), ("--club", "2"), ("--club", "3"))
    }
    actions = {club: [each["action"] for each in entries] for club, entries in logs.items()}
    of_a_club = ["key.revoked", "key.rotated", "key.created"]
    assert list(actions.values()) == [["key.created"], of_a_club, of_a_club, []]
    last = logs["--club", "1"][0]
    assert (last["principal"], last["subject"], last["result"]) == ("operator:ada", second["id"], "ok")
    assert made["id"] in logs["--club", "1"][1]["detail"]
    assert not any(key["key"] in json.dumps(list(logs.values())) for key in (made, second))
    assert "key.rotated" in setting.masscomm("audit", "--club", "1")
