"""Checks an account before a deployment: `python -m infra.preflight ENVIRONMENT [--json]`.

Each call only reads. A finding names a problem, and the change to make or to ask for. A call that is refused or fails
is a finding, too: an unknown answer is no pass. The exit status is 1 if there is a finding.
`masscomm preflight ENVIRONMENT` is the same command.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra.cdk.concurrency import quota_for
from infra.cdk.config import EDGE_REGION, Environment, placeholders, tables
from infra.cdk.environments import add_folder_option, environment_of, environments
from infra.cdk.images import repository
from infra.cdk.quotas import CONCURRENCY, LOOKED_UP, Quota
from infra.cdk.resources.receipts import sms_answers
from infra.provision import MONOLITH_FIELDS
from masscomm.domain.email_settings import EmailOrigin, table_of
from masscomm.domain.sms_settings import sms_table

# Creates a boto3 client of a service, in the environment's region or another.
type Client = Callable[..., Any]

# Roles that CloudFormation does not create in time: docs/deploying.md.
_LINKED = {"opensearchservice.amazonaws.com": "AmazonOpenSearchService", "ecs.amazonaws.com": "ECS"}
_ABSENT = ("does not exist", "NotFound", "NoSuchEntity")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One reason why a deployment would fail or not work."""

    found: str
    # The change to make, or to ask for.
    ask: str


@dataclass(frozen=True, kw_only=True)
class Finding(Problem):
    """A problem with the name of its check."""

    check: str


@dataclass(frozen=True, kw_only=True)
class Account:
    """The account in the environment's region, and the environment to deploy there."""

    client: Client
    environment: Environment
    # The environments of the configuration that this account may have.
    environments: tuple[Environment, ...]

    def has_stack(self, environment: Environment, name: str) -> bool:
        """Return whether the stack of an environment exists in the region."""
        describe = self.client("cloudformation").describe_stacks
        return _found(describe, StackName=f"{environment.prefix}-{name}") is not None

    def together(self) -> list[Environment]:
        """Return the environment, and the others of the configuration that run in this account and region."""
        others = [each for each in self.environments if each.name != self.environment.name]
        same = [each for each in others if each.region == self.environment.region]
        return [self.environment, *(each for each in same if self.has_stack(each, "functions"))]


type Check = Callable[[Account], Iterator[Problem]]


def preflight(account: Account) -> list[Finding]:
    """Return the findings of every check."""
    found: list[Finding] = []
    for name, check in CHECKS.items():
        try:
            found += (Finding(check=name, found=each.found, ask=each.ask) for each in check(account))
        except (ClientError, BotoCoreError) as error:
            found.append(Finding(check=name, found=f"not known: {error}", ask="permit the call, and run this again"))
    return found


def _found(call: Callable[..., Any], **arguments: Any) -> dict[str, Any] | None:
    """Return the answer of a call; None if its resource does not exist.

    Raises:
        ClientError: The call failed for another reason, such as a missing permission.
    """
    try:
        answer: dict[str, Any] = call(**arguments)
    except ClientError as error:
        if any(each in str(error) for each in _ABSENT):
            return None
        raise
    return answer


