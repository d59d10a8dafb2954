import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from psycopg.conninfo import conninfo_to_dict

from infra import provision
from infra.cdk.examples import ENVIRONMENTS
from infra.provision import (
    MONOLITH_FIELDS,
    administrator_url,
    check_monolith,
    deployed_functions,
    provisioning_steps,
)
from local.devstack.config import ROOT
from masscomm.kafka.topics import chain_topics
from ops.provisioning import ProvisioningError
from ops.provisioning.registry import register_schemas, unregistered
from ops.provisioning.steps import Step

SECRET = {
    "host": "db.example.org",
    "port": 5432,
    "dbname": "shop",
    "username": "masscomm",
    "password": "a b'c",
    "ca": "-----BEGIN CERTIFICATE-----",
}


class Client:
    """Fakes of boto3's clients, all in one object; calls: the arguments of each call."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers
        self.calls: list[dict[str, Any]] = []

    def __getattr__(self, operation: str) -> Any:
        def call(**arguments: Any) -> Any:
            self.calls.append(arguments)
            return self._answers[operation]

        return call


def test_administrator_connects_directly_with_rdss_password() -> None:
    instance = {
        "Endpoint": {"Address": "metrics.example", "Port": 5432},
        "DBName": "metrics",
        "MasterUserSecret": {"SecretArn": "arn:secret"},
    }
    secret = json.dumps({"username": "administrator", "password": "a/b@c:d"})
    client = Client(describe_db_instances={"DBInstances": [instance]}, get_secret_value={"SecretString": secret})
    url = administrator_url(lambda _: client, "masscomm-prod-metrics")
    assert url.startswith("postgresql://administrator:a%2Fb%40c%3Ad@metrics.example:5432/metrics?")
    assert url.endswith("&sslmode=verify-full")
    assert client.calls == [{"DBInstanceIdentifier": "masscomm-prod-metrics"}, {"SecretId": "arn:secret"}]


def test_addresses_and_roles_are_those_of_the_deployed_functions() -> None:
    settings = {"Environment": {"Variables": {"OPENSEARCH_URL": "https://directory"}}, "Role": "arn:role"}
    client = Client(get_function_configuration=settings)
    found = deployed_functions(lambda _: client, "masscomm-prod")
    assert {"FunctionName": "masscomm-prod-delivery-critical"} in client.calls
    assert found["cdc_consumer"].variables["OPENSEARCH_URL"] == "https://directory"
    assert found["cdc_consumer"].role_arn == "arn:role"


def test_monolith_is_checked_as_the_connector_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[tuple[dict[str, Any], str, str]] = []

    def require(url: str, generation: str, installation: str) -> None:
        assert installation == "masscomm-dev-eu-central-1"
        found = conninfo_to_dict(url)
        checked.append((found, generation, Path(str(found["sslrootcert"])).read_text()))

    monkeypatch.setattr(provision, "require_source", require)
    client = Client(get_secret_value={"SecretString": json.dumps(SECRET)})
    line = check_monolith(lambda _: client, "masscomm/monolith", ["g1", "g2"], "masscomm-dev-eu-central-1")
    assert "shop at db.example.org" in line
    assert [generation for _, generation, _ in checked] == ["g1", "g2"]
    for found, _, authority in checked:
        assert (found["user"], found["password"], found["dbname"]) == ("masscomm", "a b'c", "shop")
        assert found["sslmode"] == "verify-full"
        assert authority == SECRET["ca"]


def test_a_problem_of_the_monolith_stops_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The statements that repair it are printed; an environment on external servers has no connector to check for."""

    def differs(*_: str) -> None:
        raise ProvisioningError("wal_level is replica\n    ALTER SYSTEM SET wal_level = logical;")

    monkeypatch.setattr(provision, "require_source", differs)
    monkeypatch.setattr(provision, "provisioning_steps", lambda *_: [])
    client = Client(get_secret_value={"SecretString": json.dumps(SECRET)})
    monkeypatch.setattr("boto3.Session.client", lambda *_: client)
    monkeypatch.setattr("sys.argv", ["provision", "prod"])
    assert provision.main() == 1
    assert "ALTER SYSTEM SET wal_level = logical;" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["provision", "local"])
    assert provision.main() == 0


