"""Rules for the templates that also apply to any future resource."""

import base64
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from functions.catalogue import read_catalogue
from infra.cdk.examples import ENVIRONMENTS
from infra.cdk.parts import deployed
from infra.cdk.profiles import API_KEYS, PROFILES, SENDS
from infra.cdk.resources.spark_run import shipped_jars
from local.devstack.config import ROOT
from masscomm.cdc.captured_tables import table_topics
from masscomm.cdc.debezium import debezium_config
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.http.problem import ProblemBody
from masscomm.http.scopes import PUBLIC_ROUTES
from masscomm.kafka.topics import (
    DEAD_LETTER,
    DEAD_LETTER_STATUS,
    OUTCOME,
    cdc_topic,
    cdc_topics,
    chain_topics,
    in_lane,
    lane_of,
)
from masscomm.observability.metric_names import DAILY_RUNS
from masscomm.operations.dead_letter_replays import sources as sources_of_dead_letters
from masscomm.texts import Text
from spark_metrics.common.session import JVM_OPTIONS
from tests.support.cdk.synthesise import REPLACING, SYNTHESISED
from tests.support.cdk.templates import (
    OUTSIDE_THE_VPC,
    Resource,
    SynthesisedEnvironment,
    actions,
    as_list,
    flat,
    kafka_mappings,
    role_statements,
    statements,
    targets,
    task_definition,
)
from tests.support.inputs import receipt_events

KAFKA_FUNCTIONS = {entry.name for entry in read_catalogue(generation="g1") if entry.event_source is not None}
ALL_FUNCTIONS = {entry.name for entry in read_catalogue(generation="g1")}
# The variables that name servers in the VPC.
SERVERS_IN_THE_VPC = {"KAFKA_BOOTSTRAP_SERVERS", "METRICS_DATABASE_URL", "OPENSEARCH_URL", "SCHEMA_REGISTRY_URL"}
# Actions that IAM can allow only on "*".
WITHOUT_RESOURCE = re.compile(
    r"ec2:(Create|Delete|Describe)NetworkInterfaces?|ec2:Describe(SecurityGroups|Subnets|Vpcs)"
    r"|ec2:(Assign|Unassign)PrivateIpAddresses|xray:Put(TelemetryRecords|TraceSegments)|ecr:GetAuthorizationToken"
)


def test_synthesis_needs_no_look_up(environment: SynthesisedEnvironment) -> None:
    assert "missing" not in environment.manifest
    assert "env" not in json.dumps(list(environment.templates()))


def test_every_finding_is_explained(environment: SynthesisedEnvironment) -> None:
    report = json.loads((environment.folder / "validation-report.json").read_text())
    assert [finding for plugin in report["pluginReports"] for finding in plugin["violations"]] == []
    # cdk-nag's AwsSolutions rules fail the synthesis at an unexplained finding; the templates list the explained ones.
    explained = [
        rule
        for resource in environment.resources()
        for rule in resource.attributes.get("Metadata", {}).get("cdk_nag", {}).get("rules_to_suppress", [])
    ]
    assert explained
    assert [rule for rule in explained if len(rule["reason"].split()) < 5] == []


def test_synthesis_has_no_warnings(environment: SynthesisedEnvironment) -> None:
    said = [entry for path in environment.folder.glob("*.json") for entry in _annotations(json.loads(path.read_text()))]
    assert said == []


def _annotations(document: Any) -> Iterator[Any]:
    """Yield the warnings, errors and notes that constructs attach for the developer."""
    if isinstance(document, dict):
        if str(document.get("type", "")) in ("aws:cdk:warning", "aws:cdk:error", "aws:cdk:info"):
            yield document
        for each in document.values():
            yield from _annotations(each)
    elif isinstance(document, list):
        for each in document:
            yield from _annotations(each)


def test_every_topic_is_made_with_its_retention(environment: SynthesisedEnvironment) -> None:
    wanted = {topic.name: topic for topic in [*chain_topics(), *cdc_topics("g1")]}
    made = {each.properties["TopicName"]: each.properties for each in environment.resources("AWS::MSK::Topic")}
    assert made.keys() == wanted.keys()
    for name, properties in made.items():
        topic = wanted[name]
        config = json.loads(base64.b64decode(properties["Configs"]))
        assert topic.owner
        assert topic.producers
        assert int(config["retention.ms"]) == topic.retention_hours * 3_600_000 > 0
        assert config["cleanup.policy"] == topic.cleanup
        assert config == topic.config
        assert int(config["max.message.bytes"]) == topic.max_message_bytes
        assert int(config["message.timestamp.after.max.ms"]) == topic.timestamp_ahead_ms > 0
        assert properties["ReplicationFactor"] == ENVIRONMENTS[environment.name].kafka.replication_factor
        assert properties["PartitionCount"] % topic.partitions == 0


def test_kafka_accepts_only_iam_over_tls(environment: SynthesisedEnvironment) -> None:
    (cluster,) = environment.resources("AWS::MSK::Cluster")
    assert cluster.properties["ClientAuthentication"] == {
        "Sasl": {"Iam": {"Enabled": True}},
        "Unauthenticated": {"Enabled": False},
    }
    assert cluster.properties["EncryptionInfo"]["EncryptionInTransit"] == {"ClientBroker": "TLS", "InCluster": True}
    assert cluster.properties["EncryptionInfo"]["EncryptionAtRest"]["DataVolumeKMSKeyId"]


# --- functions --------------------------------------------------------------------------------------------------------


def _functions(environment: SynthesisedEnvironment) -> dict[str, dict[str, Any]]:
    prefix = f"masscomm-{environment.name}-"
    return {
        str(each.properties["FunctionName"]).removeprefix(prefix): each.properties
        for each in environment.resources("AWS::Lambda::Function")
        if each.stack == "functions" and "FunctionName" in each.properties  # CDK's own functions have no name
    }


def test_every_function_of_the_catalogue_is_deployed(environment: SynthesisedEnvironment) -> None:
    functions = _functions(environment)
    assert functions.keys() == ALL_FUNCTIONS
    assert {name for name, properties in functions.items() if not properties.get("VpcConfig")} == OUTSIDE_THE_VPC
    for properties in functions.values():
        assert properties["Runtime"] == "python3.13"
        assert properties["Architectures"] == ["arm64"]
        assert properties["TracingConfig"] == {"Mode": "Active"}
        assert "log" in flat(properties["LoggingConfig"]["LogGroup"])


