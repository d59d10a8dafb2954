"""Every name that the templates set obeys the rule that AWS documents for it.

CloudFormation does not check names: a service rejects a wrong one during the deployment, after earlier resources have
been created.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import boto3
import pytest

from infra.cdk.config import LONGEST_PREFIX
from infra.cdk.examples import PROD
from tests.support.cdk.templates import SynthesisedEnvironment, flat

DOCS = "https://docs.aws.amazon.com"
REGIONS = boto3.Session().get_available_regions("lambda")


class Rule(NamedTuple):
    """A documented rule for a name. longest: in characters; pattern: of the whole name; page: its documentation."""

    longest: int
    pattern: str
    page: str


RULES = {
    "AWS::ApiGateway::Authorizer.Name": Rule(
        128, r"[^\x00-\x1f]+", f"{DOCS}/apigateway/latest/api/API_Authorizer.html"
    ),
    "AWS::ApiGateway::DomainName.DomainName": Rule(
        253, r"[a-z0-9.-]+", f"{DOCS}/apigateway/latest/developerguide/how-to-custom-domains.html"
    ),
    "AWS::ApiGateway::RestApi.Name": Rule(
        1024, r"[^\x00-\x1f]+", f"{DOCS}/apigateway/latest/api/API_CreateRestApi.html"
    ),
    "AWS::ApiGateway::Stage.StageName": Rule(
        128, r"[a-zA-Z0-9_-]+", f"{DOCS}/AWSCloudFormation/latest/TemplateReference/aws-resource-apigateway-stage.html"
    ),
    "AWS::ApiGateway::UsagePlan.UsagePlanName": Rule(
        255, r"[^\x00-\x1f]+", f"{DOCS}/apigateway/latest/api/API_CreateUsagePlan.html"
    ),
    # A colon in this name made the first deployment fail.
    "AWS::Budgets::Budget.Budget.BudgetName": Rule(
        100,
        r"(?!.*/action/|.*<script>.*</script>)[^:\\]+",
        f"{DOCS}/aws-cost-management/latest/APIReference/API_budgets_Budget.html",
    ),
    "AWS::CertificateManager::Certificate.DomainName": Rule(
        253, r"(\*\.)?[a-z0-9.-]+", f"{DOCS}/acm/latest/APIReference/API_RequestCertificate.html"
    ),
    "AWS::CloudFront::Function.Name": Rule(
        64, r"[a-zA-Z0-9_-]+", f"{DOCS}/cloudfront/latest/APIReference/API_CreateFunction.html"
    ),
    "AWS::CloudWatch::Alarm.AlarmName": Rule(
        255, r"[^\x00-\x1f]+", f"{DOCS}/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html"
    ),
    "AWS::CloudWatch::Alarm.AlarmDescription": Rule(
        1024, r"[^\x00-\x1f]+", f"{DOCS}/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html"
    ),
    "AWS::CloudWatch::Alarm.MetricName": Rule(
        255, r"[^:][^\x00-\x1f]*", f"{DOCS}/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html"
    ),
    "AWS::CloudWatch::Dashboard.DashboardName": Rule(
        255, r"[A-Za-z0-9_-]+", f"{DOCS}/AmazonCloudWatch/latest/APIReference/API_PutDashboard.html"
    ),
    "AWS::DynamoDB::Table.TableName": Rule(
        255, r"[a-zA-Z0-9_.-]{3,}", f"{DOCS}/amazondynamodb/latest/APIReference/API_CreateTable.html"
    ),
    "AWS::EC2::SecurityGroup.GroupDescription": Rule(
        255, r"[a-zA-Z0-9 ._:/()#,@\[\]+=&;{}!$*-]+", f"{DOCS}/AWSEC2/latest/APIReference/API_CreateSecurityGroup.html"
    ),
    "AWS::EC2::SecurityGroupEgress.Description": Rule(
        255, r"[a-zA-Z0-9 ._:/()#,@\[\]+=&;{}!$*-]+", f"{DOCS}/AWSEC2/latest/APIReference/API_IpRange.html"
    ),
    "AWS::EC2::SecurityGroupIngress.Description": Rule(
        255, r"[a-zA-Z0-9 ._:/()#,@\[\]+=&;{}!$*-]+", f"{DOCS}/AWSEC2/latest/APIReference/API_IpRange.html"
    ),
    "AWS::ECS::Cluster.ClusterName": Rule(
        255, r"[A-Za-z0-9_-]+", f"{DOCS}/AmazonECS/latest/APIReference/API_CreateCluster.html"
    ),
    "AWS::ECS::Service.ServiceName": Rule(
        255, r"[A-Za-z0-9_-]+", f"{DOCS}/AmazonECS/latest/APIReference/API_CreateService.html"
    ),
    "AWS::ECS::TaskDefinition.Family": Rule(
        255, r"[A-Za-z0-9_-]+", f"{DOCS}/AmazonECS/latest/APIReference/API_RegisterTaskDefinition.html"
    ),
    "AWS::EMRServerless::Application.Name": Rule(
        64, r"[A-Za-z0-9._/#-]+", f"{DOCS}/emr-serverless/latest/APIReference/API_CreateApplication.html"
    ),
    "AWS::IAM::ManagedPolicy.ManagedPolicyName": Rule(
        128, r"[\w+=,.@-]+", f"{DOCS}/IAM/latest/APIReference/API_CreatePolicy.html"
    ),
    "AWS::IAM::Policy.PolicyName": Rule(128, r"[\w+=,.@-]+", f"{DOCS}/IAM/latest/APIReference/API_PutRolePolicy.html"),
    "AWS::IAM::Role.RoleName": Rule(64, r"[\w+=,.@-]+", f"{DOCS}/IAM/latest/APIReference/API_CreateRole.html"),
    "AWS::KMS::Alias.AliasName": Rule(
        256, r"alias/(?!aws/)[a-zA-Z0-9/_-]+", f"{DOCS}/kms/latest/APIReference/API_CreateAlias.html"
    ),
    "AWS::KafkaConnect::Connector.ConnectorName": Rule(
        128, r"[0-9A-Za-z-]+", f"{DOCS}/MSKC/latest/mskc/API_CreateConnector.html"
    ),
    "AWS::KafkaConnect::CustomPlugin.Name": Rule(
        128, r"[0-9A-Za-z-]+", f"{DOCS}/MSKC/latest/mskc/API_CreateCustomPlugin.html"
    ),
    "AWS::KafkaConnect::WorkerConfiguration.Name": Rule(
        128, r"[0-9A-Za-z-]+", f"{DOCS}/MSKC/latest/mskc/API_CreateWorkerConfiguration.html"
    ),
    "AWS::Lambda::Alias.Name": Rule(
        128, r"(?!^[0-9]+$)[a-zA-Z0-9_-]+", f"{DOCS}/lambda/latest/api/API_CreateAlias.html"
    ),
    "AWS::Lambda::EventSourceMapping.AmazonManagedKafkaEventSourceConfig.ConsumerGroupId": Rule(
        200, r"[a-zA-Z0-9/*:_+=.@-]+", f"{DOCS}/lambda/latest/api/API_AmazonManagedKafkaEventSourceConfig.html"
    ),
    "AWS::Lambda::EventSourceMapping.SelfManagedKafkaEventSourceConfig.ConsumerGroupId": Rule(
        200, r"[a-zA-Z0-9/*:_+=.@-]+", f"{DOCS}/lambda/latest/api/API_SelfManagedKafkaEventSourceConfig.html"
    ),
    "AWS::Lambda::EventSourceMapping.ProvisionedPollerConfig.PollerGroupName": Rule(
        128, r"[a-zA-Z0-9_-]+", f"{DOCS}/lambda/latest/api/API_ProvisionedPollerConfig.html"
    ),
    "AWS::Lambda::Function.FunctionName": Rule(
        64, r"[a-zA-Z0-9_-]+", f"{DOCS}/lambda/latest/api/API_CreateFunction.html"
    ),
    "AWS::Lambda::Function.Description": Rule(256, r".*", f"{DOCS}/lambda/latest/api/API_CreateFunction.html"),
    "AWS::Logs::LogGroup.LogGroupName": Rule(
        512,
        r"(?!aws/)[._/#A-Za-z0-9-]+",
        f"{DOCS}/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html",
    ),
    "AWS::Logs::ResourcePolicy.PolicyName": Rule(
        255, r"[^:*/\\<>?|\"'%]+", f"{DOCS}/AmazonCloudWatchLogs/latest/APIReference/API_PutResourcePolicy.html"
    ),
    "AWS::MSK::Cluster.ClusterName": Rule(
        64, r"[0-9A-Za-z][0-9A-Za-z-]*", f"{DOCS}/msk/1.0/apireference/clusters.html"
    ),
    "AWS::MSK::Configuration.Name": Rule(
        64, r"[0-9A-Za-z][0-9A-Za-z-]*", f"{DOCS}/msk/1.0/apireference/configurations.html"
    ),
    "AWS::MSK::Topic.TopicName": Rule(
        249, r"(?!\.\.?$)[a-zA-Z0-9._-]+", "https://kafka.apache.org/43/operations/basic-kafka-operations/"
    ),
    "AWS::OpenSearchService::Domain.DomainName": Rule(
        28, r"[a-z][a-z0-9-]{2,}", f"{DOCS}/opensearch-service/latest/APIReference/API_CreateDomain.html"
    ),
    "AWS::RDS::DBInstance.CACertificateIdentifier": Rule(
        63,
        r"rds-ca-(rsa2048|rsa4096|ecc384)-g1",
        f"{DOCS}/AmazonRDS/latest/UserGuide/UsingWithRDS.SSL.html",
    ),
    "AWS::RDS::DBInstance.DBInstanceIdentifier": Rule(
        63,
        r"[a-zA-Z](?:-?[a-zA-Z0-9]+)*",
        f"{DOCS}/AmazonRDS/latest/APIReference/API_CreateDBInstance.html",
    ),
    "AWS::RDS::DBInstance.DBName": Rule(
        63, r"[a-zA-Z][a-zA-Z0-9_]*", f"{DOCS}/AmazonRDS/latest/APIReference/API_CreateDBInstance.html"
    ),
    "AWS::RDS::DBProxy.DBProxyName": Rule(
        63, r"[a-zA-Z](?:-?[a-zA-Z0-9]+)*", f"{DOCS}/AmazonRDS/latest/APIReference/API_CreateDBProxy.html"
    ),
    "AWS::Route53::HostedZone.Name": Rule(
        1024, r"[a-z0-9.-]+", f"{DOCS}/Route53/latest/APIReference/API_CreateHostedZone.html"
    ),
    "AWS::Route53::RecordSet.Name": Rule(
        1024, r"[a-z0-9.-]+", f"{DOCS}/Route53/latest/APIReference/API_ResourceRecordSet.html"
    ),
    "AWS::SES::ConfigurationSet.Name": Rule(
        64, r"[A-Za-z0-9_-]+", f"{DOCS}/ses/latest/APIReference-V2/API_CreateConfigurationSet.html"
    ),
    "AWS::SNS::Topic.TopicName": Rule(256, r"[A-Za-z0-9_-]+", f"{DOCS}/sns/latest/api/API_CreateTopic.html"),
    "AWS::SQS::Queue.QueueName": Rule(
        80, r"[A-Za-z0-9_-]+", f"{DOCS}/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html"
    ),
    "AWS::SSM::Parameter.Name": Rule(
        1011, r"(?!/?(aws|ssm))[a-zA-Z0-9_./-]+", f"{DOCS}/systems-manager/latest/APIReference/API_PutParameter.html"
    ),
    "AWS::SecretsManager::Secret.Name": Rule(
        512,
        # A name must not end in a hyphen and six characters, or it looks like the suffix of the secret's ARN.
        r"(?!.*-[A-Za-z0-9]{6}$)[A-Za-z0-9/_+=.@-]+",
        f"{DOCS}/secretsmanager/latest/apireference/API_CreateSecret.html",
    ),
    "AWS::WAFv2::WebACL.Name": Rule(128, r"[\w-]+", f"{DOCS}/waf/latest/APIReference/API_CreateWebACL.html"),
    "AWS::WAFv2::WebACL.VisibilityConfig.MetricName": Rule(
        128, r"[\w#:./-]+", f"{DOCS}/waf/latest/APIReference/API_VisibilityConfig.html"
    ),
}

# Properties without a rule: names of resources that another property defines, and keywords of a service.
NOT_OURS = {
    "AWS::EC2::VPCEndpoint.ServiceName",
    "AWS::Lambda::EventSourceMapping.FunctionName",
    "AWS::Lambda::Permission.FunctionName",
    "AWS::RDS::DBProxy.EngineFamily",
    "AWS::RDS::DBProxyTargetGroup.TargetGroupName",
    "AWS::RDS::DBParameterGroup.Family",
    "AWS::RDS::DBParameterGroup.Description",
    "AWS::Logs::SubscriptionFilter.LogGroupName",
}
_NAMES = re.compile(r"(Name|Identifier|Family|ConsumerGroupId)$")
# Properties that are objects with a name inside; each occurs once in its resource.
_WITHIN = (
    "Budget",
    "AmazonManagedKafkaEventSourceConfig",
    "SelfManagedKafkaEventSourceConfig",
    "ProvisionedPollerConfig",
    "VisibilityConfig",
)


def _texts(environment: SynthesisedEnvironment) -> Iterator[tuple[str, str]]:
    """Yield (type.property, text) of each property that has a rule or that _NAMES recognises as a name."""
    for resource in environment.resources():
        found: dict[str, Any] = dict(resource.properties)
        for within in _WITHIN:
            inner = resource.properties.get(within)
            if isinstance(inner, dict):
                found |= {f"{within}.{name}": value for name, value in inner.items()}
        for name, value in found.items():
            path = f"{resource.type}.{name}"
            literal = isinstance(value, str) or (isinstance(value, dict) and "Fn::Join" in value)
            if literal and (path in RULES or _NAMES.search(name)):
                yield path, _as_deployed(flat(value))


def _as_deployed(text: str) -> str:
    """Replace each reference by the longest text that it can have: accounts have 12 digits, ids fewer than 20."""
    return re.sub(r"\{[^{}]*\}", lambda found: "0" * (12 if "AccountId" in found[0] else 20), text)


def _broken(path: str, text: str) -> bool:
    rule = RULES[path]
    return not text or len(text) > rule.longest or re.fullmatch(rule.pattern, text) is None


@pytest.mark.parametrize("name", ["small", "prod", "local"])
def test_names_match_their_documented_patterns(synthesised: dict[str, SynthesisedEnvironment], name: str) -> None:
    """A property whose name ends in Name, Identifier or Family fails the test if RULES has no rule and page for it."""
    texts = set(_texts(synthesised[name]))
    if name == "prod":
        # The longest name that an environment may have, in the region with the longest name.
        longest = replace(PROD, name="x" * (LONGEST_PREFIX - len("masscomm-")), region=max(REGIONS, key=len))
        texts |= {
            (path, text.replace(PROD.prefix, longest.prefix).replace(PROD.region, longest.region))
            for path, text in texts
        }
    assert {path for path, _ in texts} - RULES.keys() - NOT_OURS == set()
    assert [(path, text) for path, text in texts if path in RULES and _broken(path, text)] == []


def test_a_colon_in_a_budget_name_breaks_its_rule() -> None:
    assert _broken("AWS::Budgets::Budget.Budget.BudgetName", "masscomm-dev: docs/runbooks/cost.md")


def test_every_name_rule_is_of_a_name_that_is_set(synthesised: dict[str, SynthesisedEnvironment]) -> None:
    set_ = {path for environment in synthesised.values() for path, _ in _texts(environment)}
    assert RULES.keys() - set_ == set()
    assert all(rule.page.startswith("https://") for rule in RULES.values())
