"""Resolves the references of synthesised templates to ARNs and names of the form that AWS assigns."""

import re
from collections.abc import Callable
from typing import Any

from tests.support.cdk.templates import Resource, SynthesisedEnvironment

ACCOUNT, REGION = "111111111111", "eu-central-1"
_UUID = "12345678-1234-1234-1234-123456789012"

# Type → its ARN after the account, from the resource types of
# https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
_ARNS: dict[str, tuple[str, str]] = {
    "AWS::DynamoDB::Table": ("dynamodb", "table/{}"),
    "AWS::EMRServerless::Application": ("emr-serverless", "/applications/{}"),
    "AWS::Events::Rule": ("events", "rule/{}"),
    "AWS::IAM::Role": ("iam", "role/{}"),
    "AWS::KMS::Key": ("kms", f"key/{_UUID}"),
    "AWS::Lambda::Alias": ("lambda", "function:{}:live"),
    "AWS::Lambda::Function": ("lambda", "function:{}"),
    "AWS::Logs::LogGroup": ("logs", "log-group:{}:*"),
    "AWS::MSK::Cluster": ("kafka", f"cluster/{{}}/{_UUID}-1"),
    "AWS::OpenSearchService::Domain": ("es", "domain/{}"),
    "AWS::RDS::DBProxy": ("rds", "db-proxy:prx-{}"),
    "AWS::S3::Bucket": ("s3", "{}"),
    "AWS::SNS::Topic": ("sns", "{}"),
    "AWS::SQS::Queue": ("sqs", "{}"),
    "AWS::SecretsManager::Secret": ("secretsmanager", "secret:{}-AbCdEf"),
}
# Services whose ARNs have no account and no region, or no region.
_WITHOUT_ACCOUNT, _WITHOUT_REGION = {"s3"}, {"s3", "iam"}
# The types whose Ref is an ARN.
_REF_IS_ARN = {"AWS::SNS::Topic", "AWS::SecretsManager::Secret", "AWS::Lambda::Alias"}
_NAMES = (
    "Name",
    "TableName",
    "RoleName",
    "FunctionName",
    "BucketName",
    "QueueName",
    "TopicName",
    "ClusterName",
    "DomainName",
)
_PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Region": REGION,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/stack/{_UUID}",
}


class Resolver:
    """Resolves the values of an environment's templates, exports of other stacks included."""

    def __init__(self, environment: SynthesisedEnvironment) -> None:
        self._resources = {(each.stack, each.id): each for each in environment.resources()}
        self._exports = {
            output["Export"]["Name"]: (stack, output["Value"])
            for stack, template in environment.templates().items()
            for output in template.get("Outputs", {}).values()
            if "Export" in output
        }

    def __call__(self, stack: str, value: Any) -> Any:
        """Return a value of a stack with its intrinsic functions replaced.

        Raises:
            KeyError: The value refers to a resource that no template has.
        """
        match value:
            case {"Ref": name}:
                return _PSEUDO.get(name) or self._ref(stack, name)
            case {"Fn::GetAtt": [name, attribute]}:
                return self._attribute(self._resources[stack, name], attribute)
            case {"Fn::ImportValue": name}:
                return self(*self._exports[name])
            case {"Fn::Join": [separator, parts]}:
                return str(separator).join(self(stack, part) for part in parts)
            case {"Fn::Select": [part, inner]}:
                return self(stack, inner)[int(part)]
            case {"Fn::Split": [separator, inner]}:
                return self(stack, inner).split(separator)
            case {"Fn::Sub": str(text)}:
                return re.sub(r"\$\{([^}]+)\}", self._substituted(stack), text)
            case dict():
                return {name: self(stack, each) for name, each in value.items()}
            case list():
                return [self(stack, each) for each in value]
            case _:
                return value

    def _substituted(self, stack: str) -> Callable[[re.Match[str]], str]:
        def value(found: re.Match[str]) -> str:
            name, _, attribute = found[1].partition(".")
            return str(self(stack, {"Fn::GetAtt": [name, attribute]} if attribute else {"Ref": name}))

        return value

    def _ref(self, stack: str, name: str) -> str:
        resource = self._resources[stack, name]
        return self._arn(resource) if resource.type in _REF_IS_ARN else self._name(resource)

    def _attribute(self, resource: Resource, attribute: str) -> str:
        if attribute in ("Arn", "TopicArn", "DBProxyArn"):
            return self._arn(resource)
        if attribute == "StreamArn":
            return f"{self._arn(resource)}/stream/2026-01-01T00:00:00.000"
        if attribute in ("DbiResourceId", "QueueName", "Name"):
            return self._name(resource)
        if attribute == "MasterUserSecret.SecretArn":
            return f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:rds!db-{_UUID}-AbCdEf"
        return f"{resource.id}-{attribute}"

    def _name(self, resource: Resource) -> str:
        for name in _NAMES:
            if name in resource.properties:
                return str(self(resource.stack, resource.properties[name]))
        return resource.id.lower() if resource.type == "AWS::S3::Bucket" else resource.id

    def _arn(self, resource: Resource) -> str:
        service, form = _ARNS[resource.type]
        region = "" if service in _WITHOUT_REGION else REGION
        account = "" if service in _WITHOUT_ACCOUNT else ACCOUNT
        return f"arn:aws:{service}:{region}:{account}:{form.format(self._name(resource))}"
