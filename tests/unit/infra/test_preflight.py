"""An account is checked before a deployment, by calls that only read.

The fake answers each call of boto3's own clients, which check the arguments by the service's model; the names of the
answers' fields are checked by it, too.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.model import StructureShape

from infra.cdk.concurrency import quota_for
from infra.cdk.config import ApiConfig, Environment, PlatformConfig
from infra.cdk.examples import DEV, EXISTING, PROD
from infra.cdk.quotas import LOOKED_UP, QUOTAS
from infra.preflight import CHECKS, Account, Finding, preflight
from tests.support.sms import sms_settings

ARN = "arn:aws:acm:eu-central-1:111111111111:certificate/1"
READY = replace(
    DEV,
    account="111111111111",
    sender="notifications@club.org",
    alarm_email="operations@club.org",
    unsubscribe_url="https://club.org/v1/unsubscribe",
    registry=replace(DEV.registry, domain="registry.club.org", certificate_arn=ARN),
    api=ApiConfig(),
    producers=(),
    consumers=(),
)
SECRET = {"host": "db", "port": 5432, "dbname": "club", "username": "cdc", "password": "p", "ca": "PEM"}
TOPIC = "arn:aws:sns:eu-central-1:111111111111:alarms"
# (service, operation) → its answer in an account that is ready. A code of an error stands for a refusal.
ANSWERS: dict[tuple[str, str], Any] = {
    ("sts", "GetCallerIdentity"): {"Account": "111111111111"},
    ("lambda", "GetAccountSettings"): {"AccountLimit": {"ConcurrentExecutions": 1_000}},
    ("service-quotas", "ListServiceQuotas"): {
        "Quotas": [{"QuotaName": quota.name, "Value": max(quota.default, quota.used(DEV))} for quota in QUOTAS]
    },
    ("service-quotas", "ListAWSDefaultServiceQuotas"): {
        "Quotas": [{"QuotaName": quota.name, "Value": quota.default} for quota in QUOTAS]
    },
    ("ecr", "DescribeRepositories"): {"repositories": [{"repositoryName": "images"}]},
    ("iam", "GetRole"): {"Role": {"RoleName": "role"}},
    ("apigateway", "GetAccount"): {"cloudwatchRoleArn": "arn:aws:iam::111111111111:role/logs"},
    ("ec2", "DescribeAvailabilityZones"): {
        "AvailabilityZones": [{"ZoneName": f"eu-central-1{zone}", "State": "available"} for zone in "abc"]
    },
    ("kafka", "ListKafkaVersions"): {"KafkaVersions": [{"Version": "3.9.x.kraft", "Status": "ACTIVE"}]},
    ("opensearch", "ListVersions"): {"Versions": ["OpenSearch_2.19"]},
    ("opensearch", "ListInstanceTypeDetails"): {
        "InstanceTypeDetails": [{"InstanceType": "t3.medium.search"}, {"InstanceType": "m7g.medium.search"}]
    },
    ("rds", "DescribeOrderableDBInstanceOptions"): {"OrderableDBInstanceOptions": [{"Engine": "postgres"}]},
    ("sesv2", "GetAccount"): {"ProductionAccessEnabled": True, "SendQuota": {"MaxSendRate": 1_000.0}},
    ("sesv2", "GetEmailIdentity"): {"VerifiedForSendingStatus": True},
    ("sns", "ListPlatformApplications"): {
        "PlatformApplications": [
            {
                "PlatformApplicationArn": f"arn:aws:sns:eu-central-1:111111111111:app/{kind}/masscomm-dev-{platform}",
                "Attributes": {"Enabled": "true"},
            }
            for platform, kind in DEV.platforms
        ]
    },
    ("acm", "DescribeCertificate"): {
        "Certificate": {"Status": "ISSUED", "SubjectAlternativeNames": ["registry.club.org"]}
    },
    ("cloudformation", "DescribeStacks"): {"Stacks": [{"StackName": "stack"}]},
    ("cloudformation", "ListStackResources"): {
        "StackResourceSummaries": [{"ResourceType": "AWS::SNS::Topic", "PhysicalResourceId": TOPIC}]
    },
    ("sns", "ListSubscriptionsByTopic"): {
        "Subscriptions": [{"Endpoint": "operations@club.org", "SubscriptionArn": f"{TOPIC}:1"}]
    },
    ("dynamodb", "ListTables"): {"TableNames": []},
    ("secretsmanager", "GetSecretValue"): {"SecretString": json.dumps(SECRET)},
}


def _gone(_: str) -> dict[str, Any]:
    """Answer as CloudFormation does for a stack that does not exist."""
    message = "Stack with id masscomm-dev-data does not exist"
    raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStacks")


READING = ("Get", "List", "Describe")


class Aws:
    """Makes boto3's clients, whose calls it answers. An answer may be a function of the request's text."""

    def __init__(self, **changed: Any) -> None:
        self.answers = deepcopy(ANSWERS)
        for name, answer in changed.items():
            service, _, operation = name.partition("__")
            self.answers[service.replace("_", "-"), operation] = answer
        self.calls: set[tuple[str, str]] = set()

    def __call__(self, service: str, region_name: str = "eu-central-1") -> Any:
        _ANSWERING[:] = [self]
        return _client(service, region_name)

    def answer(self, model: Any, params: Any) -> tuple[Any, Any]:
        call = (model.service_model.service_name, model.name)
        self.calls.add(call)
        answer = self.answers[call]
        if isinstance(answer, str):
            raise ClientError({"Error": {"Code": answer, "Message": "of the fake"}}, model.name)
        if callable(answer):
            answer = answer(str(params["body"]))
        assert isinstance(model.output_shape, StructureShape)
        assert set(answer) <= set(model.output_shape.members), call
        return SimpleNamespace(status_code=200), deepcopy(answer)


# The fake that answers: clients are kept, because each takes a tenth of a second to make.
_ANSWERING: list[Aws] = []


@cache
def _client(service: str, region: str) -> Any:
    make: Any = boto3.client
    client = make(service, region_name=region, aws_access_key_id="key", aws_secret_access_key="secret")
    client.meta.events.register("before-call", lambda model, params, **_: _ANSWERING[0].answer(model, params))
    return client


def found(environment: Environment = READY, others: tuple[Environment, ...] = (), **changed: Any) -> list[Finding]:
    account = Account(client=Aws(**changed), environment=environment, environments=(environment, *others))
    return preflight(account)


def test_account_that_is_ready_has_no_finding() -> None:
    aws = Aws()
    assert preflight(Account(client=aws, environment=READY, environments=(READY,))) == []
    assert {operation for _, operation in aws.calls if not operation.startswith(READING)} == set()


@pytest.mark.parametrize("call", [each for each in ANSWERS if each[1] != "ListAWSDefaultServiceQuotas"])
@pytest.mark.parametrize("stack", ["there", "absent"])
def test_unknown_answer_is_a_finding(call: tuple[str, str], stack: str) -> None:
    changed: dict[str, Any] = {"cloudformation__DescribeStacks": _gone} if stack == "absent" else {}
    answers = Aws(**changed)
    preflight(Account(client=answers, environment=READY, environments=(READY,)))
    if call in answers.calls:
        name = f"{call[0].replace('-', '_')}__{call[1]}"
        unknown = [each.found for each in found(**(changed | {name: "AccessDeniedException"}))]
        assert any(text.startswith("not known") and call[1] in text for text in unknown), unknown


def test_bootstrap_is_found_by_its_qualifier() -> None:
    ours = replace(READY, platform=PlatformConfig(bootstrap_qualifier="acme"))
    (problem,) = found(ours, ecr__DescribeRepositories="RepositoryNotFoundException")
    assert "cdk-acme-container-assets-" in problem.found


@pytest.mark.parametrize(
    ("answers", "asks"),
    [
        ({"GetTenant": {"Tenant": {"SendingStatus": "ENABLED"}}}, []),
        ({"GetTenant": "NotFoundException"}, []),
        ({"GetTenant": {"Tenant": {"SendingStatus": "DISABLED"}}}, ["docs/runbooks/email-reputation.md"]),
    ],
)
def test_tenant_that_ses_has_paused_is_found(
    answers: dict[str, Any], asks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deployment makes a tenant that does not exist."""
    file = tmp_path / "email.yaml"
    own = "{sender: news@club7.example, configuration_set: c7, ses_tenant: t7, mandatory_ses_tenant: otp}"
    file.write_text(f"tenants: {{7: {own}}}")
    monkeypatch.setenv("MASSCOMM_EMAIL", str(file))
    problems = found(**{f"sesv2__{name}": answer for name, answer in answers.items()})
    assert set(asks) == {each.ask for each in problems}


