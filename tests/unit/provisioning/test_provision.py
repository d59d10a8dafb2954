import json
import re
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from infra import provision
from infra.provision import (
    MONOLITH_FIELDS,
    administrator_url,
    check_monolith,
    provisioning_steps,
)
from local.devstack.config import ROOT
from masscomm.kafka.avro import own_schema
from masscomm.kafka.topics import chain_topics
from ops.provisioning import ProvisioningError
from ops.provisioning.registry import register_schemas, unregistered
from ops.provisioning.steps import Step
from tests.support.servers.registry_server import ConfluentRegistry, serving

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
    secret = json.dumps({"username": "administrator", "password": "a/b@c:d"})
    client = Client(get_secret_value={"SecretString": secret})
    url = administrator_url(lambda _: client, "postgresql://metrics.example:5432/metrics", "arn:secret")
    assert url.startswith("postgresql://administrator:a%2Fb%40c%3Ad@metrics.example:5432/metrics?")
    assert url.endswith("&sslmode=verify-full")
    assert client.calls == [{"SecretId": "arn:secret"}]


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
    monkeypatch.setattr("sys.argv", ["provision"])
    monkeypatch.setenv("CDC_GENERATION", "g1")
    monkeypatch.setenv("MONOLITH_SECRET", "masscomm/monolith")
    monkeypatch.setenv("CAPTURE", "masscomm-dev-eu-central-1")
    assert provision.main() == 1
    assert "ALTER SYSTEM SET wal_level = logical;" in capsys.readouterr().err
    monkeypatch.delenv("MONOLITH_SECRET")
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
        monkeypatch.setattr("sys.argv", ["provision", *arguments])
        assert provision.main() == status
        assert capsys.readouterr().out == text
    assert made == ["schemas"]


WITHOUT_SIGN_IN = {
    "SCHEMA_REGISTRY_URL": "http://registry",
    "OPENSEARCH_URL": "http://directory",
    "OPENSEARCH_AUTHENTICATION": "none",
    "CDC_GENERATION": "g1,g2",
    "METRICS_DATABASE_URL": "postgresql://metrics",
}
REGISTRY = {
    "REGISTRY_DATABASE_URL": "postgresql://registry.example:5432/registry",
    "REGISTRY_DATABASE_SECRET": "arn:administrator",
    "REGISTRY_USER_SECRET": "arn:user",
}


def steps_of(variables: dict[str, str], client: Any = None) -> list[Step]:
    return provisioning_steps(lambda _: client, variables, lambda _: pytest.fail("a request is signed"))


def test_steps_follow_the_variables_of_the_task() -> None:
    """On servers without sign-in, there are neither roles nor users."""
    names = [step.name for step in steps_of(WITHOUT_SIGN_IN)]
    assert names == ["schemas", "indices of g1", "indices of g2", "tables"]


def test_registrys_user_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry runs only with its user. A task with these variables alone runs before the registry exists."""
    client = Client(get_secret_value={"SecretString": json.dumps({"username": "registry", "password": "a"})})
    called: list[tuple[str, dict[str, str]]] = []

    def record(address: str, *_others: object, **user: str) -> list[str]:
        called.append((address, user))
        return []

    for name in ("outdated_registry_user", "create_registry_user"):
        monkeypatch.setattr(provision, name, record)
    assert [step.name for step in steps_of(WITHOUT_SIGN_IN | REGISTRY, client)][:2] == ["registry's user", "schemas"]
    (users,) = steps_of(REGISTRY, client)
    users.pending()
    users.run()
    (address, user), again = called
    assert again == (address, user)
    assert conninfo_to_dict(address)["host"] == "registry.example"
    assert user == {"user": "registry", "password": "a", "owner": "registry"}
    assert {call["SecretId"] for call in client.calls} == {"arn:administrator", "arn:user"}


def test_tables_are_not_changed_while_the_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployment provisions while an earlier version of the job may run, which writes the earlier form."""
    applied: list[str] = []
    pending = ["apply 05_new.sql"]
    monkeypatch.setattr(provision, "unapplied_tables", lambda _: pending)
    monkeypatch.setattr(provision, "apply_tables", applied.append)
    monkeypatch.setattr(provision, "create_users", lambda *_, **__: None)
    monkeypatch.setattr(provision, "create_database", lambda _: None)
    monkeypatch.setattr(provision, "job_runs", lambda _: True)
    client = Client(get_secret_value={"SecretString": json.dumps({"username": "administrator", "password": "a"})})
    variables = {"METRICS_DATABASE_URL": "postgresql://127.0.0.1/metrics", "METRICS_DATABASE_SECRET": "arn:secret"}
    (tables,) = steps_of(variables, client)
    with pytest.raises(ProvisioningError, match=r"metrics_job ENVIRONMENT stop"):
        tables.run()
    assert not applied
    pending.clear()
    tables.run()
    assert applied == ["postgresql://administrator:a@127.0.0.1/metrics"]


def test_schemas_are_registered_with_the_registrys_secret() -> None:
    secret = {"username": "masscomm", "password": "a"}
    client = Client(get_secret_value={"SecretString": json.dumps(secret)})
    registry = ConfluentRegistry()
    topic = next(topic for topic in chain_topics() if topic.schema)
    registry.register(topic.subject, own_schema(topic.schema or ""))
    with serving(registry) as server:
        server.sign_in = ("masscomm", "a")
        variables = {"SCHEMA_REGISTRY_URL": server.url, "SCHEMA_REGISTRY_SECRET_ARN": "arn:registry"}
        (schemas,) = steps_of(variables, client)
        assert f"register {topic.schema} under {topic.subject}" not in schemas.pending()
        with pytest.raises(ProvisioningError, match="401"):
            steps_of({"SCHEMA_REGISTRY_URL": server.url})[0].pending()
    assert client.calls == [{"SecretId": "arn:registry"}]


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