def test_each_function_logs_to_a_declared_log_group(
    environment: SynthesisedEnvironment,
) -> None:
    """The rule also applies to the functions that CDK adds for its own resources."""
    groups = {(each.stack, f"{{{each.id}}}") for each in environment.resources("AWS::Logs::LogGroup")}
    functions = list(environment.resources("AWS::Lambda::Function"))
    assert {each.stack for each in functions} >= {"api", "data", "functions", "metrics"}
    for function in functions:
        log = flat(function.properties.get("LoggingConfig", {}).get("LogGroup", ""))
        assert (function.stack, log) in groups, function


def test_log_groups_of_services_are_declared(
    prod: SynthesisedEnvironment,
) -> None:
    """A service that creates its log group itself sets no retention period."""
    named = {flat(each.properties.get("LogGroupName", "")): each.id for each in prod.resources("AWS::Logs::LogGroup")}
    expected: dict[str, Resource] = {}
    for instance in prod.resources("AWS::RDS::DBInstance"):
        for kind in instance.properties["EnableCloudwatchLogsExports"]:
            expected[f"/aws/rds/instance/{instance.properties['DBInstanceIdentifier']}/{kind}"] = instance
    for proxy in prod.resources("AWS::RDS::DBProxy"):
        expected[f"/aws/rds/proxy/{proxy.properties['DBProxyName']}"] = proxy
    for stage in prod.resources("AWS::ApiGateway::Stage"):
        name = f"{flat(stage.properties['RestApiId'])}/{stage.properties['StageName']}"
        expected[f"API-Gateway-Execution-Logs_{name}"] = stage
    assert len(expected) == 5
    for name, resource in expected.items():
        assert named[name] in as_list(resource.attributes["DependsOn"]), resource


def test_each_resource_is_tagged_with_its_environment(environment: SynthesisedEnvironment) -> None:
    tagged = set()
    for resource in environment.resources():
        tags = resource.properties.get("Tags")
        if tags is not None:
            found = tags if isinstance(tags, dict) else {each["Key"]: each["Value"] for each in tags}
            assert (found["application"], found["environment"]) == ("masscomm", environment.name), resource
            tagged.add(resource.type)
    assert tagged >= {
        *("AWS::MSK::Cluster", "AWS::OpenSearchService::Domain", "AWS::RDS::DBInstance", "AWS::DynamoDB::Table"),
        *("AWS::S3::Bucket", "AWS::Lambda::Function", "AWS::EMRServerless::Application", "AWS::ECS::Service"),
        *("AWS::ApiGateway::Stage", "AWS::EC2::VPCEndpoint", "AWS::Logs::LogGroup"),
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
    }


def test_each_mapping_reports_item_failures_and_has_on_failure(
    prod: SynthesisedEnvironment,
) -> None:
    by_function: defaultdict[str, list[str]] = defaultdict(list)
    groups: Counter[str] = Counter()
    resources = {each.id: each for each in prod.resources() if each.stack == "functions"}
    for mapping in kafka_mappings(prod):
        properties = mapping.properties
        assert properties["FunctionResponseTypes"] == ["ReportBatchItemFailures"], mapping
        assert properties["ProvisionedPollerConfig"]["MinimumPollers"] == 1, mapping
        assert properties["StartingPosition"] == "TRIM_HORIZON", mapping
        assert "FilterCriteria" not in properties, mapping
        (topic,) = properties["Topics"]
        alias = resources[properties["FunctionName"]["Ref"]]
        function = resources[alias.properties["FunctionName"]["Ref"]].properties["FunctionName"]
        name = function.removeprefix(f"masscomm-{prod.name}-")
        # A batching window would delay notifications and events; these records are not urgent, or wait for each other.
        gathers = topic == OUTCOME or name in ("receipts", "webhook_batch_sender", "webhook_retry_sender")
        assert properties["MaximumBatchingWindowInSeconds"] == int(gathers), mapping
        groups[properties["AmazonManagedKafkaEventSourceConfig"]["ConsumerGroupId"]] += 1
        destination = properties.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
        if destination is None:
            assert properties["MaximumRetryAttempts"] == -1, mapping
            assert properties.get("MaximumRecordAgeInSeconds", -1) == -1, mapping
        else:
            assert destination == "kafka://on-failure", mapping
            assert properties["BisectBatchOnFunctionError"] is True, mapping
        by_function[name].append(topic)
    assert by_function.keys() == KAFKA_FUNCTIONS
    assert max(groups.values()) == 1
    for entry in read_catalogue(generation="g1"):
        if entry.event_source is not None:
            assert sorted(by_function[entry.name]) == sorted(entry.event_source.topics)


def test_record_age_limit_is_below_the_topics_retention(environment: SynthesisedEnvironment) -> None:
    retention = {topic.name: topic.retention_hours * 3600 for topic in [*chain_topics(), *cdc_topics("g1")]}
    for mapping in kafka_mappings(environment):
        age = mapping.properties.get("MaximumRecordAgeInSeconds", -1)
        assert age == -1 or 60 <= age < retention[mapping.properties["Topics"][0]], mapping


def test_each_schedule_target_has_a_dead_letter_queue(environment: SynthesisedEnvironment) -> None:
    rules = [each for each in environment.resources("AWS::Events::Rule") if each.stack == "functions"]
    assert rules
    for rule in rules:
        for target in rule.properties["Targets"]:
            assert target["DeadLetterConfig"]["Arn"], rule


def test_sns_delivery_logs_are_enabled_and_reach_receipts(
    environment: SynthesisedEnvironment,
) -> None:
    alias = next(
        f"{{{each.id}}}" for each in environment.resources("AWS::Lambda::Alias") if each.id.startswith("receipts")
    )
    subscribed = {
        flat(each.properties["LogGroupName"]).strip("{}"): flat(each.properties["DestinationArn"])
        for each in environment.resources("AWS::Logs::SubscriptionFilter")
    }
    assert set(subscribed.values()) == {alias}
    groups = {
        each.id: flat(each.properties.get("LogGroupName", "")) for each in environment.resources("AWS::Logs::LogGroup")
    }
    names = {groups[group] for group in subscribed}
    (attributes, *others) = [
        json.loads(flat(each.properties["Update"]))
        for each in environment.resources("Custom::AWS")
        if "setPlatformApplicationAttributes" in flat(each.properties["Update"])
    ]
    logging = {}
    for call in (attributes, *others):
        application = call["parameters"]["PlatformApplicationArn"].partition(":app/")[2]
        logging[application] = call["parameters"]["Attributes"]
    region = ENVIRONMENTS[environment.name].region
    of_account = f"sns/{region}/{{AWS::AccountId}}/app/"
    assert names == {f"{of_account}{name}{suffix}" for name in logging for suffix in ("", "/Failure")}
    topics = {f"{{{each.id}}}" for each in environment.resources("AWS::SNS::Topic") if each.stack == "functions"}
    roles = {f"{{{each.id}.Arn}}" for each in environment.resources("AWS::IAM::Role")}
    for values in logging.values():
        assert values["SuccessFeedbackSampleRate"] == "100"
        assert values["SuccessFeedbackRoleArn"] == values["FailureFeedbackRoleArn"]
        assert values["SuccessFeedbackRoleArn"] in roles
        assert values["EventDeliveryFailure"] in topics
    subscriptions = [
        each for each in environment.resources("AWS::SNS::Subscription") if each.properties["Protocol"] == "lambda"
    ]
    for subscription in subscriptions:
        assert flat(subscription.properties["Endpoint"]) == alias
        assert subscription.properties["RedrivePolicy"]["deadLetterTargetArn"]
    assert {flat(each.properties["TopicArn"]) for each in subscriptions} <= topics
    assert len(subscriptions) == 2, "push failures and answers to SMS"


