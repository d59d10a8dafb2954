"""Reads the resources of an AWS account from each service's own API, because a resource that a stack lists may not
exist.

`inventory` returns all resources of the types in our CDK stacks, by the physical id that CloudFormation uses. With it,
the resources that a stack lists can be looked up, and the account can be compared before and after a deployment.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from botocore.exceptions import ClientError

type Client = Callable[[str], Any]
# (stack name without the prefix of its environment, resource type, physical id).
type Resource = tuple[str, str, str]


def inventory(client: Client) -> dict[str, set[str]]:
    """Return, for each CloudFormation type, the physical ids of all its resources in the account."""
    found: dict[str, set[str]] = defaultdict(set)
    for read in (_functions, _roles, _api, _buckets, _messages, _network, _rest):
        for kind, id in read(client):
            found[kind].add(id)
    return dict(found)


# CloudFormation identifies these resource types by an id of its own, and their service by this property.
_NAMED_BY = {
    "AWS::ApiGateway::GatewayResponse": "ResponseType",
    "AWS::IAM::Policy": "PolicyName",
    "AWS::S3::BucketPolicy": "Bucket",
    "AWS::SNS::TopicPolicy": "Topics",
    "AWS::SQS::QueuePolicy": "Queues",
}


def stack_resources(client: Client, prefix: str) -> Iterator[Resource]:
    """Return all resources that the stacks with this name prefix list."""
    formation = client("cloudformation")
    stacks = _all(formation, "list_stacks", "StackSummaries", StackStatusFilter=["CREATE_COMPLETE", "UPDATE_COMPLETE"])
    for name in sorted(stack["StackName"] for stack in stacks if stack["StackName"].startswith(prefix)):
        made = {
            each["LogicalResourceId"]: each
            for each in formation.describe_stack_resources(StackName=name)["StackResources"]
        }
        template = _read(formation.get_template(StackName=name)["TemplateBody"])["Resources"]
        for id, each in made.items():
            kind, named = each["ResourceType"], each["PhysicalResourceId"]
            if kind in _NAMED_BY:
                value = template[id]["Properties"][_NAMED_BY[kind]]
                value = value[0] if isinstance(value, list) else value
                named = made[value["Ref"]]["PhysicalResourceId"] if isinstance(value, dict) else value
            yield name.removeprefix(prefix).lstrip("-"), kind, named


def _read(template: Any) -> Any:
    return json.loads(template) if isinstance(template, str) else template


def missing(resources: Iterable[Resource], there: Mapping[str, set[str]]) -> list[Resource]:
    """Return the resources that do not exist according to the API of their service, or whose type this module cannot
    read.
    """
    return [each for each in resources if each[2] not in there.get(each[1], ())]


def _all(client: Any, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
    if client.can_paginate(operation):
        for page in client.get_paginator(operation).paginate(**arguments):
            yield from page[key]
    else:
        yield from getattr(client, operation)(**arguments)[key]


def _functions(client: Client) -> Iterator[tuple[str, str]]:
    functions = client("lambda")
    for function in _all(functions, "list_functions", "Functions"):
        name = function["FunctionName"]
        yield "AWS::Lambda::Function", name
        for version in _all(functions, "list_versions_by_function", "Versions", FunctionName=name):
            yield "AWS::Lambda::Version", version["FunctionArn"]
        for alias in _all(functions, "list_aliases", "Aliases", FunctionName=name):
            yield "AWS::Lambda::Alias", alias["AliasArn"]
        for qualifier in ("", "live"):
            with suppress(ClientError):
                policy = functions.get_policy(FunctionName=name, **({"Qualifier": qualifier} if qualifier else {}))
                yield from (("AWS::Lambda::Permission", sid) for sid in _sids(policy["Policy"]))
    for mapping in _all(functions, "list_event_source_mappings", "EventSourceMappings"):
        yield "AWS::Lambda::EventSourceMapping", mapping["UUID"]


def _roles(client: Client) -> Iterator[tuple[str, str]]:
    iam = client("iam")
    for role in _all(iam, "list_roles", "Roles"):
        yield "AWS::IAM::Role", role["RoleName"]
        for name in _all(iam, "list_role_policies", "PolicyNames", RoleName=role["RoleName"]):
            yield "AWS::IAM::Policy", name
    for policy in _all(iam, "list_policies", "Policies", Scope="Local"):
        yield "AWS::IAM::ManagedPolicy", policy["Arn"]


def _api(client: Client) -> Iterator[tuple[str, str]]:
    gateway = client("apigateway")
    for api in _all(gateway, "get_rest_apis", "items"):
        id = api["id"]
        yield "AWS::ApiGateway::RestApi", id
        for resource in _all(gateway, "get_resources", "items", restApiId=id, embed=["methods"]):
            yield "AWS::ApiGateway::Resource", resource["id"]
            for method in resource.get("resourceMethods", {}):
                yield "AWS::ApiGateway::Method", f"{id}-{resource['id']}-{method}"
        for deployment in _all(gateway, "get_deployments", "items", restApiId=id):
            yield "AWS::ApiGateway::Deployment", deployment["id"]
        for stage in gateway.get_stages(restApiId=id)["item"]:
            yield "AWS::ApiGateway::Stage", stage["stageName"]
        for authorizer in gateway.get_authorizers(restApiId=id)["items"]:
            yield "AWS::ApiGateway::Authorizer", authorizer["id"]
        for response in gateway.get_gateway_responses(restApiId=id)["items"]:
            if not response.get("defaultResponse"):
                yield "AWS::ApiGateway::GatewayResponse", response["responseType"]
    for plan in _all(gateway, "get_usage_plans", "items"):
        yield "AWS::ApiGateway::UsagePlan", plan["id"]
    for key in _all(gateway, "get_api_keys", "items"):
        yield "AWS::ApiGateway::ApiKey", key["id"]


def _buckets(client: Client) -> Iterator[tuple[str, str]]:
    s3 = client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        yield "AWS::S3::Bucket", bucket["Name"]
        with suppress(ClientError):
            s3.get_bucket_policy(Bucket=bucket["Name"])
            yield "AWS::S3::BucketPolicy", bucket["Name"]


def _messages(client: Client) -> Iterator[tuple[str, str]]:
    sns, sqs, events = client("sns"), client("sqs"), client("events")
    for topic in _all(sns, "list_topics", "Topics"):
        yield "AWS::SNS::Topic", topic["TopicArn"]
        if sns.get_topic_attributes(TopicArn=topic["TopicArn"])["Attributes"].get("Policy"):
            yield "AWS::SNS::TopicPolicy", topic["TopicArn"]
    for subscription in _all(sns, "list_subscriptions", "Subscriptions"):
        yield "AWS::SNS::Subscription", subscription["SubscriptionArn"]
    for url in sqs.list_queues().get("QueueUrls", []):
        yield "AWS::SQS::Queue", url
        if sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"]).get("Attributes", {}).get("Policy"):
            yield "AWS::SQS::QueuePolicy", url
    for rule in events.list_rules()["Rules"]:
        if events.list_targets_by_rule(Rule=rule["Name"])["Targets"]:
            yield "AWS::Events::Rule", rule["Name"]


def _network(client: Client) -> Iterator[tuple[str, str]]:
    ec2 = client("ec2")
    for operation, key, id, kind in (
        ("describe_vpcs", "Vpcs", "VpcId", "VPC"),
        ("describe_subnets", "Subnets", "SubnetId", "Subnet"),
        ("describe_route_tables", "RouteTables", "RouteTableId", "RouteTable"),
        ("describe_security_groups", "SecurityGroups", "GroupId", "SecurityGroup"),
        ("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId", "VPCEndpoint"),
    ):
        for each in _all(ec2, operation, key):
            # EC2 still lists an endpoint after it was deleted.
            if each.get("State", "") in ("deleting", "deleted"):
                continue
            yield f"AWS::EC2::{kind}", each[id]
            for association in each.get("Associations", []) if kind == "RouteTable" else []:
                yield "AWS::EC2::SubnetRouteTableAssociation", association["RouteTableAssociationId"]


def _rest(client: Client) -> Iterator[tuple[str, str]]:
    for name in _all(client("dynamodb"), "list_tables", "TableNames"):
        yield "AWS::DynamoDB::Table", name
    for group in _all(client("logs"), "describe_log_groups", "logGroups"):
        yield "AWS::Logs::LogGroup", group["logGroupName"]
    for alarm in _all(client("cloudwatch"), "describe_alarms", "MetricAlarms"):
        yield "AWS::CloudWatch::Alarm", alarm["AlarmName"]
    for secret in _all(client("secretsmanager"), "list_secrets", "SecretList"):
        yield "AWS::SecretsManager::Secret", secret["ARN"]
    kms = client("kms")
    for key in _all(kms, "list_keys", "Keys"):
        # A KMS key continues to exist for days after its deletion was scheduled, as its stack configures.
        if kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"]["KeyState"] != "PendingDeletion":
            yield "AWS::KMS::Key", key["KeyId"]
    for alias in _all(kms, "list_aliases", "Aliases"):
        yield "AWS::KMS::Alias", alias["AliasName"]
    for parameter in _all(client("ssm"), "describe_parameters", "Parameters"):
        yield "AWS::SSM::Parameter", parameter["Name"]


def _sids(policy: str) -> list[str]:
    return [statement["Sid"] for statement in json.loads(policy)["Statement"]]
