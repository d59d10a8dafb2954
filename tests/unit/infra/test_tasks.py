"""Tasks in the VPC: the custom resource that runs one in a deployment, and the command that runs one for an operator.

Each call and each answer is checked against botocore's model of the service.
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from infra import tasks
from infra.cdk.examples import ENVIRONMENTS
from infra.cdk.handlers import run_task
from infra.provision import directory_users
from local.devstack.config import ROOT
from tests.support.cdk.templates import (
    SynthesisedEnvironment,
    actions,
    flat,
    role_statements,
    targets,
    task_definition,
)

ARN = "arn:aws:ecs:eu-central-1:000000000000:task/masscomm-dev/a1"
CALLER = "arn:aws:sts::000000000000:assumed-role/Admin/ann@example.org"
NETWORK = {"awsvpcConfiguration": {"subnets": ["s"], "securityGroups": ["g"], "assignPublicIp": "DISABLED"}}
REQUEST = {"cluster": "masscomm-dev", "launchType": "FARGATE", "taskDefinition": "d", "networkConfiguration": NETWORK}
TASK = {"request": REQUEST, "log": {"group": "logs", "prefix": "provisioner/masscomm"}}
STREAM = {"logGroupName": "logs", "logStreamName": "provisioner/masscomm/a1"}
EVENT = {
    "RequestType": "Update",
    "RequestId": "r",
    "StackId": "s",
    "LogicalResourceId": "l",
    "ResponseURL": "https://answers",
    "ResourceProperties": {"Task": json.dumps(TASK)},
}


class Clients:
    """Stubbed clients by the names of their services; the answers are given in the order of the calls."""

    def __init__(self, exits: ExitStack) -> None:
        self._exits = exits
        self._known: dict[str, tuple[Any, Stubber]] = {}

    def __call__(self, service: str) -> Any:
        return self._of(service)[0]

    def _of(self, service: str) -> tuple[Any, Stubber]:
        if service not in self._known:
            client: Any = boto3.client(  # type: ignore[call-overload]
                service, "eu-central-1", aws_access_key_id="a", aws_secret_access_key="a"
            )
            self._known[service] = (client, self._exits.enter_context(Stubber(client)))
        return self._known[service]

    def answer(
        self, service: str, operation: str, answer: dict[str, Any], expected: dict[str, Any] | None = None
    ) -> None:
        self._of(service)[1].add_response(operation, answer, expected)

    def no_log(self) -> None:
        self._of("logs")[1].add_client_error("get_log_events", "ResourceNotFoundException")

    def started(self, **expected: Any) -> None:
        wanted = REQUEST | {"count": 1, "overrides": {}, "clientToken": ANY, "startedBy": ANY} | expected
        self.answer("ecs", "run_task", {"tasks": [{"taskArn": ARN}], "failures": []}, wanted)

    def state(self, status: str, **container: Any) -> None:
        found = {"lastStatus": status, "containers": [container], "stoppedReason": "it was stopped"}
        self.answer("ecs", "describe_tasks", {"tasks": [found]}, {"cluster": "masscomm-dev", "tasks": [ARN]})

    def lines(self, *lines: str, next: str, after: str | None = None, head: bool = True) -> None:
        answer = {"events": [{"message": each} for each in lines], "nextForwardToken": next}
        expected = STREAM | {"startFromHead": head} | ({"nextToken": after} if after else {})
        self.answer("logs", "get_log_events", answer, expected)

    def finish(self) -> None:
        for _, stubber in self._known.values():
            stubber.assert_no_pending_responses()


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    with ExitStack() as exits:
        made = Clients(exits)
        real = boto3.client
        for service in ("ecs", "logs", "lambda", "ssm", "sts"):
            made(service)
        monkeypatch.setattr(boto3, "client", made)
        monkeypatch.setattr("time.sleep", lambda _: None)
        yield made
        monkeypatch.setattr(boto3, "client", real)
        made.finish()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The answers to CloudFormation."""
    found: list[dict[str, Any]] = []

    class Answer:
        def close(self) -> None: ...

    def urlopen(request: Any, timeout: float) -> Answer:
        assert (request.full_url, request.get_method()) == ("https://answers", "PUT")
        found.append(json.loads(request.data))
        return Answer()

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return found


def context(*remaining_ms: int) -> Any:
    times = iter(remaining_ms)
    return SimpleNamespace(
        get_remaining_time_in_millis=lambda: next(times, 800_000), invoked_function_arn="arn:aws:lambda:function"
    )