def test_sms_service_alone_publishes_answers(environment: SynthesisedEnvironment) -> None:
    (topic,) = [
        each
        for each in environment.resources("AWS::SNS::Topic")
        if each.properties["TopicName"] == f"masscomm-{environment.name}-sms-answers"
    ]
    assert topic.properties["KmsMasterKeyId"]
    allowed = [
        statement
        for resource, statement in statements(environment, "AWS::SNS::TopicPolicy")
        if f"{{{topic.id}}}" in map(flat, resource.properties["Topics"]) and statement["Effect"] == "Allow"
    ]
    assert [each["Principal"] for each in allowed] == [{"Service": "sms-voice.amazonaws.com"}]
    assert allowed[0]["Condition"]["StringEquals"].keys() == {"aws:SourceAccount"}


def test_ses_events_reach_receipts(environment: SynthesisedEnvironment) -> None:
    (configured,) = environment.resources("AWS::SES::ConfigurationSet")
    (destination,) = environment.resources("AWS::SES::ConfigurationSetEventDestination")
    rule = _rule_of(environment, "aws.ses")
    name = configured.properties["Name"]
    for function in ("delivery", "delivery-critical"):
        variables = _functions(environment)[function]["Environment"]["Variables"]
        assert variables["SES_CONFIGURATION_SET"] == name
    may = [
        target
        for _, statement in statements(environment)
        if "ses:SendRawEmail" in actions(statement)
        for target in targets(statement)
    ]
    assert len([target for target in may if target.endswith(f":configuration-set/{name}")]) == 2
    event_types = set(destination.properties["EventDestination"]["MatchingEventTypes"])
    assert event_types == {"delivery", "bounce", "complaint", "reject", "renderingFailure"}
    pattern = rule.properties["EventPattern"]
    assert pattern == {"source": ["aws.ses"], "detail": {"mail": {"tags": {"ses:configuration-set": [name]}}}}
    assert receipt_events.DELIVERED["mail"]["tags"].keys() >= {"ses:configuration-set"}  # type: ignore[index]
    (target,) = rule.properties["Targets"]
    assert flat(target["Arn"]).startswith("{receipts")


def test_events_of_sms_reach_receipts(environment: SynthesisedEnvironment) -> None:
    (target,) = _rule_of(environment, "aws.sms-voice").properties["Targets"]
    assert flat(target["Arn"]).startswith("{receipts")


def _rule_of(environment: SynthesisedEnvironment, source: str) -> Resource:
    (rule,) = [
        each
        for each in environment.resources("AWS::Events::Rule")
        if each.properties.get("EventPattern", {}).get("source") == [source]
    ]
    return rule


def test_aws_may_invoke_receipts_from_there_alone(environment: SynthesisedEnvironment) -> None:
    may = [
        each.properties
        for each in environment.resources("AWS::Lambda::Permission")
        if flat(each.properties["FunctionName"]).startswith("{receipts")
    ]
    assert Counter(each["Principal"].partition(".")[0] for each in may) == {"logs": 4, "sns": 2, "events": 2}
    assert all(each["SourceArn"] for each in may)


def test_failed_events_of_receipts_reach_a_queue(environment: SynthesisedEnvironment) -> None:
    (invoking,) = environment.resources("AWS::Lambda::EventInvokeConfig")
    queue = flat(invoking.properties["DestinationConfig"]["OnFailure"]["Destination"])
    assert queue.startswith("{receipts")
    sends = {
        target for _, each in statements(environment) if "sqs:SendMessage" in actions(each) for target in targets(each)
    }
    assert queue in sends


# Intrinsic function → number of characters that replace it: half of the cluster's ARN, an ARN, or an account id.
_LENGTHS = {"Fn::Select": 55, "Fn::ImportValue": 100, "Fn::GetAtt": 100, "Ref": 20}


def _rendered(value: Any) -> Any:
    """Replace references, so that the policy has the length that IAM counts."""
    match value:
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(map(_rendered, parts))
        case dict() if len(value) == 1 and (name := next(iter(value))) in _LENGTHS:
            return "x" * _LENGTHS[name]
        case {"Fn::Sub": str(text)}:
            return text
        case dict():
            return {name: _rendered(each) for name, each in value.items()}
        case list():
            return [_rendered(each) for each in value]
        case _:
            return value


def test_inline_policies_of_a_role_fit_into_iams_limit(environment: SynthesisedEnvironment) -> None:
    """A role has 10,240 characters for all inline policies: each topic adds a line to several of them."""
    lengths: Counter[str] = Counter()
    for policy in environment.resources("AWS::IAM::Policy"):
        text = json.dumps(_rendered(policy.properties["PolicyDocument"]), separators=(",", ":"))
        for role in policy.properties["Roles"]:
            lengths[flat(role)] += len(text)
    assert len(lengths) > 10
    assert {role: length for role, length in lengths.items() if length > 10_000} == {}


@pytest.mark.parametrize("name", [*SYNTHESISED, REPLACING.name])
def test_managed_policies_fit_into_iams_limits(synthesised: dict[str, SynthesisedEnvironment], name: str) -> None:
    """A managed policy has 6,144 characters, and a role 10 of them.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
    """
    environment = synthesised[name]
    number: Counter[str] = Counter()
    for policy in environment.resources("AWS::IAM::ManagedPolicy"):
        text = json.dumps(_rendered(policy.properties["PolicyDocument"]), separators=(",", ":"))
        assert len(text) <= 6144, policy
        number.update(flat(role) for role in policy.properties.get("Roles", []))
    for role in environment.resources("AWS::IAM::Role"):
        number[f"{{{role.id}}}"] += len(role.properties.get("ManagedPolicyArns", []))
    assert {role: count for role, count in number.items() if count > 10} == {}


