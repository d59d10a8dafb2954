"""directory_state in AWS: functions that look up reach each of its tasks, and each task reads what it is fed from."""

import json
from dataclasses import replace
from typing import Any

import pytest

from directory_state.feed import fed_topics
from functions.catalogue import read_catalogue
from infra.cdk.config import DIRECTORY_STATE, DirectoryStateConfig
from infra.cdk.examples import EXISTING, PROD
from infra.cdk.profiles import CONNECT_OFFSETS_TOPIC, PROFILES, WITH_STATE
from infra.cdk.quotas import LOOKED_UP
from infra.cdk.resources.network import flows
from infra.packaging.contents import contents_of
from infra.provision import directory_users
from lab.capacity.costs import a_month
from lab.capacity.plan import Plan
from masscomm.kafka.topics import generations
from tests.support.cdk.templates import (
    Resource,
    SynthesisedEnvironment,
    actions,
    flat,
    role_statements,
    targets,
    task_definition,
)

CONFIG = DirectoryStateConfig(answers=True)


def _token(environment: SynthesisedEnvironment) -> Resource:
    (token,) = [
        each
        for each in environment.resources("AWS::SecretsManager::Secret")
        if each.properties.get("Name") == "masscomm-replacing/directory-state-token"
    ]
    return token


def test_functions_with_the_adapter_have_its_settings(replacing: SynthesisedEnvironment) -> None:
    """Any other function has neither the address nor the right to read the token."""
    looking_up = {
        entry.package
        for entry in read_catalogue(generation="g1")
        if "masscomm.directory.chosen" in contents_of(entry.package, entry.handler.rpartition(".")[0]).modules
    }
    assert {name for name, profile in PROFILES.items() if profile.looks_up} == looking_up
    token = _token(replacing)
    for function in replacing.resources("AWS::Lambda::Function", "functions"):
        name = function.properties.get("FunctionName", "").removeprefix("masscomm-replacing-")
        variables = function.properties.get("Environment", {}).get("Variables", {})
        package = next((e.package for e in read_catalogue(generation="any") if e.name == name), name)
        assert (variables.get("MASSCOMM_DIRECTORY") == "state") is (package in looking_up), name
        if package in looking_up:
            urls = [f"https://{PROD.registry.domain}:{port}" for port in CONFIG.ports]
            assert variables["DIRECTORY_STATE_URL"] == ",".join(urls)
            assert token.id in json.dumps(variables["DIRECTORY_STATE_TOKEN_SECRET_ARN"])


def test_token_is_read_by_its_callers_only(replacing: SynthesisedEnvironment) -> None:
    token = _token(replacing)
    readers = {
        str(role)
        for role, statement in role_statements(replacing)
        if "secretsmanager:GetSecretValue" in actions(statement) and token.id in json.dumps(statement["Resource"])
    }
    callers = [entry.name for entry in read_catalogue(generation="g1,g2") if PROFILES[entry.package].looks_up]
    assert len(readers) == len(callers) + 1, "and the role that starts the tasks"


def test_tasks_read_the_topics_of_the_store(replacing: SynthesisedEnvironment) -> None:
    read: set[str] = set()
    for role, statement in role_statements(replacing):
        if role.stack != "directory-state":
            continue
        assert not {"kafka-cluster:WriteData", "kafka-cluster:CreateTopic"} & actions(statement)
        if "kafka-cluster:ReadData" in actions(statement):
            read |= {target.rpartition("/")[2] for target in targets(statement)}
    assert read == {*fed_topics(generations("g1,g2")), CONNECT_OFFSETS_TOPIC}


