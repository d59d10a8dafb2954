"""A deployed environment is checked with a key that ends with the check."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from infra import smoke
from infra.cdk.config import Environment
from infra.cdk.examples import DEV, SMALL
from infra.cdk.resources.tables import definitions
from masscomm.http.scopes import Scope
from masscomm.stores.api_keys.dynamodb import ApiKeys
from masscomm.stores.api_keys.port import ApiKey, digest_of, every_key
from tests.support.cdk.templates import SynthesisedEnvironment, actions, statements, targets

type Check = Callable[[Sequence[str], Mapping[str, str]], int]


URL = "https://api.club.org/live"
OUTPUTS = {"url": f"{URL}/", "plan": "plan1"}
# TransactWriteItems has no action of its own.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html
ACTIONS = {"TransactWriteItems": "PutItem"}


class Account:
    """An account with the API of an environment: boto3's clients, whose calls it answers; moto has the tables."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, outputs: Mapping[str, str] | None = None) -> None:
        self.outputs = OUTPUTS if outputs is None else outputs
        self.refused = ""
        # The digests in the usage plan, by the ids of API Gateway's keys.
        self.entries: dict[str, str] = {}
        # The actions and resources that IAM checks.
        self.calls: set[tuple[str, str]] = set()
        session: Any = boto3.Session("a", "a", region_name=DEV.region)
        session.events.register("before-call", self._call)
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", session)
        self.session = session

    def __call__(self, service: str) -> Any:
        return self.session.client(service)

    def _call(self, model: Any, params: Any, **_: Any) -> tuple[Any, Any] | None:
        service = model.service_model.service_name
        if service == "dynamodb":
            self.calls.add((f"dynamodb:{ACTIONS.get(model.name, model.name)}", ""))
            return None
        is_gateway = service == "apigateway"
        action = params["method"] if is_gateway else model.name
        self.calls.add((f"{service}:{action}", params["url_path"] if is_gateway else ""))
        if model.name == self.refused:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "of the fake"}}, model.name)
        body = params["body"] if isinstance(params["body"], dict) else json.loads(params["body"] or "{}")
        return SimpleNamespace(status_code=200), getattr(self, f"_{model.name}")(body, params["url_path"])

    def _DescribeStacks(self, *_: Any) -> dict[str, Any]:
        outputs = [{"OutputKey": name, "OutputValue": value} for name, value in self.outputs.items()]
        return {"Stacks": [{"Outputs": outputs}]}

    def _CreateApiKey(self, body: dict[str, Any], _: str) -> dict[str, Any]:
        self.entries["key1"] = body["value"]
        return {"id": "key1"}

    def _CreateUsagePlanKey(self, body: dict[str, Any], path: str) -> dict[str, Any]:
        assert (path, body["keyId"]) == ("/usageplans/plan1/keys", "key1")
        return {}

    def _DeleteApiKey(self, _: Any, path: str) -> dict[str, Any]:
        del self.entries[path.rpartition("/")[2]]
        return {}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    monkeypatch.delenv("MASSCOMM_API_KEY", raising=False)
    monkeypatch.setattr(httpx, "get", lambda *_, **__: SimpleNamespace(status_code=200))
    with mock_aws():
        dynamodb: Any = boto3.client("dynamodb", region_name=DEV.region)
        for environment in (DEV, SMALL):
            for name in ("api_keys", "audit_log"):
                table = definitions()[name]["table"] | {"TableName": f"{environment.prefix}-{name}"}
                dynamodb.create_table(**table)
        yield Account(monkeypatch)


def stored(account: Account) -> list[ApiKey]:
    return list(every_key(ApiKeys(account("dynamodb"), f"{DEV.prefix}-api_keys")))


def run(account: Account, check: Check = lambda *_: 0, environment: Environment = DEV, **given: Any) -> int:
    values: dict[str, Any] = {"club": 7, "url": None, "options": ["--user=42"], "pause": lambda _: None} | given
    return smoke.run(account, environment, check=check, **values)


