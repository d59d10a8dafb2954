"""A deployed environment is removed with its data, a protected one only down to its data."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, WaiterError
from moto import mock_aws

from infra.cdk.config import Environment
from infra.cdk.examples import DEV, PROD
from infra.cdk.handlers import before_removal
from infra.destroy import KEPT, STACKS, DestroyError, destroy, require_name
from tests.support.cdk.templates import SynthesisedEnvironment, flat

REGION = "eu-central-1"
client: Any = boto3.client
FILES = ("AWS::S3::Bucket", "files")


class Formation:
    """A fake of CloudFormation: it deletes buckets of moto, which refuses it while they have contents.

    moto's own needs further packages for the types of other resources.
    """

    def __init__(self) -> None:
        self.stacks: dict[str, list[tuple[str, str]]] = {}
        self.events: dict[str, list[dict[str, str]]] = {}

    def describe_stacks(self, *, StackName: str) -> dict[str, Any]:
        name = StackName.removeprefix("id-")
        if name not in self.stacks:
            message = f"Stack with id {StackName} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStacks")
        return {"Stacks": [{"StackId": f"id-{name}"}]}

    def delete_stack(self, *, StackName: str) -> None:
        name = StackName.removeprefix("id-")
        self.events[name] = [_stack_event(StackName)]
        for _, resource in self.stacks[name]:
            try:
                client("s3").delete_bucket(Bucket=resource)
            except ClientError as error:
                failed = _stack_event(resource) | {
                    "ResourceStatus": "DELETE_FAILED",
                    "ResourceStatusReason": str(error),
                }
                self.events[name].insert(0, failed)
        if len(self.events[name]) == 1:
            del self.stacks[name]

    def get_waiter(self, name: str) -> "Formation":
        assert name == "stack_delete_complete"
        return self

    def wait(self, *, StackName: str, WaiterConfig: object) -> None:
        if StackName.removeprefix("id-") in self.stacks:
            raise WaiterError("stack_delete_complete", "DELETE_FAILED", {})

    def get_paginator(self, operation: str) -> Any:
        def pages(*, StackName: str) -> Iterator[dict[str, Any]]:
            name = StackName.removeprefix("id-")
            if operation == "describe_stack_events":
                yield {"StackEvents": self.events[name]}
            else:
                found = [
                    {"ResourceType": kind, "PhysicalResourceId": id, "ResourceStatus": "CREATE_COMPLETE"}
                    for kind, id in self.stacks[name]
                ]
                yield {"StackResourceSummaries": found}

        return SimpleNamespace(paginate=pages)


def _stack_event(id: str) -> dict[str, str]:
    return {"PhysicalResourceId": id, "ResourceStatus": "DELETE_IN_PROGRESS", "ResourceType": "type"}


class Gateway:
    """A fake of API Gateway with one key in the usage plan of each environment."""

    def __init__(self) -> None:
        self.keys = {"masscomm-dev": ["key of dev"], "masscomm-prod": ["key of prod"]}

    def get_paginator(self, operation: str) -> Any:
        def pages(usagePlanId: str = "") -> Iterator[dict[str, Any]]:
            if operation == "get_usage_plans":
                yield {"items": [{"id": f"id-{name}", "name": name} for name in self.keys]}
            else:
                keys = self.keys[usagePlanId.removeprefix("id-")]
                yield {"items": [{"id": key, "name": key} for key in keys]}

        return SimpleNamespace(paginate=pages)

    def delete_api_key(self, *, apiKey: str) -> None:
        self.keys = {plan: [key for key in keys if key != apiKey] for plan, keys in self.keys.items()}


class Account:
    """An account of moto with the fakes of CloudFormation and API Gateway, which makes clients as boto3 does."""

    def __init__(self) -> None:
        self.formation, self.gateway = Formation(), Gateway()

    def __call__(self, service: str) -> Any:
        own = {"cloudformation": self.formation, "apigateway": self.gateway}
        return own[service] if service in own else client(service)

    def deploy(self, environment: Environment, **stacks: list[tuple[str, str]]) -> None:
        for name, resources in stacks.items():
            self.formation.stacks[f"{environment.prefix}-{name}"] = resources


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """An account with a bucket that has versions."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        s3 = client("s3")
        s3.create_bucket(Bucket="files", CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_bucket_versioning(Bucket="files", VersioningConfiguration={"Status": "Enabled"})
        for body in (b"1", b"2"):
            s3.put_object(Bucket="files", Key="records/1", Body=body)
        yield Account()


def test_environment_with_data_is_removed(account: Account) -> None:
    other = replace(DEV, name="dev-data")
    account.deploy(DEV, data=[FILES], network=[])
    account.deploy(other, network=[])
    client("s3").delete_object(Bucket="files", Key="records/1")
    lines: list[str] = []
    destroy(account, DEV, lambda _: None, lines.append)
    assert account.formation.stacks.keys() == {"masscomm-dev-data-network"}
    assert client("s3").list_buckets()["Buckets"] == []
    assert "masscomm-dev-data is deleted." in lines
    assert [line for line in lines if "pg_drop_replication_slot" in line]


def test_protected_environment_keeps_its_data(account: Account) -> None:
    account.deploy(PROD, functions=[], data=[FILES], network=[])
    lines: list[str] = []
    destroy(account, PROD, lambda _: None, lines.append)
    assert account.formation.stacks.keys() == {"masscomm-prod-data", "masscomm-prod-network"}
    assert len(client("s3").list_object_versions(Bucket="files")["Versions"]) == 2
    assert "--import-existing-resources" in lines[-1]


def test_stack_that_cannot_be_deleted_is_reported(account: Account) -> None:
    """A protected environment's buckets are not emptied."""
    account.deploy(PROD, console=[FILES])
    lines: list[str] = []
    with pytest.raises(DestroyError, match="masscomm-prod-console was not deleted"):
        destroy(account, PROD, lambda _: None, lines.append)
    assert "BucketNotEmpty" in lines[0]


def test_api_keys_of_the_environment_are_deleted(account: Account) -> None:
    account.deploy(DEV, api=[])
    destroy(account, DEV, lambda _: None, lambda _: None)
    assert account.gateway.keys == {"masscomm-dev": [], "masscomm-prod": ["key of prod"]}


@pytest.mark.parametrize("typed", ["", "dev", "PROD"])
def test_protected_environment_needs_its_name(typed: str) -> None:
    with pytest.raises(DestroyError, match="Nothing was changed"):
        require_name(PROD, typed)
    require_name(PROD, "prod")
    require_name(DEV, None)


def test_stacks_are_removed_before_those_they_import_from(
    environment: SynthesisedEnvironment, replacing: SynthesisedEnvironment
) -> None:
    for each in (environment, replacing):
        templates = each.templates()
        assert templates.keys() <= set(STACKS)
        assert set(KEPT) <= templates.keys()
        exports = {
            flat(output["Export"]["Name"]): stack
            for stack, template in templates.items()
            for output in template.get("Outputs", {}).values()
            if "Export" in output
        }
        for stack, template in templates.items():
            for name, owner in exports.items():
                if f'"Fn::ImportValue": "{name}"' in json.dumps(template):
                    assert STACKS.index(stack) < STACKS.index(owner), (stack, owner)


# --- the preparation by CloudFormation itself ---


def test_resources_that_block_a_removal_are_prepared(environment: SynthesisedEnvironment) -> None:
    """https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_DeleteApplication.html"""
    prepared = {
        flat(each.properties.get("Bucket", each.properties.get("ApplicationId"))).strip("{}").partition(".")[0]
        for each in environment.resources("Custom::BeforeRemoval")
    }
    blocking = {each.id for each in environment.resources("AWS::EMRServerless::Application")}
    if environment.name == "small":
        blocking |= {each.id for each in environment.resources("AWS::S3::Bucket")}
    assert prepared == blocking
    for repository in environment.resources("AWS::ECR::Repository"):
        assert repository.properties["EmptyOnDelete"] is (environment.name == "small")


def test_no_run_starts_while_the_application_is_removed(environment: SynthesisedEnvironment) -> None:
    """CloudFormation removes a resource before those it depends on."""
    rules = [
        each for each in environment.resources("AWS::Events::Rule") if "keepjob" in flat(each.properties["Targets"])
    ]
    assert len(rules) == (1 if environment.name == "small" else 2)
    for rule in rules:
        assert [id for id in rule.attributes["DependsOn"] if "beforeremoval" in id], rule


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 60_000


def _event(kind: str, **properties: str) -> dict[str, Any]:
    return {
        "RequestType": kind,
        "ResponseURL": "https://cloudformation.example/answer",
        "StackId": "stack",
        "RequestId": "request",
        "LogicalResourceId": "resource",
        "ResourceProperties": properties,
    }


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The answers that CloudFormation received."""
    found: list[dict[str, Any]] = []

    def urlopen(request: Any, timeout: float) -> io.BytesIO:
        assert request.get_method() == "PUT"
        found.append(json.loads(request.data))
        return io.BytesIO()

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return found


@pytest.fixture
def stack_is(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Give the event's stack a state. moto's CloudFormation needs further packages."""

    def give(status: str) -> None:
        def describe_stacks(*, StackName: str) -> dict[str, Any]:
            assert StackName == "stack"
            return {"Stacks": [{"StackStatus": status}]}

        formation = SimpleNamespace(describe_stacks=describe_stacks)
        monkeypatch.setattr(
            "infra.cdk.handlers.before_removal.boto3.client",
            lambda service: formation if service == "cloudformation" else client(service, region_name=REGION),
        )

    return give


@pytest.mark.parametrize(
    ("kind", "status", "left"),
    [
        ("Create", "CREATE_IN_PROGRESS", 2),
        ("Update", "UPDATE_IN_PROGRESS", 2),
        # The environment has become protected.
        ("Delete", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", 2),
        ("Delete", "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", 2),
        ("Delete", "ROLLBACK_IN_PROGRESS", 0),
        ("Delete", "DELETE_IN_PROGRESS", 0),
    ],
)
def test_bucket_is_emptied_only_with_its_stack(
    account: Account,
    answers: list[dict[str, Any]],
    stack_is: Callable[[str], None],
    kind: str,
    status: str,
    left: int,
) -> None:
    s3 = account("s3")
    stack_is(status)
    before_removal.handler(_event(kind, Bucket="files", Arn="arn:aws:s3:::files"), Context())
    assert len(s3.list_object_versions(Bucket="files").get("Versions", [])) == left
    assert [each["Status"] for each in answers] == ["SUCCESS"]


def test_failed_preparation_is_answered(
    account: Account, answers: list[dict[str, Any]], stack_is: Callable[[str], None]
) -> None:
    stack_is("DELETE_IN_PROGRESS")
    before_removal.handler(_event("Delete", Bucket="absent", Arn="arn:aws:s3:::absent"), Context())
    (answer,) = answers
    assert answer["Status"] == "FAILED"
    assert "NoSuchBucket" in answer["Reason"]