def _role(name: str) -> Callable[[str], dict[str, Any]]:
    def answer(request: str) -> dict[str, Any]:
        if name in request:
            raise ClientError({"Error": {"Code": "NoSuchEntity", "Message": name}}, "GetRole")
        return {"Role": {"RoleName": "role"}}

    return answer


def _few_vcpus_of_fargate(_: str) -> dict[str, Any]:
    few = {LOOKED_UP["fargate"].name: 2.0}
    return {"Quotas": [{"QuotaName": each.name, "Value": few.get(each.name, 1_000.0)} for each in QUOTAS]}


FINDINGS: list[tuple[str, Any, str, str]] = [
    ("sts__GetCallerIdentity", {"Account": "222222222222"}, "account", "111111111111"),
    ("lambda__GetAccountSettings", {"AccountLimit": {"ConcurrentExecutions": 10}}, "lambda", "L-B99A9384"),
    # An account that never asked for another quota has AWS' default of it.
    ("service_quotas__ListServiceQuotas", {"Quotas": []}, "emr-serverless", "a quota of 18"),
    ("service_quotas__ListServiceQuotas", _few_vcpus_of_fargate, "fargate", "a quota of 3"),
    ("ecr__DescribeRepositories", "RepositoryNotFoundException", "bootstrap", "cdk bootstrap"),
    ("iam__GetRole", _role("AWSServiceRoleForECS"), "service-linked role", "ecs.amazonaws.com"),
    ("apigateway__GetAccount", {}, "api gateway", "update-account"),
    ("ec2__DescribeAvailabilityZones", {"AvailabilityZones": []}, "zones", "other zones"),
    ("kafka__ListKafkaVersions", {"KafkaVersions": [{"Version": "3.9.x", "Status": "ACTIVE"}]}, "kafka", "one of"),
    ("opensearch__ListVersions", {"Versions": []}, "opensearch", "another version"),
    ("opensearch__ListInstanceTypeDetails", {"InstanceTypeDetails": []}, "opensearch", "other types"),
    ("rds__DescribeOrderableDBInstanceOptions", {"OrderableDBInstanceOptions": []}, "postgres", "another version"),
    (
        "sesv2__GetAccount",
        {"ProductionAccessEnabled": False, "SendQuota": {"MaxSendRate": 1_000.0}},
        "ses",
        "production access",
    ),
    (
        "sesv2__GetAccount",
        {"ProductionAccessEnabled": True, "SendQuota": {"MaxSendRate": 1.0}},
        "ses",
        "a higher sending rate",
    ),
    ("sesv2__GetEmailIdentity", "NotFoundException", "ses", "a verified identity"),
    ("sesv2__GetEmailIdentity", {"VerifiedForSendingStatus": False}, "ses", "a verified identity"),
    ("sns__ListPlatformApplications", {"PlatformApplications": []}, "sns", "platform application"),
    ("acm__DescribeCertificate", "ResourceNotFoundException", "certificate", "registry.club.org"),
    (
        "acm__DescribeCertificate",
        {"Certificate": {"Status": "ISSUED", "SubjectAlternativeNames": ["club.org"]}},
        "certificate",
        "an issued certificate for registry.club.org",
    ),
    (
        "sns__ListSubscriptionsByTopic",
        {"Subscriptions": [{"Endpoint": "operations@club.org", "SubscriptionArn": "PendingConfirmation"}]},
        "alarms",
        "follow the link",
    ),
    ("secretsmanager__GetSecretValue", "ResourceNotFoundException", "monolith", "create it"),
    ("secretsmanager__GetSecretValue", {"SecretString": json.dumps(SECRET | {"ca": ""})}, "monolith", "these fields"),
    ("secretsmanager__GetSecretValue", {"SecretString": json.dumps(SECRET | {"port": 5433})}, "monolith", "one port"),
]


