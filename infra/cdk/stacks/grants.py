"""Grants each function its permissions, computed from schemas/topics.yaml and the function's profile."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam

from functions.catalogue import FunctionEntry
from infra.cdk.config import Environment
from infra.cdk.parts import has_mapping
from infra.cdk.profiles import CONNECT_OFFSETS_TOPIC, LEDGER, PROFILES, SENDS, Profile
from infra.cdk.resources.event_sources import consumer_group
from infra.cdk.resources.findings import explain
from infra.cdk.resources.function import MasscommFunction
from infra.cdk.resources.receipts import configuration_set
from infra.cdk.resources.tables import definitions
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.external_data import ExternalDataStack
from masscomm.cdc.captured_tables import table_topics
from masscomm.domain.aws_targets import ROLE_PREFIX
from masscomm.domain.email_settings import EmailTable, table_of
from masscomm.domain.lanes import Lane
from masscomm.kafka.outcome_progress import GROUP as OUTCOMES_GROUP
from masscomm.kafka.topic_reading import OPERATIONS_GROUP
from masscomm.kafka.topics import (
    CDC_PROGRESS_GROUP,
    DEAD_LETTER,
    DEAD_LETTER_STATUS,
    OUTCOME,
    SOURCE_RECORDS_GROUP,
    base_of,
    cdc_topic,
    chain_topics,
    generations,
    in_lane,
    served,
)
from masscomm.operations.dead_letter_replays import sources, transactional_id
from masscomm.operations.health import GROUP, consumed_topics

CDC_CONSUMER = "cdc_consumer"
# The operations of schemas/dynamodb that read.
_TABLE_READS = {"BatchGetItem", "GetItem", "Query"}

# The kinds of senders of SMS, as in their ARNs.
SMS_SENDERS = ("phone-number", "sender-id", "pool")


def written_topics(entry: FunctionEntry, lanes: int, environment: Environment) -> list[str]:
    """Return the topics to which the function produces according to schemas/topics.yaml. A function with lanes gets
    only the topics of its lane (kind of send), and none gets a broadcast queue without a mapping.
    """
    return [
        topic.name
        for topic in chain_topics()
        if entry.package in topic.producers
        and (lanes == 1 or topic.name in served(base_of(topic.name), entry.lane))
        and has_mapping(topic.name, environment)
    ]


def replayed_topics(environment: Environment) -> list[str]:
    """Return the topics to which operators may replay dead letters."""
    return [topic for topic in sorted(sources(environment.generation)) if has_mapping(topic, environment)]


def marks_batches(entry: FunctionEntry, environment: Environment) -> bool:
    """Return whether the function itself counts the attempts of its batches, in the table of the ledger."""
    return environment.pollers is None and entry.event_source is not None and entry.event_source.on_failure is not None


def grant_profile(
    function: MasscommFunction,
    *,
    data: DataStack | ExternalDataStack,
    environment: Environment,
    lanes: int,
    applications: Iterable[str],
) -> None:
    """Grant the function exactly the permissions that its topics and its profile need."""
    profile = PROFILES[function.entry.package]
    function.grant(_kafka(function.entry, profile, data, environment, lanes))
    function.grant(_directory(profile, data, environment))
    function.grant(_tables(profile, data))
    if marks_batches(function.entry, environment) and LEDGER not in profile.tables:
        # The calls of masscomm/stores/batch_marks/dynamodb.py.
        marks = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
        function.grant([iam.PolicyStatement(actions=marks, resources=[data.tables[LEDGER].table_arn])])
    applications = list(applications)
    function.grant(_provider(profile, Stack.of(function), environment, applications))
    if profile.push or profile.registers_endpoints:
        # cdk-nag reports the account as the text <AWS::AccountId>, and region and names as their values.
        names = [arn.split(":app/")[1] for arn in applications]
        prefix = f"IAM5[Resource::arn:aws:sns:{environment.region}:<AWS::AccountId>:endpoint"
        explain(
            function.role,
            "an application has one endpoint for each device, created and deleted at any time",
            *(f"{prefix}/{name}/*]" for name in names),
        )
    if profile.sms:
        explain(
            function.role,
            "schemas/sms.yaml names the senders of tenants, whose ARNs have generated ids",
            *(
                f"IAM5[Resource::arn:aws:sms-voice:{environment.region}:<AWS::AccountId>:{kind}/*]"
                for kind in SMS_SENDERS
            ),
        )
    if profile.checks_senders:
        explain(
            function.role,
            "the ARN of a tenant of SES ends with a generated id",
            *(
                f"IAM5[Resource::arn:aws:ses:{environment.region}:<AWS::AccountId>:tenant/{name}/*]"
                for name in _emails(environment).ses_tenants
            ),
        )
    if profile.assumes_roles:
        _grant_assumed_roles(function)
    if profile.operates:
        _grant_alarms(function, environment)
    if profile.database:
        function.grant(data.database.statements(function, profile.database))


def _grant_assumed_roles(function: MasscommFunction) -> None:
    """Permit AssumeRole for the roles of other accounts that tenants made for masscomm, by their names."""
    roles = f"arn:aws:iam::*:role/{ROLE_PREFIX}*"
    function.grant(
        [
            iam.PolicyStatement(
                actions=["sts:AssumeRole"],
                resources=[roles],
                # The roles of the installation itself are none of a tenant's.
                conditions={"StringNotEquals": {"aws:ResourceAccount": Stack.of(function).account}},
            )
        ]
    )
    explain(
        function.role,
        "tenants name the roles, which need an external id",
        f"IAM5[Resource::{roles}]",
    )


def _grant_alarms(function: MasscommFunction, environment: Environment) -> None:
    """Permit DescribeAlarms of this account's alarms: a request by prefix concerns all of them."""
    alarms = Stack.of(function).format_arn(
        service="cloudwatch", resource="alarm", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    function.grant([iam.PolicyStatement(actions=["cloudwatch:DescribeAlarms"], resources=[alarms])])
    explain(
        function.role,
        "a list of alarms by the prefix of their names concerns all alarms",
        f"IAM5[Resource::arn:aws:cloudwatch:{environment.region}:<AWS::AccountId>:alarm:*]",
    )


def _kafka(
    entry: FunctionEntry, profile: Profile, data: DataStack | ExternalDataStack, environment: Environment, lanes: int
) -> list[iam.PolicyStatement]:
    writes = written_topics(entry, lanes, environment)
    reads = list(dict.fromkeys(in_lane(name, lane) for name in profile.reads for lane in Lane))
    if profile.operates:
        return _operations(writes, data, environment)
    tables = [topic for each in generations(environment.generation) for topic in table_topics(each)]
    if profile.marks_changelogs:
        writes = [*writes, *tables]
    if not profile.asks_cdc:
        return data.kafka.statements(writes=writes, reads=reads, asks=[SOURCE_RECORDS_GROUP] if reads else [])
    groups = cdc_groups(environment)
    if profile.asks_outcomes:
        groups, tables = [*groups, consumer_group(OUTCOMES_GROUP, OUTCOME)], [*tables, OUTCOME]
    return data.kafka.statements(writes=writes, reads=[*reads, CONNECT_OFFSETS_TOPIC], asks=groups, describes=tables)


def cdc_groups(environment: Environment) -> list[str]:
    """Return the groups that masscomm/cdc/progress.py asks for: its own, and those of cdc_consumer."""
    tables = [topic for each in generations(environment.generation) for topic in table_topics(each)]
    return [CDC_PROGRESS_GROUP] + [consumer_group(f"masscomm.{CDC_CONSUMER}", topic) for topic in tables]


def _operations(
    writes: list[str], data: DataStack | ExternalDataStack, environment: Environment
) -> list[iam.PolicyStatement]:
    """Return the permissions to replay dead letters to every topic that a function consumes, and to measure lags."""
    consumed = consumed_topics(environment.generation)
    groups = [
        consumer_group(GROUP.format(function=name), topic) for name, topics in consumed.items() for topic in topics
    ]
    heartbeats = [cdc_topic("heartbeat", each) for each in generations(environment.generation)]
    return data.kafka.statements(
        reads=[DEAD_LETTER, DEAD_LETTER_STATUS, *heartbeats],
        writes=list(dict.fromkeys([*writes, *replayed_topics(environment)])),
        describes=list(dict.fromkeys(topic for topics in consumed.values() for topic in topics)),
        asks=[OPERATIONS_GROUP, *groups],
        transacts=[transactional_id(DEAD_LETTER_STATUS)],
    )


def _directory(
    profile: Profile, data: DataStack | ExternalDataStack, environment: Environment
) -> list[iam.PolicyStatement]:
    return data.directory.statements(of_generations(profile.requests, environment))


def of_generations(requests: Iterable[str], environment: Environment) -> list[str]:
    """Return requests to OpenSearch with the names of the captured snapshot generations."""
    captured = generations(environment.generation)
    return list(dict.fromkeys(request.format(generation=each) for request in requests for each in captured))


def _tables(profile: Profile, data: DataStack | ExternalDataStack) -> list[iam.PolicyStatement]:
    used = profile.every_table
    if not used:
        return []
    key = data.tables[used[0]].encryption_key
    if key is None:
        raise ValueError(f"table {used[0]} has no encryption key")
    # TransactWriteItems has no action of its own: it needs those of its items (AWS documentation, DynamoDB developer
    # guide, "Using IAM with DynamoDB transactions").
    arns: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, definition in definitions().items():
        if name in profile.tables:
            arns[tuple(definition["operations"])].append(data.tables[name].table_arn)
        elif name in profile.tables_read:
            arns[tuple(sorted(_TABLE_READS.intersection(definition["operations"])))].append(data.tables[name].table_arn)
        elif name in profile.tables_updated:
            arns["UpdateItem",].append(data.tables[name].table_arn)
    if profile.emits_outcomes:
        arns[tuple(definitions()[SENDS]["operations_of_emitters"])].append(data.tables[SENDS].table_arn)
    return [
        *(
            iam.PolicyStatement(actions=[f"dynamodb:{operation}" for operation in operations], resources=resources)
            for operations, resources in arns.items()
        ),
        *(
            iam.PolicyStatement(actions=["dynamodb:Query"], resources=[f"{data.tables[table].table_arn}/index/{index}"])
            for table, index in profile.table_indices
        ),
        iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:DescribeKey"],
            resources=[key.key_arn],
            conditions={"StringEquals": {"kms:ViaService": f"dynamodb.{Stack.of(data).region}.amazonaws.com"}},
        ),
    ]