def test_deployment_waits_for_the_tasks_end(clients: Clients, answers: list[dict[str, Any]]) -> None:
    """A repeated invocation has the same token, for which ECS starts one task."""
    clients.started(clientToken="r", startedBy="deployment")
    clients.answer("ecs", "describe_tasks", {"tasks": []})
    clients.state("PENDING")
    clients.state("STOPPED", exitCode=0)
    run_task.handler(EVENT, context())
    assert [(each["Status"], each["Reason"], each["RequestId"]) for each in answers] == [("SUCCESS", "", "r")]


def test_failed_task_fails_the_deployment_with_its_log(clients: Clients, answers: list[dict[str, Any]]) -> None:
    """CloudFormation accepts at most 4,096 bytes."""
    clients.started()
    clients.state("STOPPED", exitCode=1)
    clients.lines(*("x" * 300 for _ in range(30)), "wal_level is replica", next="n", head=False)
    run_task.handler(EVENT, context())
    (answer,) = answers
    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("The task ended with 1. ")
    assert answer["Reason"].endswith("wal_level is replica")
    assert len(json.dumps(answer)) < 4_096


def test_image_that_cannot_be_pulled_is_the_reason(clients: Clients, answers: list[dict[str, Any]]) -> None:
    clients.started()
    clients.state("STOPPED", reason="CannotPullContainerError")
    clients.no_log()
    run_task.handler(EVENT, context())
    assert [(each["Status"], "CannotPullContainerError" in each["Reason"]) for each in answers] == [("FAILED", True)]


def test_long_task_is_awaited_by_another_invocation(clients: Clients, answers: list[dict[str, Any]]) -> None:
    clients.started()
    clients.state("RUNNING")
    payload = json.dumps(EVENT | {"TaskArn": ARN}).encode()
    expected = {"FunctionName": "arn:aws:lambda:function", "InvocationType": "Event", "Payload": payload}
    clients.answer("lambda", "invoke", {"StatusCode": 202}, expected)
    run_task.handler(EVENT, context(19_000))
    assert answers == []
    clients.state("STOPPED", exitCode=0)
    run_task.handler(json.loads(payload), context())
    assert [each["Status"] for each in answers] == ["SUCCESS"]


def test_removal_runs_no_task(clients: Clients, answers: list[dict[str, Any]]) -> None:
    run_task.handler(EVENT | {"RequestType": "Delete"}, context())
    assert [each["Status"] for each in answers] == ["SUCCESS"]


def test_task_without_capacity_fails_the_deployment(clients: Clients, answers: list[dict[str, Any]]) -> None:
    clients.answer("ecs", "run_task", {"tasks": [], "failures": [{"reason": "RESOURCE:FARGATE"}]})
    run_task.handler(EVENT, context())
    assert [(each["Status"], "RESOURCE:FARGATE" in each["Reason"]) for each in answers] == [("FAILED", True)]


def test_operators_command_shows_the_log_and_status(clients: Clients) -> None:
    clients.answer(
        "ssm", "get_parameter", {"Parameter": {"Value": json.dumps(TASK)}}, {"Name": "/masscomm-dev/tasks/operator"}
    )
    clients.answer("sts", "get_caller_identity", {"Arn": CALLER})
    variables = [{"name": "MASSCOMM_OPERATOR", "value": CALLER}, {"name": "COLUMNS", "value": "100"}]
    override = {"name": "masscomm", "command": ["dead-letters", "list"], "environment": variables}
    clients.started(
        startedBy="000000000000-assumed-role/Admin/ann-example-org", overrides={"containerOverrides": [override]}
    )
    clients.no_log()
    clients.state("PENDING")
    clients.lines("2 dead letters", next="a")
    clients.lines(next="a", after="a")
    clients.state("STOPPED", exitCode=3)
    # The last line arrives with the end.
    clients.lines("the end", next="b", after="a")
    clients.lines(next="b", after="b")
    lines: list[str] = []
    status = tasks.run(
        clients,
        "masscomm-dev",
        "operator",
        ["dead-letters", "list"],
        report=lines.append,
        pause=lambda _: None,
        columns=100,
    )
    assert (status, lines) == ("3", ["2 dead letters", "the end"])


def statements_of(environment: SynthesisedEnvironment, role: str) -> list[dict[str, Any]]:
    """Return the statements of all policies of a role, by its construct id, which a logical id begins with."""
    found = []
    for policy, statement in role_statements(environment):
        roles = [flat(each).strip("{}").rpartition("OutputRef")[2] for each in policy.properties.get("Roles", [])]
        if any(re.fullmatch(rf"{role}[0-9A-F]+", each) for each in roles):
            found.append(statement)
    return found