def test_check_gets_the_address_and_a_key_that_ends_with_it(account: Account) -> None:
    def check(arguments: Sequence[str], variables: Mapping[str, str]) -> int:
        assert arguments == [f"--url={URL}", "--club=7", "--user=42"]
        digest = digest_of(variables["MASSCOMM_API_KEY"])
        [key] = stored(account)
        assert (key.digest, key.clubs, key.mode) == (digest, "7", "live")
        assert set(key.scopes.split()) == {
            Scope.SEND,
            Scope.SEND_CONTENT,
            Scope.READ,
            Scope.USERS_READ,
            Scope.OPERATE,
        }
        assert key.expires_at == key.created_at + smoke.KEY_S, "a killed run leaves a key that ends"
        assert account.entries == {"key1": digest}
        return 5

    assert run(account, check) == 5
    assert_no_key(account)


def assert_no_key(account: Account) -> None:
    assert [each.is_valid(time.time()) for each in stored(account)] == [False]
    assert account.entries == {}


@pytest.mark.parametrize("refused", ["CreateApiKey", "CreateUsagePlanKey", "DeleteApiKey"])
def test_key_of_a_refused_check_has_ended(account: Account, refused: str) -> None:
    account.refused = refused
    with pytest.raises(ClientError, match=refused):
        run(account)
    account.entries.pop("key1" if refused == "DeleteApiKey" else "", None)
    assert_no_key(account)


def test_key_of_a_failed_check_has_ended(account: Account) -> None:
    def fail(*_: Any) -> int:
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        run(account, fail)
    assert_no_key(account)


def test_given_key_and_address_are_used(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASSCOMM_API_KEY", "mc_mine")
    check = MagicMock(return_value=0)
    assert run(account, check, url="http://127.0.0.1/live") == 0
    assert check.call_args.args == (["--url=http://127.0.0.1/live", "--club=7", "--user=42"], {})
    assert stored(account) == []


def test_counts_of_a_job_in_intervals_are_awaited(account: Account) -> None:
    """A --timeout among the options comes later, so that it has precedence."""
    check = MagicMock(return_value=0)
    run(account, check, SMALL, options=["--timeout=9"])
    assert check.call_args.args[0] == [f"--url={URL}", "--club=7", "--timeout=1200", "--timeout=9"]


def test_absent_or_older_deployment_is_named(account: Account) -> None:
    account.outputs = {}
    with pytest.raises(smoke.SmokeError, match="masscomm-dev-api has no output plan, url"):
        run(account)
    account.refused = "DescribeStacks"
    with pytest.raises(smoke.SmokeError, match="masscomm-dev-api cannot be read"):
        run(account)


def test_check_begins_when_the_gateway_accepts_the_key(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([403, 403, 200])
    monkeypatch.setattr(httpx, "get", lambda *_, **__: SimpleNamespace(status_code=next(answers)))
    pauses: list[float] = []
    assert run(account, pause=pauses.append) == 0
    assert len(pauses) == 2


def test_key_that_the_gateway_refuses_is_an_error(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpx, "get", lambda *_, **__: SimpleNamespace(status_code=403))
    monkeypatch.setattr(smoke, "ACCEPTED_S", 0)
    with pytest.raises(smoke.SmokeError, match="has refused a new API key"):
        run(account)
    assert_no_key(account)


def test_policy_permits_the_calls_and_no_others(
    account: Account, synthesised: dict[str, SynthesisedEnvironment]
) -> None:
    run(account)
    policy = {
        (action, target)
        for resource, statement in statements(synthesised["small"], "AWS::IAM::ManagedPolicy")
        if resource.properties.get("ManagedPolicyName") == f"{SMALL.global_prefix}-smoke"
        for action in actions(statement)
        for target in targets(statement)
    }
    # Calls of DynamoDB need the key of the tables.
    permitted = {each for each in policy if not each[0].startswith("kms:")}
    assert {action for action, _ in account.calls} == {action for action, _ in permitted}
    paths = {(action, path) for action, path in account.calls if path}
    assert len(paths) == 3
    for action, path in paths:
        patterns = [target.rpartition("::")[2] for each, target in permitted if each == action]
        assert any(fnmatchcase(path, re.sub(r"\{\w+\}", "plan1", each)) for each in patterns), (action, path)
