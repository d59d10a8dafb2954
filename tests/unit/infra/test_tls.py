"""Every connection string, setting and client that encrypts also verifies the server.

Amazon RDS user guide, "Using SSL/TLS to encrypt a connection": verify-full compares certificate and host; `require`
accepts any certificate. Amazon MSK developer guide, "Encryption": brokers are reached by TLS alone.
"""

import ast
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from infra.cdk.examples import ENVIRONMENTS
from infra.cdk.resources.authorities import ONE_AUTHORITY, rds_authority
from local.devstack.config import ROOT
from masscomm.aws import authentication
from masscomm.kafka import topics
from schemas import read_text
from tests.support.cdk.templates import SynthesisedEnvironment, flat, task_definition

# Settings that disable verification in libpq, pgjdbc, librdkafka, Java, urllib3, requests, httpx and ssl.
UNVERIFIED = re.compile(
    r"sslmode=(?!verify-full)\w"
    r"|NonValidatingFactory|trust_?all|insecure_?skip"
    r"|ssl\.endpoint\.identification\.algorithm[\"']?[ ]*[:=][ ]*(?:[\"'](?:none)?[\"']|none\b|$)"
    r"|enable\.ssl\.certificate\.verification[\"']?\s*[:=]\s*[\"']?false"
    r"|security\.protocol[\"']?\s*[:=]\s*[\"']?(?:SASL_)?PLAINTEXT"
    r"|CERT_NONE|CERT_OPTIONAL|_create_unverified_context|check_hostname\s*=\s*False"
    r"|verify_certs[\"']?\s*[:=]\s*[\"']?False|assert_hostname\s*=\s*False|verify[\"']?\s*[:=]\s*False\b"
    r"|InsecureRequestWarning",
    re.IGNORECASE | re.MULTILINE,
)


def _strings(value: Any) -> Iterator[str]:
    """Yield each text in a template; an Fn::Join is one text."""
    if isinstance(value, dict):
        if "Fn::Join" in value:
            yield flat(value)
        for name, inner in value.items():
            if isinstance(inner, str | int | bool):
                yield f"{name}={inner}"
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
    elif isinstance(value, str):
        yield value


def test_no_template_has_an_unverified_connection(environment: SynthesisedEnvironment) -> None:
    strings = [text for template in environment.templates().values() for text in _strings(template)]
    assert any("sslmode=verify-full" in text for text in strings)
    assert [text for text in strings if UNVERIFIED.search(text)] == []


def test_every_server_address_uses_tls(environment: SynthesisedEnvironment) -> None:
    found = [
        (name, flat(address))
        for function in environment.resources("AWS::Lambda::Function")
        for name, address in function.properties.get("Environment", {}).get("Variables", {}).items()
        if name.endswith("_URL")
    ]
    assert {name for name, _ in found} >= {"OPENSEARCH_URL", "SCHEMA_REGISTRY_URL", "METRICS_DATABASE_URL"}
    for name, address in found:
        assert address.startswith("https://") or "sslmode=verify-full" in address, (name, address)


def test_the_connector_verifies_the_monoliths_database(prod: SynthesisedEnvironment) -> None:
    """The connector's worker has no files of ours: the authority is a field of the secret."""
    (connector,) = prod.resources("AWS::KafkaConnect::Connector")
    configuration = connector.properties["ConnectorConfiguration"]
    assert configuration["database.sslmode"] == "verify-full"
    assert configuration["database.sslfactory"] == ONE_AUTHORITY
    assert configuration["driver.sslfactoryarg"].endswith(":ca}")


def test_the_registry_verifies_its_database(environment: SynthesisedEnvironment) -> None:
    """The schema registry trusts the certificate authority that the template sets for its database."""
    task = task_definition(environment, "registry")
    variables = {
        each["Name"]: flat(each["Value"])
        for container in task.properties["ContainerDefinitions"]
        for each in container.get("Environment", [])
    }
    url = variables["REGISTRY_DATASOURCE_URL"]
    assert url.endswith(f"?sslmode=verify-full&sslfactory={ONE_AUTHORITY}&sslfactoryarg=env:DATABASE_AUTHORITY")
    region = ENVIRONMENTS[environment.name].region
    assert variables["DATABASE_AUTHORITY"] == rds_authority(region)
    authorities = {each.properties["CACertificateIdentifier"] for each in environment.resources("AWS::RDS::DBInstance")}
    assert authorities == {"rds-ca-rsa2048-g1"}


