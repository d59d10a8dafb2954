"""MSK Connect and the clients of the metrics database connect by the rules that AWS documents."""

import ast
import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from infra.cdk.profiles import METRICS_READER, METRICS_WRITER, PROFILES
from local.devstack.config import ROOT
from local.devstack.services.connect import PROPERTIES as LOCAL_WORKER
from masscomm.kafka.topics import cdc_topics
from tests.support.cdk.templates import SynthesisedEnvironment, actions, flat, job_requests, role_statements, targets

# --- MSK Connect ------------------------------------------------------------------------------------------------------

# https://docs.aws.amazon.com/msk/latest/developerguide/msk-connect-supported-worker-config-properties.html
REQUIRED = {"key.converter", "value.converter"}
PRODUCER = {
    *("acks", "batch.size", "buffer.memory", "compression.type", "enable.idempotence", "key.serializer", "linger.ms"),
    *("max.request.size", "metadata.max.age.ms", "metadata.max.idle.ms", "partitioner.class"),
    *("reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.ms"),
    "value.serializer",
}
CONSUMER = {
    *("allow.auto.create.topics", "auto.offset.reset", "check.crcs", "fetch.max.bytes", "fetch.max.wait.ms"),
    *("fetch.min.bytes", "heartbeat.interval.ms", "key.deserializer", "max.partition.fetch.bytes"),
    *("max.poll.interval.ms", "max.poll.records", "metadata.max.age.ms", "partition.assignment.strategy"),
    *("reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.ms"),
    *("session.timeout.ms", "value.deserializer"),
}
REFUSED_PREFIXES = (
    *("access.control.", "admin.", "client.", "connect.", "inter.worker.", "internal.", "listeners.https."),
    *("metrics.", "rest.", "sasl.", "security.", "socket.", "ssl.", "topic.tracking.", "worker."),
)
REFUSED = {
    *("bootstrap.servers", "config.storage.topic", "connections.max.idle.ms"),
    *("connector.client.config.override.policy", "group.id", "listeners", "metric.reporters", "plugin.path"),
    *("receive.buffer.bytes", "response.http.headers.config", "scheduled.rebalance.max.delay.ms"),
    *("send.buffer.bytes", "status.storage.topic"),
}


def unsupported(names: set[str]) -> set[str]:
    """The properties that MSK Connect rejects in a worker's configuration."""
    found = {name for name in names if name in REFUSED or name.startswith(REFUSED_PREFIXES)}
    for prefix, known in (("producer.", PRODUCER), ("consumer.", CONSUMER)):
        found |= {name for name in names if name.startswith(prefix) and name.removeprefix(prefix) not in known}
    # Logging properties have no effect in a worker's configuration.
    return found | {name for name in names if name.startswith(("log4j.", "log4j2."))}


def _properties(text: str) -> dict[str, str]:
    lines = [line.strip() for line in text.splitlines()]
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_the_worker_has_only_properties_msk_connect_takes(prod: SynthesisedEnvironment) -> None:
    (worker,) = prod.resources("AWS::KafkaConnect::WorkerConfiguration")
    found = _properties(base64.b64decode(worker.properties["PropertiesFileContent"]).decode())
    assert found.keys() >= REQUIRED
    assert unsupported(set(found)) == set()


@pytest.mark.parametrize(
    "name", ["connector.client.config.override.policy", "producer.max.block.ms", "admin.retries", "group.id"]
)
def test_an_unsupported_worker_property_is_found(name: str) -> None:
    assert unsupported({name, "producer.linger.ms"}) == {name}


def test_a_connector_overrides_no_client(prod: SynthesisedEnvironment) -> None:
    """A connector that overrides client settings needs a client configuration policy, which MSK Connect rejects."""
    (connector,) = prod.resources("AWS::KafkaConnect::Connector")
    configuration = connector.properties["ConnectorConfiguration"]
    assert [name for name in configuration if re.match(r"(producer|consumer|admin)\.override\.", name)] == []


