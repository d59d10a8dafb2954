"""The schema registry accepts writes from provisioning alone, and signs in to its database as a user of its own."""

import ast
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from examples.monolith.emit import Emitter
from infra.cdk.examples import ENVIRONMENTS
from local.devstack.config import ROOT
from masscomm.errors import MasscommError
from masscomm.kafka.avro import KNOWN_SUBJECT, HttpSchemaRegistry, own_schema
from masscomm.kafka.topics import chain_topics
from ops.provisioning.registry import register_schemas, unregistered
from spark_metrics.counting.writers import registered_ids
from tests.support.cdk.templates import (
    SynthesisedEnvironment,
    actions,
    as_list,
    flat,
    role_statements,
    targets,
    task_definition,
)
from tests.support.servers.registry_server import ConfluentRegistry, serving

API = "/apis/ccompat/v7"


class Listener:
    """A listener of the registry's load balancer, and whether it passes on a request.

    Priorities do not matter, because each rule passes its requests on.
    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-condition-types.html
    """

    def __init__(self, environment: SynthesisedEnvironment, port: int) -> None:
        (self.listener,) = [
            each
            for each in environment.resources("AWS::ElasticLoadBalancingV2::Listener")
            if each.properties["Port"] == port
        ]
        self.rules = [
            each.properties
            for each in environment.resources("AWS::ElasticLoadBalancingV2::ListenerRule")
            if each.properties["ListenerArn"] == {"Ref": self.listener.id}
        ]

    def passes(self, request: str) -> bool:
        """Return whether it passes on a request, as `METHOD PATH`."""
        (default,) = self.listener.properties["DefaultActions"]
        assert all([each["Type"] for each in rule["Actions"]] == ["forward"] for rule in self.rules)
        method, _, target = request.partition(" ")
        path = target.partition("?")[0]
        return default["Type"] == "forward" or any(
            method in methods and any(_matches(pattern, path) for pattern in paths)
            for methods, paths in map(conditions, self.rules)
        )