@pytest.mark.parametrize(("call", "answer", "check", "ask"), FINDINGS)
def test_finding_names_its_remedy(call: str, answer: Any, check: str, ask: str) -> None:
    findings = found(**{call: answer})
    assert findings
    assert all(each.check == check and ask in each.ask for each in findings), findings


ANSWERED = "arn:aws:sns:eu-central-1:111111111111:masscomm-dev-sms-answers"
NUMBER: dict[str, Any] = {
    "PhoneNumber": "+4915799912345",
    "TwoWayEnabled": True,
    "TwoWayChannelArn": ANSWERED,
    "SelfManagedOptOutsEnabled": True,
}


@pytest.mark.parametrize(
    ("numbers", "pools", "ask"),
    [
        ([NUMBER], [{**NUMBER, "PoolId": "pool-1"}], None),
        ([NUMBER], [], "or another sender"),
        ([NUMBER | {"SelfManagedOptOutsEnabled": False}], [{**NUMBER, "PoolId": "pool-1"}], "self-managed opt-outs"),
        ([NUMBER | {"TwoWayEnabled": False}], [{**NUMBER, "PoolId": "pool-1"}], "masscomm-dev-sms-answers"),
        ([NUMBER], [{**NUMBER, "PoolId": "pool-1", "TwoWayChannelArn": f"{ANSWERED}2"}], "masscomm-dev-sms-answers"),
    ],
)
def test_two_way_senders_let_masscomm_opt_out(
    numbers: list[dict[str, Any]], pools: list[dict[str, Any]], ask: str | None
) -> None:
    usual = {"two_way": True, "segments_per_s": 1}
    senders = {
        "DE": {"identity": "+4915799912345", **usual},
        "AT": {"identity": "pool-1", "numbers": ["+4366012345"], **usual},
    }
    answers: dict[str, Any] = {
        "pinpoint_sms_voice_v2__DescribePhoneNumbers": {"PhoneNumbers": numbers},
        "pinpoint_sms_voice_v2__DescribePools": {
            "Pools": [{name: value for name, value in each.items() if name != "PhoneNumber"} for each in pools]
        },
    }
    with sms_settings({"default": {"senders": senders}}):
        asked = [each.ask for each in found(**answers)]
    assert len(asked) == (ask is not None)
    assert all(ask is not None and ask in each for each in asked)