def _emails(environment: Environment) -> EmailTable:
    """Return how e-mails are sent (schemas/email.yaml)."""
    return table_of(environment.sender, configuration_set(environment))


def _one_or_all(values: Iterable[str]) -> str | list[str]:
    """Return the value of a condition: one text, or several, of which one must match."""
    found = list(values)
    return found[0] if len(found) == 1 else found


def _provider(
    profile: Profile, stack: Stack, environment: Environment, applications: list[str]
) -> list[iam.PolicyStatement]:
    endpoints = [f"{arn.replace(':app/', ':endpoint/')}/*" for arn in applications]
    found = []
    if profile.push:
        found.append(iam.PolicyStatement(actions=["sns:Publish"], resources=endpoints))
    if profile.registers_endpoints:
        found.append(iam.PolicyStatement(actions=["sns:CreatePlatformEndpoint"], resources=applications))
        found.append(iam.PolicyStatement(actions=["sns:SetEndpointAttributes"], resources=endpoints))
    if profile.email:
        emails = _emails(environment)
        addresses = dict.fromkeys(each.address for each in emails.origins)
        sets = dict.fromkeys((configuration_set(environment), *emails.configuration_sets))
        conditions: dict[str, Any] = {"StringEquals": {"ses:FromAddress": _one_or_all(addresses)}}
        if emails.ses_tenants:
            conditions["StringEqualsIfExists"] = {"ses:TenantName": _one_or_all(emails.ses_tenants)}
        found.append(
            iam.PolicyStatement(
                # SES checks SendRawEmail, too, for a raw message in SendEmail.
                actions=["ses:SendEmail", "ses:SendRawEmail"],
                resources=[
                    stack.format_arn(service="ses", resource=kind, resource_name=name)
                    for kind, name in (
                        *(("identity", each) for each in emails.identities),
                        *(("configuration-set", each) for each in sets),
                    )
                ],
                conditions=conditions,
            )
        )
    if profile.checks_senders:
        emails = _emails(environment)
        identities = [
            stack.format_arn(service="ses", resource="identity", resource_name=each) for each in emails.identities
        ]
        found.append(iam.PolicyStatement(actions=["ses:GetEmailIdentity"], resources=identities))
        if tenants := emails.ses_tenants:
            arns = [stack.format_arn(service="ses", resource="tenant", resource_name=f"{each}/*") for each in tenants]
            found.append(iam.PolicyStatement(actions=["ses:ListTenantResources"], resources=arns))
    if profile.sms:
        # The senders are in schemas/sms.yaml: all of this account and region.
        found.append(
            iam.PolicyStatement(
                actions=["sms-voice:SendTextMessage"],
                resources=[
                    stack.format_arn(service="sms-voice", resource=kind, resource_name="*") for kind in SMS_SENDERS
                ],
            )
        )
    return found