def test_no_variable_holds_a_secret(environment: SynthesisedEnvironment) -> None:
    for name, properties in _functions(environment).items():
        variables = properties["Environment"]["Variables"]
        for variable, value in variables.items():
            assert not re.search(r"PASSWORD|TOKEN|SECRET(?!_ARN)", variable), f"{name}: {variable}"
            assert "resolve:secretsmanager" not in flat(value), f"{name}: {variable}"
            assert not re.search(r"://[^/@]*:[^/@]*@", flat(value)), f"{name}: {variable}"


def test_templates_neither_hold_nor_resolve_a_secret(environment: SynthesisedEnvironment) -> None:
    for stack, template in environment.templates().items():
        text = json.dumps(template)
        # A resolved reference would be visible in the resource to everyone with permission to describe it.
        assert "resolve:secretsmanager" not in text, stack
        assert "resolve:ssm-secure" not in text, stack
        assert not re.search(r'"(MasterUserPassword|SecretString)"', text), stack
        assert not re.search(r"AKIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY", text), stack


def test_each_address_in_the_templates_uses_tls(environment: SynthesisedEnvironment) -> None:
    for resource in environment.resources():
        text = flat(resource.properties)
        # Kafka Connect's REST interface listens on the loopback interface of its task.
        assert not re.search(r"http://(?!www\.w3\.org|127\.0\.0\.1:)", text), resource
        assert '"HTTP"' not in text, resource
    for name, function in _functions(environment).items():
        variables = function["Environment"]["Variables"]
        if name in OUTSIDE_THE_VPC:
            assert not variables.keys() & SERVERS_IN_THE_VPC, name
            continue
        url = flat(variables["SCHEMA_REGISTRY_URL"])
        assert url == f"https://{ENVIRONMENTS[environment.name].registry.domain}/apis/ccompat/v7"


def test_the_registry_is_reached_by_its_name_through_tls_alone(environment: SynthesisedEnvironment) -> None:
    (balancer,) = environment.resources("AWS::ElasticLoadBalancingV2::LoadBalancer")
    assert balancer.properties["Scheme"] == "internal"
    listeners = [each.properties for each in environment.resources("AWS::ElasticLoadBalancingV2::Listener")]
    assert {(each["Protocol"], each["Port"]) for each in listeners} == {("HTTPS", 443), ("HTTPS", 8444)}
    assert all("TLS13" in each["SslPolicy"] for each in listeners)
    (group,) = environment.resources("AWS::ElasticLoadBalancingV2::TargetGroup")
    assert (group.properties["Protocol"], group.properties["HealthCheckProtocol"]) == ("HTTPS", "HTTPS")
    domain = ENVIRONMENTS[environment.name].registry.domain
    (certificate,) = environment.resources("AWS::CertificateManager::Certificate")
    (zone,) = environment.resources("AWS::Route53::HostedZone")
    (record,) = environment.resources("AWS::Route53::RecordSet")
    assert certificate.properties["DomainName"] == domain
    assert (zone.properties["Name"], record.properties["Name"]) == (f"{domain}.", f"{domain}.")
    assert zone.properties["VPCs"]
    task = task_definition(environment, "registry")
    containers = {each["Name"]: each for each in task.properties["ContainerDefinitions"]}
    variables = {each["Name"]: each["Value"] for each in containers["apicurio"]["Environment"]}
    assert variables["QUARKUS_HTTP_INSECURE_REQUESTS"] == "disabled"
    assert containers["apicurio"]["PortMappings"][0]["ContainerPort"] == group.properties["Port"]
    assert containers["apicurio"]["DependsOn"] == [{"Condition": "SUCCESS", "ContainerName": "keys"}]


def test_variables_of_a_function_fit_into_lambdas_limit(environment: SynthesisedEnvironment) -> None:
    for function in environment.resources("AWS::Lambda::Function"):
        variables = function.properties.get("Environment", {}).get("Variables", {})
        # The value of a reference, such as an ARN, may be longer than its text in the template.
        longer = 100 * sum(not isinstance(value, str) for value in variables.values())
        # https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
        assert longer + sum(len(name) + len(flat(value)) for name, value in variables.items()) < 4096, function


# --- permissions ------------------------------------------------------------------------------------------------------


def test_statements_name_each_action_and_resource(environment: SynthesisedEnvironment) -> None:
    """Only actions that IAM cannot restrict to a resource may have the resource "*"."""
    for resource, statement in statements(environment):
        if resource.type == "AWS::KMS::Key":
            continue  # in the key's own policy "*" means the key itself
        if resource.type == "AWS::EC2::VPCEndpoint":
            continue  # it permits nothing by itself: test_endpoints_refuse_credentials_of_another_account
        if statement["Effect"] == "Deny":
            continue
        assert "NotAction" not in statement, resource
        assert "NotResource" not in statement, resource
        assert [action for action in actions(statement) if "*" in action] == [], resource
        if "*" in targets(statement):
            assert [action for action in actions(statement) if not WITHOUT_RESOURCE.fullmatch(action)] == [], resource


def test_senders_assume_named_roles_of_other_accounts_only(environment: SynthesisedEnvironment) -> None:
    found = [
        (role["Ref"], statement)
        for resource, statement in role_statements(environment)
        for role in resource.properties.get("Roles", [])
        if "sts:AssumeRole" in actions(statement)
    ]
    senders = [name for name, profile in PROFILES.items() if profile.assumes_roles]
    roles = {
        properties["Role"]["Fn::GetAtt"][0] for name, properties in _functions(environment).items() if name in senders
    }
    assert {role for role, _ in found} == roles
    for _, statement in found:
        assert targets(statement) == {"arn:aws:iam::*:role/masscomm-*"}
        assert statement["Condition"]["StringNotEquals"].keys() == {"aws:ResourceAccount"}