NO_TABLES: dict[str, Any] = {"TableNames": []}


def test_kept_tables_of_a_removed_environment_are_found() -> None:
    tables = {"TableNames": ["masscomm-dev-waiting", "others"]}
    role = _role("masscomm-dev-eu-central-1-provisioner")
    (finding,) = found(cloudformation__DescribeStacks=_gone, iam__GetRole=role, dynamodb__ListTables=tables)
    assert finding.found == "tables exist without their stack: masscomm-dev-waiting"


def test_role_of_the_environment_in_another_region_is_found() -> None:
    (finding,) = found(cloudformation__DescribeStacks=_gone, dynamodb__ListTables=NO_TABLES)
    assert finding.found == "the role masscomm-dev-eu-central-1-provisioner exists without its stack"


EXISTING_SERVERS: dict[str, Any] = {
    "kafka__DescribeClusterV2": {
        "ClusterInfo": {
            "Provisioned": {"NumberOfBrokerNodes": 3, "ClientAuthentication": {"Sasl": {"Iam": {"Enabled": True}}}}
        }
    },
    "opensearch__DescribeDomain": {
        "DomainStatus": {
            "Endpoints": {"vpc": EXISTING.existing.opensearch and EXISTING.existing.opensearch.endpoint},
            "AdvancedSecurityOptions": {"Enabled": True},
        }
    },
    "rds__DescribeDBInstances": {
        "DBInstances": [
            {
                "Endpoint": {"Address": "acme.abcdefghijkl.eu-central-1.rds.amazonaws.com", "Port": 5433},
                "DbiResourceId": "db-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                "DBInstanceClass": "db.t4g.medium",
                "IAMDatabaseAuthenticationEnabled": True,
            }
        ]
    },
}


