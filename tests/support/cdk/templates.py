"""Reads synthesised CloudFormation templates as JSON, without the CDK library."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

# The types of a role's policies: CDK moves the statements that do not fit into the inline policy to managed policies.
ROLE_POLICIES = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
# The functions outside the VPC: webhook_sender calls servers in the Internet, and the VPC has no path to it.
OUTSIDE_THE_VPC = {"webhook_sender", "webhook_batch_sender", "webhook_retry_sender"}


@dataclass(frozen=True)
class Resource:
    """One resource of one stack. `id` is its logical id; `attributes` has everything except Type and Properties."""

    stack: str
    id: str
    type: str
    properties: dict[str, Any]
    attributes: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.stack}/{self.id}"


@dataclass(frozen=True)
class SynthesisedEnvironment:
    """A synthesised environment (a CDK cloud assembly) in a folder."""

    name: str
    folder: Path

    @property
    def manifest(self) -> dict[str, Any]:
        """Return the assembly's list of artefacts."""
        content: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return content

    def templates(self) -> dict[str, dict[str, Any]]:
        """Return the templates by stack name, without the environment's prefix."""
        return _templates(self.folder, f"masscomm-{self.name}-")

    def resources(self, kind: str = "", of_stack: str = "") -> Iterator[Resource]:
        """Return the resources of all templates, or those of one type or of one stack."""
        for stack, template in self.templates().items():
            if of_stack not in ("", stack):
                continue
            for id, resource in template["Resources"].items():
                if kind in ("", resource["Type"]):
                    rest = {name: value for name, value in resource.items() if name not in ("Type", "Properties")}
                    yield Resource(stack, id, resource["Type"], resource.get("Properties", {}), rest)


def alarm_metrics_of(environment: SynthesisedEnvironment) -> int:
    """Return the number of metrics that the alarms read: one, or those of a formula."""
    alarms = [each.properties for each in environment.resources("AWS::CloudWatch::Alarm")]
    return sum(sum("MetricStat" in one for one in each["Metrics"]) if "Metrics" in each else 1 for each in alarms)


def job_requests(environment: SynthesisedEnvironment) -> list[Resource]:
    """Return the parameters with requests of EMR Serverless; the others have those of tasks."""
    found = environment.resources("AWS::SSM::Parameter")
    return [parameter for parameter in found if "/tasks/" not in str(parameter.properties["Name"])]


def task_definition(environment: SynthesisedEnvironment, name: str) -> Resource:
    """Return the task definition whose family is PREFIX-NAME."""
    (found,) = [
        each
        for each in environment.resources("AWS::ECS::TaskDefinition")
        if each.properties["Family"] == f"masscomm-{environment.name}-{name}"
    ]
    return found


def kafka_mappings(environment: SynthesisedEnvironment) -> Iterator[Resource]:
    """Yield the event source mappings of topics; the copy of the audit log has one of a DynamoDB stream."""
    for mapping in environment.resources("AWS::Lambda::EventSourceMapping"):
        if "Topics" in mapping.properties:
            yield mapping


@cache
def _templates(folder: Path, prefix: str) -> dict[str, dict[str, Any]]:
    """Read the templates of an environment once, because parsing takes most of the time of a test."""
    suffix = ".template.json"
    return {
        path.name.removeprefix(prefix).removesuffix(suffix): json.loads(path.read_text())
        for path in sorted(folder.glob(f"*{suffix}"))
    }


def flat(value: Any) -> str:
    """Return a template value as text, with intrinsic functions resolved and references in braces."""
    match value:
        case str():
            return value
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(flat(part) for part in parts)
        case {"Ref": name}:
            return f"{{{name}}}"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"{{{name}.{attribute}}}"
        case {"Fn::ImportValue": name}:
            return f"{{{flat(name)}}}"
        case {"Fn::Select": [part, {"Fn::Split": [separator, inner]}]}:
            return f"{{{flat(inner)} by {separator} [{part}]}}"
        case _:
            return json.dumps(value, sort_keys=True)


def as_list(value: Any) -> list[Any]:
    """Return a value as a list: CloudFormation accepts a single value or a list."""
    return value if isinstance(value, list) else [value]


def statements(environment: SynthesisedEnvironment, kind: str = "") -> Iterator[tuple[Resource, dict[str, Any]]]:
    """Yield every IAM statement with its resource. `kind` is the type of the resource."""
    for resource in environment.resources(kind):
        for document in _documents(resource.properties):
            for statement in as_list(document["Statement"]):
                yield resource, statement


def role_statements(environment: SynthesisedEnvironment) -> Iterator[tuple[Resource, dict[str, Any]]]:
    """Yield the statements of all policies of roles, inline and managed."""
    for kind in ROLE_POLICIES:
        yield from statements(environment, kind)


def _documents(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "Statement" in value and "Version" in value:
            yield value
        else:
            for each in value.values():
                yield from _documents(each)
    elif isinstance(value, list):
        for each in value:
            yield from _documents(each)


def actions(statement: dict[str, Any]) -> set[str]:
    return set(as_list(statement.get("Action", [])))


def targets(statement: dict[str, Any]) -> set[str]:
    """Return the resources that an IAM statement names, joined as text."""
    return {flat(each) for each in as_list(statement.get("Resource", []))}