def test_connect_sends_changes_without_batching_delay(prod: SynthesisedEnvironment) -> None:
    (worker,) = prod.resources("AWS::KafkaConnect::WorkerConfiguration")
    deployed = _properties(base64.b64decode(worker.properties["PropertiesFileContent"]).decode())
    assert deployed["producer.linger.ms"] == _properties(LOCAL_WORKER)["producer.linger.ms"] == "0"


def test_connect_takes_the_largest_record_of_its_topics(prod: SynthesisedEnvironment) -> None:
    """Otherwise the task would end at a large row, and each restart of it."""
    (worker,) = prod.resources("AWS::KafkaConnect::WorkerConfiguration")
    deployed = _properties(base64.b64decode(worker.properties["PropertiesFileContent"]).decode())
    (size,) = {topic.max_message_bytes for topic in cdc_topics("any")}
    assert deployed["producer.max.request.size"] == str(size)


# --- the metrics database ---------------------------------------------------------------------------------------------


def _urls(environment: SynthesisedEnvironment) -> dict[str, str]:
    """Return METRICS_DATABASE_URL by client; a reference is its text in braces."""
    found = {}
    for function in environment.resources("AWS::Lambda::Function"):
        variables = function.properties.get("Environment", {}).get("Variables", {})
        if "METRICS_DATABASE_URL" in variables:
            found[str(function.properties["FunctionName"])] = flat(variables["METRICS_DATABASE_URL"])
    for parameter in job_requests(environment):
        request = flat(parameter.properties["Value"])
        if not str(parameter.properties["Name"]).endswith("/events-job"):
            (found["job"],) = set(re.findall(r"METRICS_DATABASE_URL=(\S+)", request))
    return found


_READERS = {"metrics_handler", "metrics_stream", "sends_api", "sends_stream", "operations_handler", "webhook_events"}


def test_functions_connect_through_the_proxy_the_job_directly(prod: SynthesisedEnvironment) -> None:
    """RDS Proxy pins a session that uses COPY or temporary tables to a connection, so the job gains nothing from it.

    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/rds-proxy-pinning.html
    """
    urls = _urls(prod)
    functions = {f"masscomm-{prod.name}-{name}" for name in _READERS}
    assert urls.keys() == {*functions, "job"}
    for name, url in urls.items():
        user, _, address = url.partition("//")[2].partition("@")
        if name == "job":
            assert (user, ".Endpoint.Address" in address or "EndpointAddress" in address) == (METRICS_WRITER, True), url
            assert "proxy" not in address, url
        else:
            assert (user, "proxy" in address) == (METRICS_READER, True), url


def test_no_connection_string_has_start_up_options(synthesised: dict[str, SynthesisedEnvironment]) -> None:
    """RDS Proxy refuses start-up options: "Feature not supported: RDS Proxy currently doesn't support command-line
    options."

    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/rds-proxy.troubleshooting.html
    """
    found = [url for environment in synthesised.values() for url in _urls(environment).values()]
    assert found
    for url in found:
        # Parameters of libpq that are not sent in the start-up message.
        assert parse_qs(urlsplit(url).query).keys() <= {"sslmode", "sslrootcert", "passfile", "connect_timeout"}, url


def _connections() -> Iterator[tuple[Path, ast.Call]]:
    for folder in ("masscomm", "functions", "spark_events", "spark_metrics", "ops", "infra"):
        for path in (ROOT / folder).rglob("*.py"):
            if "node_modules" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in _CONNECTING:
                    yield path, node


_CONNECTING = {"psycopg.connect", "ConnectionPool", "psycopg.Connection.connect", "psycopg.AsyncConnection.connect"}
# Allowed arguments of psycopg: they send no start-up parameter that RDS Proxy rejects.
_ARGUMENTS = {
    *(
        "connection_class",
        "autocommit",
        "connect_timeout",
        "application_name",
        "min_size",
        "max_size",
        "timeout",
        "reconnect_timeout",
    ),
    *("check", "configure", "kwargs", "open", "row_factory"),
}