@pytest.mark.parametrize("region", sorted({each.region for each in ENVIRONMENTS.values()}))
def test_certificate_authorities_of_each_region_exist(region: str) -> None:
    """The bundle has all certificate authorities of each region.

    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/UsingWithRDS.SSL.html
    """
    text = read_text("certificates/postgres.pem")
    for kind in ("RSA2048", "RSA4096", "ECC384"):
        assert f"# Amazon RDS {region} Root CA {kind} G1\n" in text
    found = x509.load_pem_x509_certificates(text.encode())
    names = [str(each.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value) for each in found]
    assert names == re.findall(r"^# (Amazon R.*\d)$", text, re.MULTILINE)
    for each in found:
        assert each.issuer == each.subject
        assert each.not_valid_after_utc > datetime.now(UTC) + timedelta(days=365)
    (one,) = x509.load_pem_x509_certificates(rds_authority(region).encode())
    assert f"{region} Root CA RSA2048 G1" in str(one.subject.rfc4514_string())


_JOBS = ("spark_events", "spark_metrics")
_ROOMS = ("masscomm", "functions", *_JOBS, "ops", "infra", "cli", "local/devstack", "examples")


def _code() -> Iterator[tuple[Path, str]]:
    for room in _ROOMS:
        for folder, inner, names in (ROOT / room).walk():
            inner[:] = [name for name in inner if name not in ("node_modules", "package", "__pycache__")]
            for name in sorted(names):
                if name.endswith((".py", ".java", ".yaml", ".properties")):
                    path = folder / name
                    yield path.relative_to(ROOT), path.read_text()


# Local servers use plain text on the loopback address.
_LOCAL = re.compile(r"listener\.security\.protocol\.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT")


def test_no_code_turns_verification_off() -> None:
    found = [f"{path}: {hit[0]}" for path, text in _code() for hit in [UNVERIFIED.search(_LOCAL.sub("", text))] if hit]
    assert found == []


# Functions that open a connection to Postgres, and functions whose returned address requires verification.
_CONNECTING = {
    *("psycopg.connect", "psycopg.Connection.connect", "psycopg.AsyncConnection.connect"),
    *("ConnectionPool", "psycopg_pool.ConnectionPool", "connection_pool"),
}
_VERIFIED = {"address_now", "database_url"}
# Module with a function that passes its own argument on: the test examines the calls of that function instead.
_PASSED_ON = {"masscomm/stores/metrics_database.py": "connection_pool"}


def test_every_connection_to_the_metrics_database_is_verified() -> None:
    """Each connection's address comes from a function that requires verify-full."""
    assert set(_PASSED_ON.values()) <= _CONNECTING
    found = set()
    for path, text in _code():
        served = ("functions/", "masscomm/", "spark_events/", "spark_metrics/", "ops/erasure/")
        if not str(path).startswith(served) or path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module == "psycopg":
                assert "connect" not in {each.name for each in node.names}, path
            if not isinstance(node, ast.Call) or ast.unparse(node.func) not in _CONNECTING:
                continue
            found.add(str(path))
            address = node.args[0]
            if str(path) not in _PASSED_ON:
                assert isinstance(address, ast.Call), path
                assert ast.unparse(address.func) in _VERIFIED, path
    assert found == {
        *("functions/webhook_events/handler.py", "masscomm/stores/metrics/postgres.py"),
        *("masscomm/stores/metrics_database.py", "spark_metrics/common/database.py"),
    }


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u@h/d?sslmode=require",
        "jdbc:postgresql://h/d?ssl=true&sslmode=prefer",
        "database.sslmode=require",
        'database.sslfactory": "org.postgresql.ssl.NonValidatingFactory"',
        '"ssl.endpoint.identification.algorithm": ""',
        "kafka.ssl.endpoint.identification.algorithm=",
        '"enable.ssl.certificate.verification": False',
        "kafka.security.protocol=SASL_PLAINTEXT",
        "httpx.get(url, verify=False)",
        "context.check_hostname = False",
    ],
)
def test_an_unverified_mode_is_found(text: str) -> None:
    assert UNVERIFIED.search(text)


def test_kafkas_clients_compare_the_brokers_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_AUTHENTICATION", "aws_msk_iam")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    ours, sparks = authentication.kafka_client_config(), authentication.spark_kafka_options(topics.SPARK_GROUP)
    assert (ours["security.protocol"], sparks["kafka.security.protocol"]) == ("SASL_SSL", "SASL_SSL")
    assert ours["ssl.endpoint.identification.algorithm"] == "https"
    assert sparks["kafka.ssl.endpoint.identification.algorithm"] == "https"
    assert ours["enable.ssl.certificate.verification"] is True
    assert not UNVERIFIED.search(json.dumps({**ours, "oauth_cb": ""}) + json.dumps(sparks))