def test_provisioner_has_the_permissions_of_its_steps(environment: SynthesisedEnvironment) -> None:
    """It calls no other service of AWS; registry and databases do not sign in by IAM."""
    found = statements_of(environment, "provisioner")
    assert set().union(*(actions(each) for each in found)) == {
        *(f"es:ESHttp{verb}" for verb in ("Delete", "Get", "Head", "Post", "Put")),
        "kms:Decrypt",
        "secretsmanager:GetSecretValue",
    }
    assert all(
        list(each["Condition"]["StringEquals"]) == ["kms:ViaService"]
        for each in found
        if "kms:Decrypt" in actions(each)
    )
    secrets = set().union(*(targets(each) for each in found if "secretsmanager:GetSecretValue" in actions(each)))
    variables = variables_of(environment, "provisioner")
    monolith = ENVIRONMENTS[environment.name].monolith.secret_name
    assert variables["MONOLITH_SECRET"] == monolith
    for name in ("METRICS_DATABASE_SECRET", "REGISTRY_DATABASE_SECRET", "REGISTRY_USER_SECRET"):
        assert variables[name] in secrets, name
    assert any(each.endswith(f":secret:{monolith}-??????") for each in secrets)


def variables_of(environment: SynthesisedEnvironment, name: str) -> dict[str, str]:
    (container,) = task_definition(environment, name).properties["ContainerDefinitions"]
    return {each["Name"]: flat(each["Value"]) for each in container["Environment"]}


@pytest.mark.parametrize("name", ["provisioner", "operator", "registry-user"])
def test_variables_are_those_that_the_command_reads(environment: SynthesisedEnvironment, name: str) -> None:
    """A variable without a reader is a mistake in its name."""
    readers = "".join(
        path.read_text()
        for folder in ("cli", "masscomm", "infra", "ops")
        for path in (ROOT / folder).rglob("*.py")
        if "infra/cdk/" not in path.as_posix()
    )
    ours = variables_of(environment, name).keys() - {"PYTHONPATH", "PYTHONUNBUFFERED"}
    unread = {each for each in ours if f'"{each}"' not in readers and not each.endswith("_TABLE")}
    assert unread == set()


def test_tasks_are_isolated_and_without_privileges(environment: SynthesisedEnvironment) -> None:
    for resource in environment.resources("Custom::Task"):
        request = flat(resource.properties["Task"])
        assert '"assignPublicIp": "DISABLED"' in request
    for name in ("provisioner", "operator", "registry-user"):
        properties = task_definition(environment, name).properties
        (container,) = properties["ContainerDefinitions"]
        assert (container["User"], properties["RuntimePlatform"]["CpuArchitecture"]) == ("65534", "ARM64")
        assert "Secrets" not in container
        assert container["EntryPoint"] == ["python", "-m", "cli.main"]


def test_roles_of_tasks_trust_this_account_alone(environment: SynthesisedEnvironment) -> None:
    """https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html"""
    for suffix in ("provisioner", "operator"):
        (role,) = [
            each
            for each in environment.resources("AWS::IAM::Role")
            if each.properties.get("RoleName") == f"{ENVIRONMENTS[environment.name].global_prefix}-{suffix}"
        ]
        (statement,) = role.properties["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Principal"] == {"Service": "ecs-tasks.amazonaws.com"}
        assert statement["Condition"].keys() == {"StringEquals", "ArnLike"}


def test_operator_reads_no_api_key(environment: SynthesisedEnvironment) -> None:
    """`masscomm keys` would write a new key into the log of the task."""
    found = statements_of(environment, "operatorrole")
    assert found
    names = set().union(*(targets(each) for each in found))
    assert not [each for each in names if "apikeys" in each]
    writes = {"PutItem": "auditlog"}
    for statement in found:
        for action in actions(statement) & {"dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:UpdateItem"}:
            assert all(writes[action.partition(":")[2]] in target for target in targets(statement))


def test_everything_is_deployed_after_provisioning(environment: SynthesisedEnvironment) -> None:
    """The stacks before it have what it provisions; records come from the others."""
    stacks = {
        name: artefact.get("dependencies", [])
        for name, artefact in environment.manifest["artifacts"].items()
        if artefact["type"] == "aws:cloudformation:stack"
    }
    prefix = f"masscomm-{environment.name}-"
    before = {f"{prefix}{name}" for name in ("network", "data", "registry", "provisioning")}
    assert before < stacks.keys()
    assert f"{prefix}registry" in stacks[f"{prefix}provisioning"]
    for name in stacks.keys() - before:
        assert f"{prefix}provisioning" in stacks[name], name


def test_roles_in_the_directory_are_those_of_the_functions(environment: SynthesisedEnvironment) -> None:
    """infra.provision names the roles before they exist."""
    named = {user.role_arn for user in directory_users(variables_of(environment, "provisioner")["ROLES"])}
    roles = {
        each.properties["RoleName"] for each in environment.resources("AWS::IAM::Role") if "RoleName" in each.properties
    }
    assert {each.rpartition("/")[2] for each in named} <= roles