def test_each_task_has_a_port_that_functions_reach(replacing: SynthesisedEnvironment) -> None:
    services = list(replacing.resources("AWS::ECS::Service", "directory-state"))
    groups = {
        each.id: each for each in replacing.resources("AWS::ElasticLoadBalancingV2::TargetGroup", "directory-state")
    }
    ports = {}
    for listener in replacing.resources("AWS::ElasticLoadBalancingV2::Listener", "directory-state"):
        assert listener.properties["Protocol"] == "HTTPS"
        (action,) = listener.properties["DefaultActions"]
        ports[listener.properties["Port"]] = action["TargetGroupArn"]["Ref"]
    assert len(services) == len(ports) == len(set(ports.values())) == CONFIG.tasks
    assert {group for service in services for group in _groups_of(service.properties)} == set(ports.values())
    for group in groups.values():
        assert (group.properties["Protocol"], group.properties["HealthCheckPath"]) == ("HTTPS", "/v1/health")
    permitted = flows(replace(PROD, directory_state=CONFIG))
    assert {
        port for source, to, port in permitted if (source, to) == ("functions", "registry-balancer")
    } >= ports.keys()
    assert ("registry-balancer", "directory-state", DIRECTORY_STATE) in permitted


def _groups_of(service: dict[str, Any]) -> list[str]:
    return [each["TargetGroupArn"]["Ref"] for each in service["LoadBalancers"]]


def test_tasks_are_replaced_one_after_the_other(replacing: SynthesisedEnvironment) -> None:
    first, second = replacing.resources("AWS::ECS::Service", "directory-state")
    assert first.id in second.attributes["DependsOn"]
    for service in (first, second):
        deployment = service.properties["DeploymentConfiguration"]
        assert (deployment["MinimumHealthyPercent"], deployment["MaximumPercent"]) == (0, 100)


def test_role_of_the_tasks_is_a_user_of_the_directory(replacing: SynthesisedEnvironment) -> None:
    (container,) = task_definition(replacing, "provisioner").properties["ContainerDefinitions"]
    variables = {each["Name"]: flat(each["Value"]) for each in container["Environment"]}
    users = directory_users(variables["ROLES"], with_state=WITH_STATE in variables)
    (user,) = [each for each in users if each.reads == ("directory_state",) and not each.writes]
    roles = {each.properties.get("RoleName") for each in replacing.resources("AWS::IAM::Role", "directory-state")}
    assert user.role_arn.rpartition("/")[2] in roles


def test_tasks_start_after_functions_and_capture(replacing: SynthesisedEnvironment) -> None:
    artifacts = replacing.manifest["artifacts"]
    before = set(artifacts["masscomm-replacing-directory-state"]["dependencies"])
    assert before >= {f"masscomm-replacing-{name}" for name in ("provisioning", "functions", "cdc")}


def test_token_is_no_variable_of_a_task(replacing: SynthesisedEnvironment) -> None:
    (container,) = task_definition(replacing, "directory-state").properties["ContainerDefinitions"]
    assert [each["Name"] for each in container["Secrets"]] == ["DIRECTORY_STATE_TOKEN"]
    variables = {each["Name"]: flat(each["Value"]) for each in container["Environment"]}
    assert "DIRECTORY_STATE_TOKEN" not in variables
    assert variables["DIRECTORY_STATE_CERTIFICATE"] == "self-signed"


@pytest.mark.parametrize(
    ("environment", "changed", "message"),
    [
        (EXISTING, {}, "own registry"),
        (PROD, {"directory_state": DirectoryStateConfig(tasks=1, answers=True)}, "at least 2"),
    ],
    ids=["organisation's registry", "one task"],
)
def test_unsafe_configuration_is_refused(environment: Any, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(environment, **{"directory_state": CONFIG, **changed})


def test_tasks_count_for_the_quota_of_fargate() -> None:
    used = LOOKED_UP["fargate"].used
    assert used(replace(PROD, directory_state=CONFIG)) == used(PROD) + CONFIG.tasks * CONFIG.cpu / 1024


def test_tasks_have_a_price() -> None:
    (cost,) = [
        each.dollars
        for each in a_month(Plan.of(replace(PROD, directory_state=CONFIG)))
        if each.component == "directory_state (Fargate)"
    ]
    assert cost > 0
    assert not [each for each in a_month(Plan.of(PROD)) if each.component == "directory_state (Fargate)"]