def test_no_connection_is_made_with_start_up_options() -> None:
    """The settings of a session are set by role: schemas/tables/00_session.sql and ops/provisioning/database.py."""
    found = list(_connections())
    assert len(found) >= 4
    for path, call in found:
        named = {keyword.arg for keyword in call.keywords}
        for keyword in call.keywords:
            if keyword.arg == "kwargs":
                assert isinstance(keyword.value, ast.Dict), path
                named |= {ast.literal_eval(key) for key in keyword.value.keys if key is not None}
        assert named <= _ARGUMENTS, f"{path}: {named - _ARGUMENTS}"


def test_the_proxy_may_sign_in_as_each_of_its_users(prod: SynthesisedEnvironment) -> None:
    """With end-to-end IAM authentication the proxy's role needs rds-db:connect on the instance for each user.

    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/rds-proxy-iam-setup.html
    """
    (proxy,) = prod.resources("AWS::RDS::DBProxy")
    assert proxy.properties["DefaultAuthScheme"] == "IAM_AUTH"
    # With IAM authentication the proxy needs no secret for a user, and no permission to decrypt one.
    assert "Auth" not in proxy.properties
    role = proxy.properties["RoleArn"]["Fn::GetAtt"][0]
    may = _sign_ins(prod)["data", role]
    users = {profile.database for profile in PROFILES.values() if profile.database}
    assert {target.rpartition("/")[2] for target in may} == users
    (instance,) = [each for each in prod.resources("AWS::RDS::DBInstance") if each.properties["DBName"] == "metrics"]
    assert all(f"{{{instance.id}.DbiResourceId}}" in target for target in may)
    assert instance.properties["EnableIAMDatabaseAuthentication"] is True


def _sign_ins(environment: SynthesisedEnvironment) -> dict[tuple[str, str], set[str]]:
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for policy, statement in role_statements(environment):
        if "rds-db:connect" in actions(statement):
            for role in policy.properties["Roles"]:
                found[policy.stack, flat(role).strip("{}")] |= targets(statement)
    return found


def test_callers_may_sign_in_only_at_their_endpoint(prod: SynthesisedEnvironment) -> None:
    """Functions connect with the proxy's id, the job with the instance's, and each with its own user only.

    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/UsingWithRDS.IAMDBAuth.IAMPolicy.html
    """
    by_stack: defaultdict[str, set[str]] = defaultdict(set)
    for (stack, _), found in _sign_ins(prod).items():
        by_stack[stack] |= found
    assert by_stack.keys() == {"data", "functions", "metrics"}
    assert {target.rpartition("/")[2] for target in by_stack["functions"]} == {METRICS_READER}
    assert all("proxy" in target for target in by_stack["functions"])
    assert {target.rpartition("/")[2] for target in by_stack["metrics"]} == {METRICS_WRITER}
    assert all("DbiResourceId" in target for target in by_stack["metrics"])


def test_the_job_reaches_the_database_and_no_proxy(prod: SynthesisedEnvironment) -> None:
    groups: dict[str, str] = {}
    for group in prod.resources("AWS::EC2::SecurityGroup"):
        groups[group.id] = str(group.properties["GroupDescription"]).rpartition(" ")[2]
    flows: set[tuple[str, str]] = set()
    for rule in prod.resources("AWS::EC2::SecurityGroupIngress"):
        ends: list[Any] = [rule.properties.get("SourceSecurityGroupId"), rule.properties.get("GroupId")]
        names = [next((name for id, name in groups.items() if id in json.dumps(end)), "") for end in ends]
        flows.add((names[0], names[1]))
    assert ("spark", "database") in flows
    assert ("spark", "proxy") not in flows
    assert ("proxy", "database") in flows