def test_a_function_reaches_its_own_topics_and_groups_only(environment: SynthesisedEnvironment) -> None:
    entries = {entry.name: entry for entry in deployed(ENVIRONMENTS[environment.name])}
    consumed = {topic for entry in entries.values() if entry.event_source for topic in entry.event_source.topics}
    allowed: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for resource, statement in role_statements(environment):
        if resource.stack == "functions":
            for role in resource.properties["Roles"]:
                for action in actions(statement):
                    allowed[role["Ref"]][action] |= targets(statement)
    roles = {
        str(each.properties["FunctionName"]).split("-", 2)[2]: each.properties["Role"]["Fn::GetAtt"][0]
        for each in environment.resources("AWS::Lambda::Function")
        if each.stack == "functions" and "FunctionName" in each.properties  # CDK's own functions have no name
    }
    for name, entry in entries.items():
        lane = name.endswith("-critical")
        found = {
            action: {target.rpartition("/")[2] for target in allowed[roles[name]][f"kafka-cluster:{action}"]}
            for action in ("ReadData", "WriteData", "AlterGroup")
        }
        sources = set(entry.event_source.topics) if entry.event_source else set()
        readable = {in_lane(topic, each) for topic in PROFILES[entry.package].reads for each in Lane}
        replays = PROFILES[entry.package].operates
        if replays:
            readable |= {DEAD_LETTER, DEAD_LETTER_STATUS, cdc_topic("heartbeat", "g1")}
        assert found["ReadData"] - {"connect.offsets"} == sources | readable, name
        assert found["AlterGroup"] == {f"{entry.group}.{topic}" for topic in sources}, name
        produced = {topic.name for topic in chain_topics() if entry.package in topic.producers}
        on_failure = {entry.event_source.on_failure} if entry.event_source and entry.event_source.on_failure else set()
        replayed = sources_of_dead_letters("g1") if replays else set()
        marked = set(table_topics("g1")) if PROFILES[entry.package].marks_changelogs else set()
        assert found["WriteData"] >= marked, name
        assert found["WriteData"] <= produced | on_failure | replayed | marked, name
        queues = {topic for topic in found["WriteData"] if lane_of(topic) in BROADCASTS[1:]}
        assert queues <= consumed, f"{name} writes to a queue without a mapping"
        assert produced == set() or found["WriteData"] - on_failure, name
        if lane:
            assert "build" not in found["WriteData"], name
            assert "delivery" not in found["WriteData"], name
        assert "kafka-cluster:CreateTopic" not in allowed[roles[name]], name
        assert "kafka-cluster:DeleteTopic" not in allowed[roles[name]], name


# --- storage ---

STATEFUL = {
    "AWS::MSK::Cluster": None,
    "AWS::MSK::Topic": None,
    "AWS::OpenSearchService::Domain": None,
    "AWS::RDS::DBInstance": "DeletionProtection",
    "AWS::RDS::DBSubnetGroup": None,
    "AWS::DynamoDB::Table": "DeletionProtectionEnabled",
    "AWS::S3::Bucket": None,
    "AWS::KMS::Key": None,
    "AWS::Logs::LogGroup": None,
}


@pytest.mark.parametrize("kind", STATEFUL)
def test_nothing_that_holds_data_can_be_deleted_in_prod(prod: SynthesisedEnvironment, kind: str) -> None:
    changelogs = {topic.name for topic in cdc_topics("g1") if topic.compaction is not None}
    found = [each for each in prod.resources(kind) if each.properties.get("TopicName") not in changelogs]
    assert found
    for resource in found:
        # A resource whose creation is rolled back is deleted: its name would refuse the next deployment.
        # https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html
        assert resource.attributes["DeletionPolicy"] == "RetainExceptOnCreate", resource
        assert resource.attributes["UpdateReplacePolicy"] == "Retain", resource
        flag = STATEFUL[kind]
        assert flag is None or resource.properties[flag] is True, resource


def test_changelogs_of_a_removed_generation_are_deleted(prod: SynthesisedEnvironment) -> None:
    """Kafka keeps the last record of each row for ever, and nobody erases rows of a generation that is given up."""
    policies = {each.properties["TopicName"]: each.attributes for each in prod.resources("AWS::MSK::Topic")}
    for topic in cdc_topics("g1"):
        expected = "RetainExceptOnCreate" if topic.compaction is None else "Delete"
        assert policies[topic.name]["DeletionPolicy"] == expected, topic.name


def test_no_resource_outlives_the_rollback_of_its_creation(prod: SynthesisedEnvironment) -> None:
    assert [each for each in prod.resources() if each.attributes.get("DeletionPolicy") == "Retain"] == []


def test_stored_data_is_encrypted_with_our_key(environment: SynthesisedEnvironment) -> None:
    def key(value: object) -> bool:
        return "masscomm" in flat(value) or "key" in flat(value)

    for table in environment.resources("AWS::DynamoDB::Table"):
        assert key(table.properties["SSESpecification"]["KMSMasterKeyId"]), table
        assert table.properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
        assert table.properties["TimeToLiveSpecification"]["Enabled"] is True
    for instance in environment.resources("AWS::RDS::DBInstance"):
        assert instance.properties["StorageEncrypted"] is True
        assert key(instance.properties["KmsKeyId"]), instance
        assert instance.properties["ManageMasterUserPassword"] is True
        assert "MasterUserPassword" not in instance.properties
        assert instance.properties["PubliclyAccessible"] is False or "PubliclyAccessible" not in instance.properties
    for group in environment.resources("AWS::Logs::LogGroup"):
        assert key(group.properties["KmsKeyId"]), group
        assert group.properties["RetentionInDays"] == ENVIRONMENTS[environment.name].log_days, group
    (domain,) = environment.resources("AWS::OpenSearchService::Domain")
    assert key(domain.properties["EncryptionAtRestOptions"]["KmsKeyId"])
    assert domain.properties["NodeToNodeEncryptionOptions"] == {"Enabled": True}
    assert domain.properties["DomainEndpointOptions"]["EnforceHTTPS"] is True
    for bucket in environment.resources("AWS::S3::Bucket"):
        assert bucket.properties["BucketEncryption"], bucket
        assert set(bucket.properties["PublicAccessBlockConfiguration"].values()) == {True}, bucket
    refused = {
        flat(each.properties["Bucket"])
        for each in environment.resources("AWS::S3::BucketPolicy")
        for statement in as_list(each.properties["PolicyDocument"]["Statement"])
        if statement["Effect"] == "Deny" and "aws:SecureTransport" in json.dumps(statement)
    }
    assert refused == {f"{{{bucket.id}}}" for bucket in environment.resources("AWS::S3::Bucket")}


def test_services_may_use_the_key_for_this_account_only(
    environment: SynthesisedEnvironment,
) -> None:
    may = {}
    for _, statement in statements(environment, "AWS::KMS::Key"):
        for service in as_list(statement["Principal"].get("Service", [])):
            may[service.partition(".")[0]] = json.dumps(statement["Condition"])
    assert may.keys() == {"logs", "cloudwatch", "events", "sns", "sms-voice"}
    assert all("AWS::AccountId" in condition for condition in may.values())


def test_no_group_or_gateway_is_open_to_the_world(environment: SynthesisedEnvironment) -> None:
    for kind in ("AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress"):
        for resource in environment.resources(kind):
            for rule in as_list(resource.properties.get("SecurityGroupIngress", resource.properties)):
                assert rule.get("CidrIp") not in ("0.0.0.0/0", "::/0"), resource
    nat = int(ENVIRONMENTS[environment.name].nat)
    assert len(list(environment.resources("AWS::EC2::NatGateway"))) == nat
    assert len(list(environment.resources("AWS::EC2::InternetGateway"))) == nat