def test_a_check_ends_with_1_if_a_step_is_pending(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []
    steps = [
        Step(name="schemas", pending=lambda: [] if made else ["register"], run=lambda: made.append("schemas")),
        Step(name="tables", pending=list, run=lambda: made.append("tables")),
    ]
    monkeypatch.setattr(provision, "provisioning_steps", lambda *_: steps)
    for arguments, status, text in (
        (["--check"], 1, "schemas: would be done\n    register\ntables: not needed\n"),
        ([], 0, "schemas: done\n    register\ntables: not needed\n"),
        (["--check"], 0, "schemas: not needed\ntables: not needed\n"),
    ):
        monkeypatch.setattr("sys.argv", ["provision", "local", *arguments])
        assert provision.main() == status
        assert capsys.readouterr().out == text
    assert made == ["schemas"]


def test_steps_follow_the_deployed_functions() -> None:
    """On servers without sign-in, there are neither roles nor users."""
    variables = {
        "SCHEMA_REGISTRY_URL": "http://registry",
        "OPENSEARCH_URL": "http://directory",
        "OPENSEARCH_AUTHENTICATION": "none",
        "CDC_GENERATION": "g1,g2",
        "METRICS_DATABASE_URL": "postgresql://metrics",
        "METRICS_DATABASE_AUTHENTICATION": "none",
        "API_KEYS_TABLE": "masscomm-local-api_keys",
    }
    client = Client(get_function_configuration={"Environment": {"Variables": variables}, "Role": "arn:role"})
    steps = provisioning_steps(lambda _: client, "masscomm-local", lambda _: pytest.fail("a request is signed"), None)
    assert [step.name for step in steps] == ["schemas", "indices of g1", "indices of g2", "tables"]


def test_registrys_user_comes_first_and_schemas_by_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry runs only with its user, and refuses writes at the address of the functions."""
    prod = ENVIRONMENTS["prod"]
    variables = {
        "SCHEMA_REGISTRY_URL": prod.registry.url,
        "OPENSEARCH_URL": "https://directory",
        "OPENSEARCH_AUTHENTICATION": "none",
        "CDC_GENERATION": "g1",
        "METRICS_DATABASE_URL": "postgresql://metrics",
        "METRICS_DATABASE_AUTHENTICATION": "none",
        "API_KEYS_TABLE": "masscomm-prod-api_keys",
    }
    instance = {
        "Endpoint": {"Address": "registry.example", "Port": 5432},
        "DBName": "registry",
        "MasterUserSecret": {"SecretArn": "arn:administrator"},
    }
    client = Client(
        get_function_configuration={"Environment": {"Variables": variables}, "Role": "arn:role"},
        describe_db_instances={"DBInstances": [instance]},
        get_secret_value={"SecretString": json.dumps({"username": "registry", "password": "a"})},
    )
    called: list[tuple[Any, ...]] = []

    def record(address: str, *others: object, **user: str) -> list[str]:
        called.append((address, user))
        return []

    for name in ("outdated_registry_user", "create_registry_user", "unregistered", "register_schemas"):
        monkeypatch.setattr(provision, name, record)
    users, schemas, *_ = provisioning_steps(lambda _: client, "masscomm-prod", lambda _: pytest.fail("signed"), prod)
    assert (users.name, schemas.name) == ("registry's user", "schemas")
    for step in (users, schemas):
        step.pending()
        step.run()
    (address, user), again, *registry = called
    assert again == (address, user)
    assert conninfo_to_dict(address)["host"] == "registry.example"
    assert user == {"user": "registry", "password": "a"}
    assert registry == [("https://registry.masscomm.example:8444/apis/ccompat/v7", {})] * 2
    asked = [call for call in client.calls if "FunctionName" not in call]
    assert asked[0] == {"DBInstanceIdentifier": "masscomm-prod-registry"}
    assert asked[2] == {"SecretId": "masscomm-prod/registry-user"}


def _one(client: Any, _service: str) -> Any:
    return client


def test_database_that_is_being_created_is_named() -> None:
    for instances in ([{"DBInstanceStatus": "creating"}], None):
        client = boto3.client("rds", "eu-central-1", aws_access_key_id="a", aws_secret_access_key="a")
        with Stubber(client) as stub:
            if instances is None:
                stub.add_client_error("describe_db_instances", "DBInstanceNotFound")
            else:
                stub.add_response("describe_db_instances", {"DBInstances": instances})
            with pytest.raises(ProvisioningError, match="masscomm-prod-registry does not exist yet"):
                administrator_url(partial(_one, client), "masscomm-prod-registry")


def test_registry_that_does_not_answer_is_named() -> None:
    """During the first deployment, the registry has no task before its database user exists."""
    for call in (unregistered, register_schemas):
        with pytest.raises(ProvisioningError, match=r"registry at http://127\.0\.0\.1:9 does not answer"):
            call("http://127.0.0.1:9", chain_topics())


def test_a_field_that_the_secret_lacks_is_named() -> None:
    client = Client(get_secret_value={"SecretString": json.dumps(SECRET | {"ca": ""})})
    with pytest.raises(ProvisioningError, match="has no ca"):
        check_monolith(lambda _: client, "masscomm/monolith", ["g1"], "masscomm-dev-eu-central-1")


def test_the_connector_reads_the_same_fields_of_the_secret() -> None:
    assert set(
        re.findall(r'_secret\(secret, "(\w+)"\)', (ROOT / "infra/cdk/resources/connector.py").read_text())
    ) == set(MONOLITH_FIELDS)