def of_existing(**changed: Any) -> list[str]:
    answers = EXISTING_SERVERS | changed
    return [each.found for each in found(EXISTING, **answers) if each.check == "existing servers"]


def test_existing_servers_are_compared_with_the_configuration() -> None:
    assert of_existing() == []
    described = {name: of_existing(**{name: {}}) for name in ("kafka__DescribeClusterV2", "opensearch__DescribeDomain")}
    assert [len(each) for each in described.values()] == [2, 2]
    assert "sign-in by IAM of Kafka is None, True in the configuration" in described["kafka__DescribeClusterV2"]
    instance = EXISTING_SERVERS["rds__DescribeDBInstances"]["DBInstances"][0]
    changed = {**instance, "Endpoint": {"Address": "other", "Port": 5432}, "IAMDatabaseAuthenticationEnabled": False}
    assert len(of_existing(rds__DescribeDBInstances={"DBInstances": [changed]})) == 3
    assert len(of_existing(rds__DescribeDBInstances="DBInstanceNotFound")) == 5


def test_servers_of_an_organisation_have_one_environment() -> None:
    other = replace(EXISTING, name="other", spark=replace(EXISTING.spark, daily_runs_hour=7))
    neighbours = [each for each in found(EXISTING, (other,), **EXISTING_SERVERS) if each.check == "neighbours"]
    shared = {each.found.partition(" ")[0] for each in neighbours}
    assert shared == {"existing.kafka", "existing.opensearch", "existing.postgres", "existing.registry"}


def test_offers_for_existing_servers_are_not_needed() -> None:
    offers = ("ListKafkaVersions", "ListVersions", "ListInstanceTypeDetails", "DescribeOrderableDBInstanceOptions")
    aws = Aws(**EXISTING_SERVERS)
    preflight(Account(client=aws, environment=EXISTING, environments=(EXISTING,)))
    assert {operation for _, operation in aws.calls} & {*offers, "DescribeCertificate"} == set()


def test_every_page_is_read() -> None:
    first = {"InstanceTypeDetails": [{"InstanceType": "m7g.medium.search"}], "NextToken": "more"}
    second = {"InstanceTypeDetails": [{"InstanceType": "t3.medium.search"}]}
    aws = Aws()
    pages = iter([first, second])
    aws.answers["opensearch", "ListInstanceTypeDetails"] = lambda _: next(pages)
    assert preflight(Account(client=aws, environment=READY, environments=(READY,))) == []


def test_environments_of_an_account_are_counted_together() -> None:
    other = replace(READY, name="other", cidr="10.67.0.0/16", spark=replace(READY.spark, daily_runs_hour=1))
    findings = {each.check: each.found for each in found(others=(other,))}
    assert findings.keys() == {"neighbours", "emr-serverless"}
    assert findings["neighbours"] == "registry.domain registry.club.org is that of other, too"
    many = replace(other, pollers=100, kafka=replace(other.kafka, partitions_factor=9))
    findings = {each.check: each.found for each in found(others=(many,))}
    assert f"{quota_for([READY, many])} planned for dev, other" in findings["lambda"]
    elsewhere = replace(other, region="eu-west-1")
    assert found(others=(elsewhere,)) == []


def test_placeholders_of_every_environment_are_found() -> None:
    for environment in (DEV, PROD):
        (finding,) = [each for each in found(environment) if each.check == "configuration"]
        assert "producers[0].role_arn" in finding.found


def test_every_check_cites_its_page_or_reads_the_configuration() -> None:
    without = {name for name, check in CHECKS.items() if "https://docs.aws.amazon.com" not in (check.__doc__ or "")}
    assert without == {"configuration", "account", "neighbours", "zones", "names", "monolith"}


def test_quota_that_service_quotas_does_not_have_is_a_finding() -> None:
    nothing: dict[str, Any] = {"Quotas": []}
    unknown = found(service_quotas__ListServiceQuotas=nothing, service_quotas__ListAWSDefaultServiceQuotas=nothing)
    assert {each.check for each in unknown} == {name for name, quota in LOOKED_UP.items() if quota.used(READY)}
    assert all("an unknown quota" in each.found for each in unknown)