# --- alarms -----------------------------------------------------------------------------------------------------------

RUNBOOKS = ROOT / "docs" / "runbooks"


def _alarms(environment: SynthesisedEnvironment) -> dict[str, dict[str, Any]]:
    prefix = f"masscomm-{environment.name}-"
    return {
        each.properties["AlarmName"].removeprefix(prefix): each.properties
        for each in environment.resources("AWS::CloudWatch::Alarm")
    }


def test_each_alarm_notifies_and_links_its_runbook(
    prod: SynthesisedEnvironment,
) -> None:
    """Each runbook must belong to an alarm or a budget."""
    named = set()
    for name, properties in _alarms(prod).items():
        assert properties["AlarmActions"], name
        description = properties["AlarmDescription"]
        (path,) = re.findall(r"docs/runbooks/([a-z-]+)\.md", description)
        named.add(path)
        assert len(description.split()) > 5, name
    for budget in prod.resources("AWS::Budgets::Budget"):
        named |= set(re.findall(r"docs/runbooks/([a-z-]+)\.md", json.dumps(budget.properties)))
    assert named == {path.stem for path in RUNBOOKS.glob("*.md")}


def test_each_runbook_has_the_sections_look_at_and_do() -> None:
    for path in RUNBOOKS.glob("*.md"):
        text = path.read_text()
        assert "## Look at" in text, path
        assert "## Do" in text, path
        for link in re.findall(r"\]\(([a-z-]+\.md)\)", text):
            assert (RUNBOOKS / link).exists(), f"{path.name} → {link}"


def test_every_function_has_alarms_for_errors_throttles_and_lag(prod: SynthesisedEnvironment) -> None:
    alarms = _alarms(prod)
    for entry in read_catalogue(generation="g1"):
        for kind in ("errors", "throttled", "slow"):
            dimensions = {each["Name"]: each["Value"] for each in alarms[f"{entry.name}-{kind}"]["Dimensions"]}
            assert dimensions["FunctionName"] == f"masscomm-{prod.name}-{entry.name}"
    for name in ("authorizer", "keep-job"):
        (errors,) = alarms[f"{name}-errors"]["Dimensions"]
        assert errors["Name"] == "FunctionName"
    for entry in read_catalogue(generation="g1"):
        if entry.event_source is not None:
            assert f"{entry.package}-dead-letters" in alarms
            assert f"{entry.name}-dropped" in alarms
            for topic in entry.event_source.topics:
                lag = alarms[f"{entry.name}-lag-{topic}"]
                dimensions = {each["Name"]: each["Value"] for each in lag["Dimensions"]}
                assert dimensions["Consumer Group"] == f"{entry.group}.{topic}"
                assert lag["Threshold"] <= (30 if entry.lane is Lane.CRITICAL else 900)


def test_failures_of_the_system_have_alarms_and_a_budget(prod: SynthesisedEnvironment) -> None:
    wanted = {
        *("failed", "duplicates", "leases-lost", "changes-stale", "metrics-stale", "waiting-overdue"),
        *("change-data-capture", "streaming-job", "schema-registry", "api-errors", "api-slow"),
        *("push-provider-errors", "push-provider-throttles", "email-provider-errors", "email-provider-throttles"),
        *("email-bounces", "email-complaints", "kafka-offline", "kafka-storage", "directory-red", "directory-storage"),
        *("directory-key", "metrics-database-cpu", "registry-database-storage", "delivery_ledger-throttled"),
        *("metrics-differ", "metrics-quarantined", "streaming-job-restarts"),
        *("retention-missed", "maintenance-missed", "recompute-missed"),
    }
    assert wanted <= _alarms(prod).keys()
    (budget,) = prod.resources("AWS::Budgets::Budget")
    assert budget.properties["Budget"]["BudgetLimit"]["Amount"] == ENVIRONMENTS[prod.name].budget_usd


def test_each_daily_run_is_missed_after_a_day(environment: SynthesisedEnvironment) -> None:
    """The number of completed runs is watched, so a run that fails and a run that never starts trigger the alarm."""
    for module, metric in DAILY_RUNS.items():
        alarm = _alarms(environment)[f"{module}-missed"]
        assert (alarm["MetricName"], alarm["Statistic"], alarm["Threshold"]) == (metric.name, "Sum", 1)
        assert alarm["ComparisonOperator"] == "LessThanThreshold"
        assert alarm["TreatMissingData"] == "breaching"
        assert 86_400 < alarm["Period"] * alarm["EvaluationPeriods"] < 2 * 86_400
        assert alarm["DatapointsToAlarm"] == alarm["EvaluationPeriods"]
    inputs = {
        re.findall(r'"name":"(\w+)"', event)[0]: json.loads(re.findall(r'"arguments":(\[.*\])', event)[0])
        for rule in environment.resources("AWS::Events::Rule")
        if "daily" in rule.id
        for event in [flat(each["Input"]) for each in rule.properties["Targets"]]
    }
    configured = ENVIRONMENTS[environment.name]
    spark, volume_gib = configured.spark, str(configured.database.max_volume_gb)
    days = str(spark.recipient_log_days)
    assert inputs == {
        "retention": ["--recipient-log-days", days, "--volume-gib", volume_gib, *spark.retention],
        "maintenance": ["--keep-days", str(spark.archive_days)],
        "recompute": ["--day-before"],
    }
    assert inputs.keys() == DAILY_RUNS.keys()


def test_alarms_stay_within_cloudwatchs_metric_limit(environment: SynthesisedEnvironment) -> None:
    for name, alarm in _alarms(environment).items():
        assert len([each for each in alarm.get("Metrics", ()) if "MetricStat" in each]) <= 10, name
        periods = {each["MetricStat"]["Period"] for each in alarm.get("Metrics", ()) if "MetricStat" in each}
        assert periods <= {60}, name


# --- the API ----------------------------------------------------------------------------------------------------------