def _pages(client: Any, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
    """Yield the entries of every page. Botocore has no paginator for some operations with a NextToken."""
    if client.can_paginate(operation):
        for page in client.get_paginator(operation).paginate(**arguments):
            yield from page[key]
        return
    page = getattr(client, operation)(**arguments)
    yield from page[key]
    while token := page.get("NextToken"):
        page = getattr(client, operation)(**arguments, NextToken=token)
        yield from page[key]


def _configuration(account: Account) -> Iterator[Problem]:
    if unset := placeholders(account.environment):
        yield Problem(found=f"examples: {', '.join(unset)}", ask="set them in the configuration")


def _credentials(account: Account) -> Iterator[Problem]:
    wanted, found = account.environment.account, account.client("sts").get_caller_identity()["Account"]
    if wanted not in (None, found):
        yield Problem(found=f"the credentials are of {found}", ask=f"sign in to {wanted}")


def _neighbours(account: Account) -> Iterator[Problem]:
    """Environments of one account must not share what only one may have."""
    own = account.environment
    for other in account.together()[1:]:
        for name, value, same in (
            # Environments in a VPC of the organisation may share it, and none of its servers.
            ("cidr", None if own.existing.vpc else own.cidr, other.cidr),
            ("registry.domain", None if own.existing.registry else own.registry.domain, other.registry.domain),
            *(
                (f"existing.{each}", getattr(own.existing, each), getattr(other.existing, each))
                for each in ("kafka", "opensearch", "postgres", "registry")
            ),
            ("spark.daily_runs_hour", own.spark.daily_runs_hour, other.spark.daily_runs_hour),
        ):
            if value is not None and value == same:
                yield Problem(
                    found=f"{name} {value} is that of {other.name}, too",
                    ask=f"give {own.name} one of its own",
                )


def _lambda_concurrency(account: Account) -> Iterator[Problem]:
    """Return whether the account's quota suffices, which Service Quotas may not have yet.

    https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
    """
    limit = account.client("lambda").get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
    names = account.together()
    wanted = max(quota_for(names), *(each.concurrency.account for each in names))
    if limit < wanted:
        yield Problem(
            found=f"{limit} concurrent executions, {wanted} planned for {', '.join(each.name for each in names)}",
            ask=f"a quota of {wanted} for {CONCURRENCY.name} (L-B99A9384) of AWS Lambda",
        )


def _looked_up(quota: Quota) -> Check:
    """Return the check of a quota that Service Quotas has: the applied value, or AWS' default."""

    def check(account: Account) -> Iterator[Problem]:
        environments = account.together()
        wanted = sum(quota.used(each) for each in environments)
        limit = _limit(account, quota) if wanted else math.inf
        if limit is None or limit < wanted:
            names = ", ".join(each.name for each in environments)
            yield Problem(
                found=f"{'an unknown quota' if limit is None else f'{limit:.0f}'}, {wanted:.0f} planned for {names}",
                ask=f"a quota of {wanted:.0f} for {quota.name} of {quota.service}",
            )

    check.__doc__ = quota.page
    return check


def _limit(account: Account, quota: Quota) -> float | None:
    for operation in ("list_service_quotas", "list_aws_default_service_quotas"):
        quotas = _pages(account.client("service-quotas"), operation, "Quotas", ServiceCode=quota.service)
        for each in quotas:
            if each["QuotaName"] == quota.name:
                return float(each["Value"])
    return None


def _bootstrap(account: Account) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html"""
    identity = account.client("sts").get_caller_identity()["Account"]
    name = repository(account.environment, identity, account.environment.region)
    if _found(account.client("ecr").describe_repositories, repositoryNames=[name]) is None:
        yield Problem(found=f"the repository {name} does not exist", ask="cdk bootstrap")


def _linked_roles(account: Account) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create-service-linked-role.html"""
    for service, name in _LINKED.items():
        role = f"AWSServiceRoleFor{name}"
        if _found(account.client("iam").get_role, RoleName=role) is None:
            yield Problem(
                found=f"{role} does not exist",
                ask=f"aws iam create-service-linked-role --aws-service-name {service}",
            )


def _api_gateway_role(account: Account) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-logging.html"""
    if not account.client("apigateway").get_account().get("cloudwatchRoleArn"):
        yield Problem(
            found="the account has no role for logs",
            ask="a role with AmazonAPIGatewayPushToCloudWatchLogs: aws apigateway update-account",
        )


def _zones(account: Account) -> Iterator[Problem]:
    wanted = {account.environment.region + zone for zone in account.environment.zones}
    answer = account.client("ec2").describe_availability_zones()["AvailabilityZones"]
    if missing := wanted - {each["ZoneName"] for each in answer if each["State"] == "available"}:
        yield Problem(found=f"not available: {', '.join(sorted(missing))}", ask="other zones")


def _kafka_version(account: Account) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/msk/latest/developerguide/supported-kafka-versions.html"""
    if account.environment.existing.kafka is not None:
        return
    wanted = account.environment.kafka.version
    versions = _pages(account.client("kafka"), "list_kafka_versions", "KafkaVersions")
    active = [each["Version"] for each in versions if each["Status"] == "ACTIVE"]
    if wanted not in active:
        yield Problem(found=f"{wanted} is not offered", ask=f"one of {', '.join(active)}")


def _opensearch_types(account: Account) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/opensearch-service/latest/APIReference/API_ListInstanceTypeDetails.html"""
    if account.environment.existing.opensearch is not None:
        return
    config, opensearch = account.environment.opensearch, account.client("opensearch")
    wanted = {config.instance_type, *([config.master_type] if config.dedicated_masters else [])}
    if config.version not in _pages(opensearch, "list_versions", "Versions"):
        yield Problem(found=f"{config.version} is not offered", ask="another version")
        return
    details = _pages(opensearch, "list_instance_type_details", "InstanceTypeDetails", EngineVersion=config.version)
    if missing := wanted - {each["InstanceType"] for each in details}:
        yield Problem(found=f"not offered: {', '.join(sorted(missing))}", ask="other types")


def _postgres_types(account: Account) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/AmazonRDS/latest/APIReference/API_DescribeOrderableDBInstanceOptions.html"""
    config, existing = account.environment.database, account.environment.existing
    metrics = None if existing.postgres is not None else config.instance_type
    registry = None if existing.registry is not None else config.registry_instance_type
    for kind in dict.fromkeys(each for each in (metrics, registry) if each is not None):
        options = _pages(
            account.client("rds"),
            "describe_orderable_db_instance_options",
            "OrderableDBInstanceOptions",
            Engine="postgres",
            EngineVersion=config.version,
            DBInstanceClass=f"db.{kind}",
        )
        if next(options, None) is None:
            yield Problem(found=f"{config.version} on db.{kind} is not offered", ask="another version or class")


def _existing_servers(account: Account) -> Iterator[Problem]:
    """The organisation's servers are as the configuration describes them.

    https://docs.aws.amazon.com/opensearch-service/latest/developerguide/fgac.html
    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/UsingWithRDS.IAMDBAuth.html
    """
    environment, existing = account.environment, account.environment.existing
    # What is described → its value in the configuration, and that of the server.
    facts: dict[str, tuple[object, object]] = {}
    if (kafka := existing.kafka) is not None:
        answer = _found(account.client("kafka").describe_cluster_v2, ClusterArn=kafka.cluster_arn)
        cluster = _at(answer, "ClusterInfo", "Provisioned")
        facts["kafka.brokers"] = (environment.kafka.brokers, _at(cluster, "NumberOfBrokerNodes"))
        facts["sign-in by IAM of Kafka"] = (True, _at(cluster, "ClientAuthentication", "Sasl", "Iam", "Enabled"))
    if (opensearch := existing.opensearch) is not None:
        answer = _found(account.client("opensearch").describe_domain, DomainName=opensearch.name)
        domain = _at(answer, "DomainStatus")
        facts["existing.opensearch.endpoint"] = (opensearch.endpoint, _at(domain, "Endpoints", "vpc"))
        facts["fine-grained access control"] = (True, _at(domain, "AdvancedSecurityOptions", "Enabled"))
    if (postgres := existing.postgres) is not None:
        answer = _found(account.client("rds").describe_db_instances, DBInstanceIdentifier=postgres.instance)
        instance = answer["DBInstances"][0] if answer else None
        facts["existing.postgres.host"] = (postgres.host, _at(instance, "Endpoint", "Address"))
        facts["existing.postgres.port"] = (postgres.port, _at(instance, "Endpoint", "Port"))
        facts["existing.postgres.resource_id"] = (postgres.resource_id, _at(instance, "DbiResourceId"))
        facts["database.instance_type"] = (
            f"db.{environment.database.instance_type}",
            _at(instance, "DBInstanceClass"),
        )
        facts["sign-in by IAM of Postgres"] = (True, _at(instance, "IAMDatabaseAuthenticationEnabled"))
    for name, (wanted, found) in facts.items():
        if found != wanted:
            yield Problem(found=f"{name} is {found}, {wanted} in the configuration", ask="one value for both")


def _at(answer: Mapping[str, Any] | None, *names: str) -> Any:
    """Return a field of an answer; None if a part of its path is missing."""
    found: Any = answer
    for name in names:
        found = (found or {}).get(name)
    return found


def _email(account: Account) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/ses/latest/dg/request-production-access.html"""
    environment, ses = account.environment, account.client("sesv2")
    state, rate = ses.get_account(), environment.providers.per_s["email"]
    if not state["ProductionAccessEnabled"]:
        yield Problem(found="the account is in the sandbox", ask="production access to SES")
    if state["SendQuota"]["MaxSendRate"] < rate:
        yield Problem(
            found=f"{state['SendQuota']['MaxSendRate']:.0f} e-mails a second, {rate:.0f} planned",
            ask="a higher sending rate, or a lower providers.per_s",
        )
    verified: dict[str, bool] = {}
    for origin in table_of(environment.sender, environment.prefix).origins:
        sender = origin.address
        for name in (sender, sender.rpartition("@")[2]):
            if name not in verified:
                identity = _found(ses.get_email_identity, EmailIdentity=name)
                verified[name] = bool(identity and identity["VerifiedForSendingStatus"])
        domain = sender.rpartition("@")[2]
        # The deployment associates the domain with a tenant of SES.
        if not (verified[domain] or (verified[sender] and origin.ses_tenant is None)):
            yield Problem(found=f"{sender} is not verified", ask="a verified identity for its domain")
        if origin.ses_tenant is not None:
            yield from _tenant_of_ses(ses, origin)


def _tenant_of_ses(ses: Any, origin: EmailOrigin) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_GetTenant.html"""
    name = origin.ses_tenant
    # The deployment makes a tenant that does not exist.
    tenant = _found(ses.get_tenant, TenantName=name)
    if _at(tenant, "Tenant", "SendingStatus") == "DISABLED":
        yield Problem(found=f"SES has paused the tenant {name}", ask="docs/runbooks/email-reputation.md")


def _push(account: Account) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/sns/latest/api/API_ListPlatformApplications.html"""
    applications = {
        each["PlatformApplicationArn"].partition(":app/")[2]: each["Attributes"]
        for each in _pages(account.client("sns"), "list_platform_applications", "PlatformApplications")
    }
    for platform, kind in account.environment.platforms:
        name = f"{kind}/{account.environment.prefix}-{platform}"
        if applications.get(name, {}).get("Enabled") != "true":
            yield Problem(
                found=f"{name} {'is not enabled' if name in applications else 'does not exist'}",
                ask="an SNS platform application with valid credentials",
            )


def _sms(account: Account) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/pinpoint/latest/apireference_smsvoicev2/API_DescribePhoneNumbers.html"""
    origins = [each for each in sms_table().origins() if each.two_way]
    if not origins:
        return
    client = account.client("pinpoint-sms-voice-v2")
    known: dict[str, Mapping[str, Any]] = {}
    for operation, key, names in (
        ("describe_phone_numbers", "PhoneNumbers", ("PhoneNumber", "PhoneNumberId", "PhoneNumberArn")),
        ("describe_pools", "Pools", ("PoolId", "PoolArn")),
    ):
        for entry in _pages(client, operation, key):
            known |= {entry[name]: entry for name in names if name in entry}
    topic = sms_answers(account.environment)
    for identity in sorted({each.identity for each in origins}):
        found = known.get(identity)
        if found is None:
            yield Problem(found=f"{identity} does not exist", ask="the phone number or pool, or another sender of SMS")
        elif not found["TwoWayEnabled"] or not str(found.get("TwoWayChannelArn", "")).endswith(f":{topic}"):
            yield Problem(
                found=f"answers to {identity} do not reach masscomm", ask=f"two-way SMS with the topic {topic}"
            )
        elif not found["SelfManagedOptOutsEnabled"]:
            yield Problem(found=f"AWS opts recipients of {identity} out itself", ask="self-managed opt-outs")


def _certificates(account: Account) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/acm/latest/APIReference/API_DescribeCertificate.html"""
    environment = account.environment
    wanted = [(environment.api.certificate_arn, environment.api.domain)]
    if environment.existing.registry is None:
        wanted.append((environment.registry.certificate_arn, environment.registry.domain))
    if environment.console is not None:
        wanted.append((environment.console.certificate_arn, environment.console.domain))
    for arn, domain in wanted:
        if arn is None or domain is None:
            continue
        region = EDGE_REGION if f":{EDGE_REGION}:" in arn else environment.region
        found = _found(account.client("acm", region_name=region).describe_certificate, CertificateArn=arn)
        if found is None:
            yield Problem(found=f"{arn} does not exist", ask=f"a certificate for {domain}")
            continue
        certificate = found["Certificate"]
        names = {domain, f"*.{domain.partition('.')[2]}"}
        if certificate["Status"] != "ISSUED" or not names & set(certificate["SubjectAlternativeNames"]):
            yield Problem(
                found=f"{arn} is {certificate['Status']} for {', '.join(certificate['SubjectAlternativeNames'])}",
                ask=f"an issued certificate for {domain}",
            )


def _names(account: Account) -> Iterator[Problem]:
    """Resources with the names of a stack that does not exist here: of another region, or kept by a removal."""
    environment = account.environment
    if account.has_stack(environment, "data"):
        return
    role = f"{environment.global_prefix}-provisioner"
    if _found(account.client("iam").get_role, RoleName=role) is not None:
        yield Problem(found=f"the role {role} exists without its stack", ask="another name for the environment")
    found = set(_pages(account.client("dynamodb"), "list_tables", "TableNames"))
    if kept := found & {f"{environment.prefix}-{name}" for name in tables()}:
        yield Problem(
            found=f"tables exist without their stack: {', '.join(sorted(kept))}",
            ask="cdk deploy --import-existing-resources, or delete them",
        )


def _alarm_address(account: Account) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/sns/latest/dg/SendMessageToHttp.confirm.html"""
    if not account.has_stack(account.environment, "observability"):
        return
    stack = f"{account.environment.prefix}-observability"
    resources = _pages(
        account.client("cloudformation"), "list_stack_resources", "StackResourceSummaries", StackName=stack
    )
    topics = [each["PhysicalResourceId"] for each in resources if each["ResourceType"] == "AWS::SNS::Topic"]
    confirmed = {
        each["Endpoint"]
        for topic in topics
        for each in _pages(account.client("sns"), "list_subscriptions_by_topic", "Subscriptions", TopicArn=topic)
        if each["SubscriptionArn"].startswith("arn:")
    }
    if account.environment.alarm_email not in confirmed:
        yield Problem(
            found=f"{account.environment.alarm_email} has not confirmed its subscription",
            ask="follow the link in the e-mail of AWS Notifications",
        )


def _monolith(account: Account) -> Iterator[Problem]:
    config = account.environment.monolith
    if not account.environment.has("cdc"):
        return
    found = _found(account.client("secretsmanager").get_secret_value, SecretId=config.secret_name)
    if found is None:
        yield Problem(
            found=f"the secret {config.secret_name} does not exist",
            ask="create it (docs/deploying.md)",
        )
        return
    try:
        secret = json.loads(found.get("SecretString", ""))
    except ValueError:
        secret = {}
    if missing := [name for name in MONOLITH_FIELDS if not secret.get(name)]:
        yield Problem(found=f"the secret lacks {', '.join(missing)}", ask="add these fields")
    elif str(secret["port"]) != str(config.port):
        yield Problem(
            found=f"the secret has port {secret['port']}, the configuration {config.port}",
            ask="one port: the network opens the configured one",
        )


CHECKS: dict[str, Check] = {
    "configuration": _configuration,
    "account": _credentials,
    "neighbours": _neighbours,
    "lambda": _lambda_concurrency,
    **{name: _looked_up(quota) for name, quota in LOOKED_UP.items()},
    "bootstrap": _bootstrap,
    "service-linked role": _linked_roles,
    "api gateway": _api_gateway_role,
    "zones": _zones,
    "kafka": _kafka_version,
    "opensearch": _opensearch_types,
    "postgres": _postgres_types,
    "existing servers": _existing_servers,
    "ses": _email,
    "sns": _push,
    "sms": _sms,
    "certificate": _certificates,
    "names": _names,
    "alarms": _alarm_address,
    "monolith": _monolith,
}


def main() -> int:
    """Run the command and return its exit status: 1 if there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m infra.preflight", description=__doc__)
    parser.add_argument("environment")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each finding")
    add_folder_option(parser)
    chosen = parser.parse_args()
    try:
        known = tuple(environments(chosen.folder).values())
        environment = environment_of(chosen.environment, chosen.folder)
    except ValueError as error:
        parser.error(str(error))
    session: Any = boto3.Session()

    def client(service: str, region_name: str = environment.region) -> Any:
        return session.client(service, region_name=region_name)

    found = preflight(Account(client=client, environment=environment, environments=known))
    for each in found:
        line = (
            json.dumps({"check": each.check, "found": each.found, "ask": each.ask})
            if chosen.json
            else f"{each.check}: {each.found}. Ask: {each.ask}."
        )
        print(line)  # noqa: T201
    if not chosen.json:
        print(f"{len(CHECKS)} checks, {len(found)} findings")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