def conditions(rule: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the methods and the paths that a rule names. It must have these two conditions."""
    found = {each["Field"]: each for each in rule["Conditions"]}
    assert found.keys() == {"http-request-method", "path-pattern"}
    methods: list[str] = found["http-request-method"]["HttpRequestMethodConfig"]["Values"]
    paths: list[str] = found["path-pattern"]["PathPatternConfig"]["Values"]
    return methods, paths


def _matches(pattern: str, path: str) -> bool:
    text = "".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in pattern)
    return re.fullmatch(text, path, re.DOTALL) is not None


@pytest.fixture
def reads(environment: SynthesisedEnvironment) -> Listener:
    return Listener(environment, 443)


def test_every_look_up_of_a_client_is_permitted(reads: Listener) -> None:
    """The functions, the jobs, the example of a producer and the check of provisioning only look up."""
    registry = ConfluentRegistry()
    topics = [topic for topic in chain_topics() if topic.schema is not None]
    for topic in topics:
        registry.register(topic.subject, own_schema(topic.schema or ""))
    with serving(registry) as server:
        url = server.url + API
        client = HttpSchemaRegistry(url)
        for topic in topics:
            client.id_of(topic.subject, own_schema(topic.schema or ""))
        client.schema_by_id(registry.subjects[KNOWN_SUBJECT])
        with pytest.raises(MasscommError):
            client.schema_by_id(10_000)
        registered_ids(HttpSchemaRegistry(url))
        assert unregistered(url, topics) == []
        with Emitter("127.0.0.1:9", url, logger=logging.getLogger("kafka")) as emitter:
            found = emitter._schema_id("send.monolith.critical-value")
        assert found == registry.subjects["send.monolith.critical-value"]
    assert len(server.requests) > 2 * len(topics)
    assert [request for request in server.requests if not reads.passes(request)] == []


@pytest.mark.guarantee("schema_registry.writes_are_refused")
def test_no_request_that_writes_is_permitted(reads: Listener) -> None:
    """Apicurio 2.6.13 registers a schema by some of the disguised paths, too."""
    with serving(lambda _method, _path, _body: (200, {}, b'{"id": 1}')) as server:
        register_schemas(server.url + API, [topic for topic in chain_topics() if topic.name == "outcome"])
    subject = f"{API}/subjects/{KNOWN_SUBJECT}"
    assert server.requests == [f"POST {subject}/versions", f"PUT {API}/config/{KNOWN_SUBJECT}"]
    paths = (
        *(f"{API}/config", f"{API}/mode/{KNOWN_SUBJECT}", f"{API}/subjects/other-value", "/apis/registry/v2/groups/a"),
        *(f"{subject}/", f"{subject}/versions/", f"{subject};x=1/versions", f"{subject}%2fversions"),
        *(f"{API}/subjects/x/../{KNOWN_SUBJECT}/versions", f"/apis/ccompat/v6/subjects/{KNOWN_SUBJECT}/versions"),
    )
    disguised = [f"{method} {path}" for method in ("POST", "PUT", "DELETE", "post", "get") for path in paths]
    others = [f"{method} {subject}" for method in ("PUT", "PATCH", "DELETE", "OPTIONS")]
    assert [request for request in (*server.requests, *disguised, *others) if reads.passes(request)] == []


def test_other_interfaces_of_the_registry_are_closed(reads: Listener) -> None:
    for path in ("/apis/registry/v2/admin/export", "/ui/", "/health/ready", "/", "/apis/ccompat/v70"):
        assert not reads.passes(f"GET {path}"), path


def test_rules_fit_the_limits_of_a_load_balancer(reads: Listener) -> None:
    """A condition has at most three values, and a rule five; a load balancer has 100 rules without a higher quota.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-update-rules.html
    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
    """
    for rule in reads.rules:
        methods, paths = conditions(rule)
        assert 1 <= len(paths) <= 3
        assert len(methods) + len(paths) <= 5
        assert all(len(path) <= 128 for path in paths)
        assert methods == ["GET"] or (methods == ["POST"] and not re.search(r"[*?%]", "".join(paths)))
    priorities = [rule["Priority"] for rule in reads.rules]
    assert len(set(priorities)) == len(priorities) <= 100
    (default,) = reads.listener.properties["DefaultActions"]
    assert (default["Type"], default["FixedResponseConfig"]["StatusCode"]) == ("fixed-response", "403")


def test_requests_cannot_be_hidden_in_others(environment: SynthesisedEnvironment) -> None:
    """https://docs.aws.amazon.com/elasticloadbalancing/latest/application/application-load-balancers.html"""
    (balancer,) = environment.resources("AWS::ElasticLoadBalancingV2::LoadBalancer")
    attributes = {each["Key"]: each["Value"] for each in balancer.properties["LoadBalancerAttributes"]}
    assert attributes["routing.http.desync_mitigation_mode"] == "strictest"
    assert attributes["routing.http.drop_invalid_header_fields.enabled"] == "true"


@pytest.mark.guarantee("schema_registry.writes_are_refused")
def test_only_provisioning_reaches_the_port_for_writes(environment: SynthesisedEnvironment) -> None:
    writes = Listener(environment, 8444)
    assert writes.passes(f"POST {API}/subjects/{KNOWN_SUBJECT}/versions")
    assert (writes.listener.properties["Protocol"], writes.rules) == ("HTTPS", [])
    (balancer,) = environment.resources("AWS::ElasticLoadBalancingV2::LoadBalancer")
    assert _admitted(environment, balancer.properties["SecurityGroups"]) == {
        *(("functions", 443), ("spark", 443), ("erasure", 443), ("operators", 443), ("10.0.0.0/16", 443)),
        ("provisioning", 8444),
    }
    (service,) = environment.resources("AWS::ECS::Service", "registry")
    tasks = service.properties["NetworkConfiguration"]["AwsvpcConfiguration"]["SecurityGroups"]
    assert _admitted(environment, tasks) == {("registry-balancer", 8443)}


def test_only_infra_provision_is_in_its_group(environment: SynthesisedEnvironment) -> None:
    """The group reaches the port for writes. Its tasks are started by a deployment or by the policy `provisioners`."""
    (group,) = [id for id, party in _parties(environment).items() if party == "provisioning"]
    users = {
        (resource.type, resource.stack)
        for resource in environment.resources()
        if not resource.type.startswith("AWS::EC2::SecurityGroup") and group in flat(resource.properties)
    }
    assert users == {
        ("Custom::Task", "registry"),
        ("Custom::Task", "provisioning"),
        ("AWS::SSM::Parameter", "provisioning"),
    }


def _parties(environment: SynthesisedEnvironment) -> dict[str, str]:
    """Return the party of each security group, by the group's logical id."""
    prefix = f"masscomm-{environment.name} "
    return {
        each.id: str(each.properties["GroupDescription"]).removeprefix(prefix)
        for each in environment.resources("AWS::EC2::SecurityGroup")
    }


def _admitted(environment: SynthesisedEnvironment, groups: Any) -> set[tuple[str, int]]:
    """Return (party, port) of everything that may connect to a resource with these security groups."""
    parties = _parties(environment)
    (group,) = [id for id in parties if any(f"{id}GroupId" in flat(each) for each in groups)]
    found = set()
    for resource in environment.resources("AWS::EC2::SecurityGroup"):
        for rule in resource.properties.get("SecurityGroupIngress", []) if resource.id == group else []:
            assert rule["FromPort"] == rule["ToPort"]
            found.add((rule["CidrIp"], rule["FromPort"]))
    for resource in environment.resources("AWS::EC2::SecurityGroupIngress"):
        rule = resource.properties
        if group in flat(rule["GroupId"]):
            (source,) = [party for id, party in parties.items() if id in flat(rule["SourceSecurityGroupId"])]
            assert rule["FromPort"] == rule["ToPort"]
            found.add((source, rule["FromPort"]))
    return found


def test_the_registry_reads_the_secret_of_its_own_user(environment: SynthesisedEnvironment) -> None:
    """RDS stores the administrator's password in a secret of its own, which no role of the registry may read.

    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/rds-secrets-manager.html
    """
    (secret,) = [
        each
        for each in environment.resources("AWS::SecretsManager::Secret")
        if each.properties["Name"] == ENVIRONMENTS[environment.name].registry_secret
    ]
    assert secret.stack == "network"
    task = task_definition(environment, "registry")
    read = {
        each["Name"]: flat(each["ValueFrom"])
        for container in task.properties["ContainerDefinitions"]
        for each in container["Secrets"]
    }
    assert {name.rpartition("_")[2]: address.partition("}")[2] for name, address in read.items()} == {
        "USERNAME": ":username::",
        "PASSWORD": ":password::",
    }
    assert all(secret.id in address for address in read.values())
    roles = {flat(task.properties[name]).strip("{}").partition(".")[0] for name in ("ExecutionRoleArn", "TaskRoleArn")}
    granted = {
        target
        for resource, statement in role_statements(environment)
        if resource.stack == task.stack
        and roles & {flat(each).strip("{}") for each in as_list(resource.properties.get("Roles", []))}
        for target in targets(statement)
        if any(each.startswith("secretsmanager:") for each in actions(statement))
    }
    assert len(granted) == 1
    assert secret.id in granted.pop()


def test_provisioner_alone_reads_administrators_secrets(environment: SynthesisedEnvironment) -> None:
    """The tasks get the secrets' ARNs; the passwords are in no template."""
    readers = {
        flat(role).partition("OutputRef")[2][:11]
        for policy, statement in role_statements(environment)
        if any("MasterUserSecret" in target for target in targets(statement))
        for role in policy.properties["Roles"]
    }
    assert readers == {"provisioner"}


def test_registry_starts_once_its_user_exists(environment: SynthesisedEnvironment) -> None:
    """Its tasks end without their database user, and the circuit breaker then ends the deployment.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/deployment-circuit-breaker.html
    """
    (service,) = environment.resources("AWS::ECS::Service", "registry")
    assert service.properties["DeploymentConfiguration"]["DeploymentCircuitBreaker"]["Enable"]
    (run,) = [each for each in environment.resources("Custom::Task") if each.stack == "registry"]
    assert run.id in service.attributes["DependsOn"]
    for database in environment.resources("AWS::RDS::DBInstance", "registry"):
        assert database.id in run.attributes["DependsOn"]


# A request that registers a schema, and clients that register the schemas that they use.
_REGISTERS = re.compile(r"/versions[\"'?]|auto\.register|use\.latest\.version|SchemaRegistryClient|register_schema\b")
_JOBS = ("spark_events", "spark_metrics", "ops/erasure")
_CLIENTS = ("masscomm", "functions", *_JOBS, "examples", "sdk", "cli", "local", "infra")


def registering(source: str) -> list[str]:
    """Return the calls in a module that may register a schema."""
    if not re.search("version|register|SchemaRegistryClient", source):
        return []  # Parsing takes most of the time, and few modules have one of the words.
    return [
        text
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and _REGISTERS.search(text := ast.unparse(node))
        and re.search(r"\bpost\b|[\"'](POST|PUT)[\"']|auto|latest\.version|SchemaRegistryClient|register_schema", text)
    ]


def _modules() -> Iterator[tuple[str, str]]:
    for room in _CLIENTS:
        for folder, inner, names in (ROOT / room).walk():
            inner[:] = [name for name in inner if name not in ("node_modules", "package", "__pycache__")]
            for name in names:
                if name.endswith(".py"):
                    path = folder / name
                    yield str(path.relative_to(ROOT)), path.read_text()


def test_no_client_registers_a_schema() -> None:
    """A path of the code that registered a schema would work on one machine, and be refused in AWS."""
    assert {path: found for path, source in _modules() if (found := registering(source))} == {}


@pytest.mark.parametrize(
    "source",
    [
        'httpx.post(f"{url}/subjects/{subject}/versions", json=body)',
        'pool.request("POST", url + f"/subjects/{subject}/versions?normalize=true")',
        'AvroSerializer(client, schema, conf={"auto.register.schemas": True})',
        "SchemaRegistryClient({'url': url})",
    ],
)
def test_code_that_registers_a_schema_is_found(source: str) -> None:
    assert registering(source)


def test_reading_the_versions_registers_nothing() -> None:
    assert registering('pool.request("GET", f"{url}/subjects/{subject}/versions")') == []