def test_each_route_needs_authorisation_and_an_api_key(environment: SynthesisedEnvironment) -> None:
    wanted = {route for entry in read_catalogue(generation="g1") for route in entry.routes}
    methods = [each for each in environment.resources("AWS::ApiGateway::Method") if each.stack == "api"]
    assert len(methods) == len(wanted)
    public = [each for each in methods if each.properties["AuthorizationType"] == "NONE"]
    assert len(public) == len(PUBLIC_ROUTES)
    (stage,) = (each for each in environment.resources("AWS::ApiGateway::Stage") if each.stack == "api")
    limited = {each["ResourcePath"] for each in stage.properties["MethodSettings"] if each["ResourcePath"] != "/*"}
    assert {path.removeprefix("/").replace("~1", "/") for path in limited} == {path for _, path in PUBLIC_ROUTES}
    for method in methods:
        if method in public:
            continue
        assert method.properties["AuthorizationType"] == "CUSTOM", method
        assert method.properties["AuthorizerId"], method
        assert method.properties["ApiKeyRequired"] is True, method
    associations = list(environment.resources("AWS::WAFv2::WebACLAssociation"))
    assert {each.stack for each in associations} == (
        {"api", "door"} if ENVIRONMENTS[environment.name].api.firewall else set()
    )
    assert all(each.properties["WebACLArn"] for each in associations)
    (stage,) = (each for each in environment.resources("AWS::ApiGateway::Stage") if each.stack == "api")
    assert stage.properties["AccessLogSetting"]["DestinationArn"]
    assert stage.properties["TracingEnabled"] is True


@pytest.mark.parametrize(
    ("rule", "request_of_a_caller"),
    [
        ("SizeRestrictions_BODY", "a send to more users than fit into 8,192 bytes"),
        ("SizeRestrictions_QUERYSTRING", "a list of the sends of 100 clubs: more than 2,048 bytes"),
        ("CrossSiteScripting_BODY", "a preview of a template with <a href=... style=...>"),
        ("GenericLFI_BODY", "a message with ../../"),
        ("GenericRFI_BODY", "a message with a link to http://192.0.2.1/"),
        ("EC2MetaDataSSRF_BODY", "a message with http://169.254.169.254/"),
        ("NoUserAgent_HEADER", "a request of PHP's curl"),
    ],
)
def test_the_firewall_refuses_no_valid_request(
    prod: SynthesisedEnvironment, rule: str, request_of_a_caller: str
) -> None:
    """https://docs.aws.amazon.com/waf/latest/developerguide/aws-managed-rule-groups-baseline.html"""
    (acl,) = (each for each in prod.resources("AWS::WAFv2::WebACL") if each.stack == "api")
    groups = [each["Statement"].get("ManagedRuleGroupStatement") for each in acl.properties["Rules"]]
    (common,) = (each for each in groups if each and each["Name"] == "AWSManagedRulesCommonRuleSet")
    actions = {each["Name"]: each["ActionToUse"] for each in common["RuleActionOverrides"]}
    assert actions.get(rule) == {"Count": {}}, request_of_a_caller


def test_people_are_authorized_where_an_issuer_is_set(environment: SynthesisedEnvironment) -> None:
    """With an issuer each request invokes the authorizer: an identity source would have to be in every request."""
    people = ENVIRONMENTS[environment.name].api.people
    (authorizer,) = environment.resources("AWS::ApiGateway::Authorizer")
    (function,) = (
        each
        for each in environment.resources("AWS::Lambda::Function")
        if each.properties.get("FunctionName") == f"masscomm-{environment.name}-authorizer"
    )
    variables = function.properties["Environment"]["Variables"]
    keys = list(environment.resources("AWS::ApiGateway::ApiKey"))
    if people is None:
        assert authorizer.properties["AuthorizerResultTtlInSeconds"] == 60
        assert authorizer.properties["IdentitySource"] == "method.request.header.x-api-key"
        assert not keys
        assert "OIDC_ISSUER" not in variables
        return
    assert authorizer.properties["AuthorizerResultTtlInSeconds"] == 0
    assert not authorizer.properties.get("IdentitySource")
    assert variables["OIDC_ISSUER"] == people.issuer
    assert variables["OIDC_AUDIENCE"] == people.audience
    assert variables["OIDC_KEYS_URL"] == people.keys_url
    assert (variables["OIDC_ROLES_CLAIM"], variables["OIDC_CLUBS_CLAIM"]) == (people.roles_claim, people.clubs_claim)
    (key,) = keys
    assert key.properties["Value"] == variables["PEOPLE_USAGE_KEY"]
    assert 20 <= len(key.properties["Value"]) <= 128, "API Gateway's limits"
    (in_plan,) = environment.resources("AWS::ApiGateway::UsagePlanKey")
    assert in_plan.properties["KeyType"] == "API_KEY"


def test_a_denied_credential_is_answered_with_401(environment: SynthesisedEnvironment) -> None:
    statuses = {
        each.properties["ResponseType"]: each.properties.get("StatusCode")
        for each in environment.resources("AWS::ApiGateway::GatewayResponse")
        if each.stack == "api"
    }
    assert (statuses["DEFAULT_4XX"], statuses["DEFAULT_5XX"]) == (None, None), "another one would apply to every error"
    assert statuses["ACCESS_DENIED"] == "401"
    (stage,) = (each for each in environment.resources("AWS::ApiGateway::Stage") if each.stack == "api")
    assert json.loads(stage.properties["AccessLogSetting"]["Format"])["principal"] == "$context.authorizer.principalId"


def test_errors_of_the_gateway_are_problems_as_documented(environment: SynthesisedEnvironment) -> None:
    """The OpenAPI document requires these members, and Retry-After of a 429."""
    for response in environment.resources("AWS::ApiGateway::GatewayResponse"):
        if response.stack == "door":
            continue  # its senders have no document: each error that may pass says when to repeat
        name, status = response.properties["ResponseType"], response.properties.get("StatusCode")
        (template,) = response.properties["ResponseTemplates"].values()
        body = json.loads(template.replace("$context.error.messageString", '"Rate exceeded"'))
        # The defaults are for errors of several statuses.
        required = ProblemBody.__required_keys__ - (set() if status else {"status"})
        assert required <= body.keys(), name
        assert str(body.get("status")) == str(status), name
        text = next((each for each in Text if each.code == body.get("code")), None)
        assert (text is None) == (status is None), "an error without a status has API Gateway's own text"
        assert text is None or sorted(body["parameters"]) == sorted(text.parameters), name
        has_limit = any(isinstance(value, int) for value in body.get("parameters", {}).values())
        assert has_limit or status not in ("413", "429"), name
        headers = response.properties["ResponseParameters"]
        assert ("gatewayresponse.header.Retry-After" in headers) == (status == "429"), name


# --- change data capture and the job ----------------------------------------------------------------------------------


def test_connector_equals_the_local_one_but_for_its_database(prod: SynthesisedEnvironment) -> None:
    (connector,) = prod.resources("AWS::KafkaConnect::Connector")
    configuration = connector.properties["ConnectorConfiguration"]
    for name, value in debezium_config("g1", ENVIRONMENTS[prod.name].global_prefix).items():
        assert configuration[name] == value
    secret = ENVIRONMENTS[prod.name].monolith.secret_name
    for name, field in {"hostname": "host", "user": "username", "password": "password", "dbname": "dbname"}.items():
        assert configuration[f"database.{name}"] == f"${{secretsmanager:{secret}:{field}}}"
    assert configuration["config.action.reload"] == "none"
    assert configuration["driver.sslfactoryarg"] == f"${{secretsmanager:{secret}:ca}}"
    assert connector.properties["KafkaClusterClientAuthentication"] == {"AuthenticationType": "IAM"}
    assert connector.properties["KafkaClusterEncryptionInTransit"] == {"EncryptionType": "TLS"}
    (worker,) = prod.resources("AWS::KafkaConnect::WorkerConfiguration")
    properties = base64.b64decode(worker.properties["PropertiesFileContent"]).decode()
    assert "offset.storage.topic=connect.offsets\n" in properties
    assert "config.providers.secretsmanager.class=masscomm.connect.SecretsManagerConfigProvider\n" in properties
    (read,) = [
        targets(statement)
        for resource, statement in statements(prod)
        if resource.stack == "cdc" and "secretsmanager:GetSecretValue" in actions(statement)
    ]
    assert {target.rpartition(":")[2] for target in read} == {f"{secret}-??????"}


def test_job_writes_to_the_topics_that_it_reads_only(environment: SynthesisedEnvironment) -> None:
    """It produces a record again whose schema was registered late."""
    written, read = (
        {
            target.rpartition("/")[2]
            for resource, statement in role_statements(environment)
            if resource.stack == "metrics" and f"kafka-cluster:{action}" in actions(statement)
            for target in targets(statement)
        }
        for action in ("WriteData", "ReadData")
    )
    assert written == read == {topic.name for topic in chain_topics() if "spark_metrics" in topic.consumers}


def test_job_is_a_stream_with_its_jars_and_archive(prod: SynthesisedEnvironment) -> None:
    job = _job(prod, "streaming-job")
    assert '"mode":"STREAMING"' in job
    assert '"retryPolicy"' in job
    for setting in (
        *("spark.jars=", "spark.archives=", "KAFKA_AUTHENTICATION=aws_msk_iam", "SPARK_ARCHIVE_DIR=s3://"),
        "SPARK_RECIPIENT_LOG=true",
    ):
        assert setting in job, setting
    assert job.count(JVM_OPTIONS) == 2
    assert "SPARK_ARCHIVE_CATALOG=glue" in job
    shipped = {path.name.partition("-")[0] for path in shipped_jars()}
    assert shipped >= {"iceberg", "postgresql", "spark", "aws"}
    [jars] = re.findall(r"spark\.jars=(.+?) --conf", job)
    assert jars.count(".jar") == len(shipped_jars())
    for application in prod.resources("AWS::EMRServerless::Application"):
        assert application.properties["ReleaseLabel"] == "emr-spark-8.0.0"


@pytest.mark.parametrize("name", ["streaming-job", "erase-job"])
def test_heap_and_overhead_of_a_job_fit_into_a_worker(environment: SynthesisedEnvironment, name: str) -> None:
    """By default, the overhead is a tenth of the heap: less than a Python worker a core needs.

    https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html
    """
    job = _job(environment, name)
    for process in ("driver", "executor"):
        heap, overhead = (
            int(size)
            for [size] in (
                re.findall(rf"spark\.{process}\.{part}=(\d+)g", job) for part in ("memory", "memoryOverhead")
            )
        )
        assert heap + overhead == ENVIRONMENTS[environment.name].spark.worker_memory_gb
        assert overhead >= heap / 4


def test_person_is_erased_by_a_job_of_its_own_application(environment: SynthesisedEnvironment) -> None:
    """keep_job cancels other runs of the streaming job's application, so the erasing job has another application."""
    erase, stream = _job(environment, "erase-job"), _job(environment, "streaming-job")
    assert '"mode":"BATCH"' in erase
    for setting in (
        *("SPARK_ARCHIVE_DIR=s3://", "OPENSEARCH_URL=", "DELIVERY_LEDGER_TABLE=", "WAITING_TABLE="),
        *("METRICS_DATABASE_URL=", "SCHEMA_REGISTRY_URL=", "ERASURE_BACKUPS=database-backups="),
    ):
        assert setting in erase, setting
    parts = [re.findall(r'"applicationId":"([^"]+)"', job) for job in (erase, stream)]
    assert len({part for [part] in parts}) == 2
    may: dict[str, set[str]] = {}
    for policy, statement in role_statements(environment):
        may.setdefault(str(policy), set()).update(actions(statement))
    wanted = {"sns:DeleteEndpoint", "dynamodb:Scan", "es:ESHttpPost", "s3:DeleteObject", "rds-db:connect"}
    assert len([policy for policy, allowed in may.items() if wanted <= allowed]) == 1
    scanning = {re.split("role|Default", policy)[0] for policy, allowed in may.items() if "dynamodb:Scan" in allowed}
    assert scanning == {"metrics/erase", "provisioning/operator"}


def _job(environment: SynthesisedEnvironment, name: str) -> str:
    """Return the job's request that an SSM parameter stores."""
    prefix = f"/masscomm-{environment.name}/"
    [parameter] = [
        each for each in environment.resources("AWS::SSM::Parameter") if each.properties["Name"] == f"{prefix}{name}"
    ]
    request = flat(parameter.properties["Value"])
    assert len(request.encode()) < 8192
    return request


def test_profiles_agree_with_catalogue_and_table_schemas() -> None:
    assert PROFILES.keys() == {entry.package for entry in read_catalogue(generation="g1")}
    writers = {
        path.stem: {writer.strip() for writer in json.loads(path.read_text())["writer"].split(",")}
        for path in (ROOT / "schemas" / "dynamodb").glob("*.json")
    }
    # The authorizer is not in functions.yaml.
    writers[API_KEYS].remove("authorizer")
    assert {
        table: {
            name
            for name, profile in PROFILES.items()
            if table in (*profile.tables, *profile.tables_updated) or (table == SENDS and profile.emits_outcomes)
        }
        for table in writers
    } == writers


def test_results_of_sends_are_switched_off_in_each_function(
    prod: SynthesisedEnvironment, replacing: SynthesisedEnvironment
) -> None:
    """Those that put results and those that read them."""

    def switched_off(environment: SynthesisedEnvironment) -> set[str]:
        return {
            function.properties["FunctionName"].removeprefix(f"masscomm-{environment.name}-")
            for function in environment.resources("AWS::Lambda::Function", "functions")
            if function.properties.get("Environment", {}).get("Variables", {}).get("SEND_RESULTS") == "off"
        }

    emitters = {name for name, profile in PROFILES.items() if profile.emits_outcomes}
    assert switched_off(replacing) >= {*emitters, "delivery-critical", "sends_api", "sends_stream"}
    assert switched_off(prod) == set()
