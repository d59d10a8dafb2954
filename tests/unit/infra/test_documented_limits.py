"""Documented limits of services for template properties: a deployment fails beyond them, and no linter checks them."""

import json
import re
from collections import Counter, defaultdict
from typing import Any

import pytest

from infra.cdk.resources.rest_api import STAGE
from local.devstack.config import ROOT
from masscomm.observability.metric_names import NAMESPACE
from tests.support.cdk.resolved import Resolver
from tests.support.cdk.synthesise import REPLACING, SYNTHESISED
from tests.support.cdk.templates import (
    SynthesisedEnvironment,
    actions,
    as_list,
    flat,
    job_requests,
    kafka_mappings,
    role_statements,
    targets,
)


@pytest.fixture(params=[*SYNTHESISED, REPLACING.name])
def environment(
    request: pytest.FixtureRequest, synthesised: dict[str, SynthesisedEnvironment]
) -> SynthesisedEnvironment:
    """Each environment in turn; `replacing` with its two generations is nearest to the limits."""
    return synthesised[str(request.param)]


# --- security groups --------------------------------------------------------------------------------------------------


def test_security_group_rules_are_unique(environment: SynthesisedEnvironment) -> None:
    """EC2 refuses a rule that exists already, whatever its description (InvalidPermission.Duplicate). A port that only
    the deployment knows could repeat one.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
    """
    resolved, rules = Resolver(environment), Counter[str]()
    for kind in ("Ingress", "Egress"):
        own = [(each, each.properties) for each in environment.resources(f"AWS::EC2::SecurityGroup{kind}")]
        for group in environment.resources("AWS::EC2::SecurityGroup"):
            id = {"GroupId": {"Fn::GetAtt": [group.id, "GroupId"]}}
            own += [(group, each | id) for each in group.properties.get(f"SecurityGroup{kind}", [])]
        for resource, properties in own:
            rule = {
                name: resolved(resource.stack, value) for name, value in properties.items() if name != "Description"
            }
            assert isinstance(rule["FromPort"], int), resource
            rules[f"{kind} {json.dumps(rule, sort_keys=True)}"] += 1
    assert len(rules) > 50
    assert [rule for rule, number in rules.items() if number > 1] == []


# --- dashboards -------------------------------------------------------------------------------------------------------


def _widgets(environment: SynthesisedEnvironment) -> dict[str, list[dict[str, Any]]]:
    """Return the widgets of each dashboard, with references as text."""
    return {
        str(each): json.loads(flat(each.properties["DashboardBody"]))["widgets"]
        for each in environment.resources("AWS::CloudWatch::Dashboard")
    }


@pytest.mark.parametrize("name", ["prod", "replacing", "local"])
def test_dashboards_keep_the_limits_of_their_widgets(synthesised: dict[str, SynthesisedEnvironment], name: str) -> None:
    """An alarm widget lists 1 to 100 alarms, a graph 500 metrics; a dashboard has 500 widgets and 2,500 metrics.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html
    """
    dashboards = _widgets(synthesised[name])
    assert dashboards
    for dashboard, widgets in dashboards.items():
        assert 0 < len(widgets) <= 500, dashboard
        for widget in widgets:
            properties = widget["properties"]
            assert widget["type"] != "alarm" or 1 <= len(properties["alarms"]) <= 100, (dashboard, properties["title"])
            assert len(properties.get("metrics", ())) <= 500, (dashboard, properties["title"])
            assert 1 <= widget["width"] <= 24, dashboard
        assert sum(len(each["properties"].get("metrics", ())) for each in widgets) <= 2500, dashboard


def test_the_dashboard_shows_every_alarm_once(prod: SynthesisedEnvironment) -> None:
    shown = [
        alarm
        for widgets in _widgets(prod).values()
        for widget in widgets
        if widget["type"] == "alarm"
        for alarm in widget["properties"]["alarms"]
    ]
    made = {f"{{{each.id}.Arn}}" for each in prod.resources("AWS::CloudWatch::Alarm")}
    assert len(shown) == len(set(shown))
    assert set(shown) == made


# --- alarms, logs, policies -------------------------------------------------------------------------------------------


def test_alarms_keep_the_limits_of_actions_and_periods(environment: SynthesisedEnvironment) -> None:
    """An alarm has at most five actions a state, and evaluates at most a day; seven days with periods of an hour.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html (Period)
    """
    for alarm in environment.resources("AWS::CloudWatch::Alarm"):
        properties = alarm.properties
        for kind in ("AlarmActions", "OKActions", "InsufficientDataActions"):
            assert len(properties.get(kind, ())) <= 5, alarm
        periods = [each.get("MetricStat", each).get("Period", 60) for each in properties.get("Metrics", [properties])]
        most_s = 7 * 86_400 if min(periods) >= 3_600 else 86_400
        assert max(periods) * properties["EvaluationPeriods"] <= most_s, alarm
        assert properties["DatapointsToAlarm"] <= properties["EvaluationPeriods"], alarm


# (namespace, metric or "" for all of them) → the sets of dimensions under which the service publishes. Sources:
# https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
# https://docs.aws.amazon.com/msk/latest/developerguide/metrics-details.html
# https://docs.aws.amazon.com/opensearch-service/latest/developerguide/managedomains-cloudwatchmetrics.html
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/metrics-dimensions.html
# https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/dimensions.html
# https://docs.aws.amazon.com/msk/latest/developerguide/mkc-monitoring-overview.html
# https://docs.aws.amazon.com/AmazonECS/latest/developerguide/Container-Insights-metrics-ECS.html
# https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-metrics-and-dimensions.html
# https://docs.aws.amazon.com/ses/latest/dg/reputationdashboard-cloudwatch-alarm.html
# https://docs.aws.amazon.com/sns/latest/dg/sns-monitoring-using-cloudwatch.html
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
DIMENSIONS = {
    ("AWS/Lambda", ""): ({"FunctionName"},),
    ("AWS/Lambda", "DroppedEventCount"): ({"EventSourceMappingUUID"},),
    ("AWS/Kafka", "ActiveControllerCount"): ({"Cluster Name"},),
    ("AWS/Kafka", "OfflinePartitionsCount"): ({"Cluster Name"},),
    **{
        ("AWS/Kafka", name): ({"Cluster Name", "Broker ID"},)
        for name in ("KafkaDataLogsDiskUsed", "UnderMinIsrPartitionCount", "CpuIdle", "CPUCreditBalance")
    },
    ("AWS/Kafka", "EstimatedMaxTimeLag"): ({"Cluster Name", "Consumer Group", "Topic"},),
    ("AWS/ES", ""): ({"DomainName", "ClientId"},),
    ("AWS/DynamoDB", "ReadThrottleEvents"): ({"TableName"}, {"TableName", "GlobalSecondaryIndexName"}),
    ("AWS/DynamoDB", "WriteThrottleEvents"): ({"TableName"}, {"TableName", "GlobalSecondaryIndexName"}),
    ("AWS/RDS", ""): ({"DBInstanceIdentifier"},),
    ("AWS/KafkaConnect", ""): ({"ConnectorName"},),
    ("ECS/ContainerInsights", "RunningTaskCount"): ({"ClusterName", "ServiceName"},),
    # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/available-metrics.html
    ("AWS/ECS", "CPUUtilization"): ({"ClusterName"}, {"ClusterName", "ServiceName"}),
    ("AWS/ApiGateway", ""): ({"ApiName"}, {"ApiName", "Stage"}, {"ApiName", "Method", "Resource", "Stage"}),
    ("AWS/SES", ""): (set(),),
    ("AWS/SNS", "NumberOfNotificationsDelivered"): ({"Application", "Platform"},),
    ("AWS/SNS", "NumberOfNotificationsFailed"): ({"Application", "Platform"},),
    ("AWS/SQS", ""): ({"QueueName"},),
}


@pytest.mark.parametrize("name", ["small", "prod", "replacing", "local"])
def test_alarms_name_the_dimensions_of_their_metrics(synthesised: dict[str, SynthesisedEnvironment], name: str) -> None:
    """A metric is known by its name and all its dimensions: an alarm with others has no data, and never triggers."""
    unknown = []
    for alarm in synthesised[name].resources("AWS::CloudWatch::Alarm"):
        for each in alarm.properties.get("Metrics", [alarm.properties]):
            found = each["MetricStat"]["Metric"] if "MetricStat" in each else each
            if "MetricName" not in found or found["Namespace"] == NAMESPACE:
                continue
            key = (found["Namespace"], found["MetricName"])
            published = DIMENSIONS[key] if key in DIMENSIONS else DIMENSIONS[key[0], ""]
            if {dimension["Name"] for dimension in found.get("Dimensions", ())} not in published:
                unknown.append(str(alarm))
    assert unknown == []


def test_every_brokers_disk_has_an_alarm(environment: SynthesisedEnvironment) -> None:
    (cluster,) = environment.resources("AWS::MSK::Cluster")
    watched = [
        dimension["Value"]
        for alarm in environment.resources("AWS::CloudWatch::Alarm")
        for each in alarm.properties.get("Metrics", ())
        if each.get("MetricStat", {}).get("Metric", {}).get("MetricName") == "KafkaDataLogsDiskUsed"
        for dimension in each["MetricStat"]["Metric"]["Dimensions"]
        if dimension["Name"] == "Broker ID"
    ]
    assert sorted(map(int, watched)) == [*range(1, cluster.properties["NumberOfBrokerNodes"] + 1)]


# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
RETENTION_DAYS = {
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096),
    *(1827, 2192, 2557, 2922, 3288, 3653),
}


@pytest.mark.parametrize("name", ["small", "prod", "replacing", "local"])
def test_logs_are_kept_for_days_that_cloudwatch_knows(
    synthesised: dict[str, SynthesisedEnvironment], name: str
) -> None:
    groups = list(synthesised[name].resources("AWS::Logs::LogGroup"))
    assert groups
    assert {each.properties["RetentionInDays"] for each in groups} <= RETENTION_DAYS


# (resource type, its policy property) → maximum number of characters, from these pages:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html (trust 2,048; inline is tested by role)
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html (5,120)
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-policies.html (20 kB)
# https://docs.aws.amazon.com/sns/latest/dg/sns-using-identity-based-policies.html (30 kB)
# https://docs.aws.amazon.com/kms/latest/developerguide/resource-limits.html (32 kB)
POLICY_CHARACTERS = {
    ("AWS::IAM::Role", "AssumeRolePolicyDocument"): 2_048,
    ("AWS::Logs::ResourcePolicy", "PolicyDocument"): 5_120,
    ("AWS::S3::BucketPolicy", "PolicyDocument"): 20_480,
    ("AWS::SNS::TopicPolicy", "PolicyDocument"): 30_720,
    ("AWS::SQS::QueuePolicy", "PolicyDocument"): 8_192,
    ("AWS::KMS::Key", "KeyPolicy"): 32_768,
}


def test_no_policy_is_longer_than_its_service_takes(environment: SynthesisedEnvironment) -> None:
    found = set()
    for resource in environment.resources():
        for (kind, name), longest in POLICY_CHARACTERS.items():
            if resource.type == kind:
                # The template's text is an upper bound, because references are longer than the ARNs that replace them.
                text = re.sub(r"\s", "", json.dumps(resource.properties[name]))
                assert len(text) <= longest, (str(resource), len(text))
                found.add((kind, name))
    assert found == POLICY_CHARACTERS.keys()


# --- functions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["small", "prod", "replacing", "local"])
def test_functions_keep_the_quotas_of_lambda(synthesised: dict[str, SynthesisedEnvironment], name: str) -> None:
    """Limits of a function: 4 kB of variables; 128 to 10,240 MB; 900 s; 29 s behind a REST API.

    https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
    https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-execution-service-limits-table.html
    """
    for function in synthesised[name].resources("AWS::Lambda::Function"):
        properties = function.properties
        variables = properties.get("Environment", {}).get("Variables", {})
        assert sum(len(key) + len(flat(value)) for key, value in variables.items()) <= 4_096, function
        assert 128 <= properties.get("MemorySize", 128) <= 10_240, function
        assert 1 <= properties.get("Timeout", 3) <= 900, function
        # Lambda's reserved variables may not be set.
        assert not {key for key in variables if key.startswith(("AWS_LAMBDA_", "_HANDLER", "LAMBDA_"))}, function
        assert "AWS_REGION" not in variables, function


def test_snapstart_has_no_provisioned_concurrency_or_storage(environment: SynthesisedEnvironment) -> None:
    """SnapStart does not support provisioned concurrency, EFS or more than 512 MB of storage.

    https://docs.aws.amazon.com/lambda/latest/dg/snapstart.html
    """
    aliases = {}
    versions = {
        each.id: each.properties["FunctionName"]["Ref"] for each in environment.resources("AWS::Lambda::Version")
    }
    for alias in environment.resources("AWS::Lambda::Alias"):
        version = alias.properties["FunctionVersion"]["Fn::GetAtt"][0]
        aliases[versions[version]] = "ProvisionedConcurrencyConfig" in alias.properties
    for function in environment.resources("AWS::Lambda::Function"):
        if function.properties.get("SnapStart"):
            assert not aliases.get(function.id, False), function
            assert "EphemeralStorage" not in function.properties, function
            assert "FileSystemConfigs" not in function.properties, function


def test_mappings_keep_the_limits_of_kafka_event_sources(environment: SynthesisedEnvironment) -> None:
    """A mapping has one topic; a window of 0 to 300 s; 1 to 10,000 records; 1 to 200 minimum and 1 to 2,000 maximum
    pollers.

    A group has at most 2,000 pollers and 100 mappings; a Kafka topic is a destination only in provisioned mode.
    https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html
    https://docs.aws.amazon.com/lambda/latest/api/API_ProvisionedPollerConfig.html
    https://docs.aws.amazon.com/lambda/latest/dg/kafka-scaling-modes.html
    https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure-destination.html
    """
    groups: dict[str, list[int]] = {}
    on_demand = []
    for mapping in kafka_mappings(environment):
        properties = mapping.properties
        assert len(properties["Topics"]) == 1, mapping
        assert 0 <= properties["MaximumBatchingWindowInSeconds"] <= 300, mapping
        assert 1 <= properties["BatchSize"] <= 10_000, mapping
        assert -1 <= properties.get("MaximumRecordAgeInSeconds", -1) <= 604_800, mapping
        assert -1 <= properties.get("MaximumRetryAttempts", -1) <= 10_000, mapping
        assert set(properties["MetricsConfig"]["Metrics"]) <= {"EventCount", "ErrorCount", "KafkaMetrics"}, mapping
        if "ProvisionedPollerConfig" not in properties:
            on_demand.append(mapping)
            continue
        pollers = properties["ProvisionedPollerConfig"]
        assert 1 <= pollers["MinimumPollers"] <= 200, mapping
        assert pollers["MinimumPollers"] <= pollers["MaximumPollers"] <= 2_000, mapping
        groups.setdefault(pollers["PollerGroupName"], []).append(pollers["MaximumPollers"])
    assert bool(groups) is not bool(on_demand)
    for name, pollers_of in groups.items():
        assert len(pollers_of) <= 100, name
        assert sum(pollers_of) <= 2_000, name


def test_prerequisites_that_templates_rely_on_are_documented(environment: SynthesisedEnvironment) -> None:
    """CloudFormation makes neither service-linked roles in time nor tags of the bill.

    https://docs.aws.amazon.com/opensearch-service/latest/developerguide/slr-aos.html
    https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/818 (ECS)
    https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/activating-tags.html
    """
    services = {"AWS::OpenSearchService::Domain": "opensearchservice", "AWS::ECS::Cluster": "ecs"}
    prerequisites = (ROOT / "docs" / "deploying.md").read_text().partition("## Before the first deployment")[2]
    for kind, service in services.items():
        assert list(environment.resources(kind))
        assert f"{service}.amazonaws.com" in prerequisites
    (budget,) = environment.resources("AWS::Budgets::Budget")
    ((tag,),) = budget.properties["Budget"]["CostFilters"].values()
    name = tag.removeprefix("user:").partition("$")[0]
    assert f"The tag `{name}` is activated as a cost allocation tag" in (ROOT / "docs" / "deploying.md").read_text()


def test_tables_with_indices_are_created_one_by_one(environment: SynthesisedEnvironment) -> None:
    """DynamoDB refuses several tables with indices that are created at the same time.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-dynamodb-table.html
    """
    indexed = {
        each.id: each.attributes.get("DependsOn", [])
        for each in environment.resources("AWS::DynamoDB::Table")
        if each.properties.get("GlobalSecondaryIndexes")
    }
    assert len(indexed) > 1
    assert [id for id, after in indexed.items() if not indexed.keys() & set(after)] == [next(iter(indexed))]
    assert sorted(len(indexed.keys() & set(after)) for after in indexed.values()) == [0] + [1] * (len(indexed) - 1)


# --- servers ----------------------------------------------------------------------------------------------------------

# Properties that MSK lets a configuration set:
# https://docs.aws.amazon.com/msk/latest/developerguide/msk-configuration-properties.html
MSK_PROPERTIES = {
    *("auto.create.topics.enable", "compression.type", "connections.max.idle.ms", "default.replication.factor"),
    *("delete.topic.enable", "group.initial.rebalance.delay.ms", "group.max.session.timeout.ms"),
    *("group.min.session.timeout.ms", "leader.imbalance.per.broker.percentage", "log.cleaner.delete.retention.ms"),
    *("log.cleaner.min.cleanable.ratio", "log.cleanup.policy", "log.flush.interval.messages"),
    *("log.flush.interval.ms", "log.message.timestamp.difference.max.ms", "log.message.timestamp.type"),
    *("log.retention.bytes", "log.retention.hours", "log.retention.minutes", "log.retention.ms", "log.roll.ms"),
    *("log.segment.bytes", "max.incremental.fetch.session.cache.slots", "message.max.bytes", "min.insync.replicas"),
    *("num.io.threads", "num.network.threads", "num.partitions", "num.recovery.threads.per.data.dir"),
    *("num.replica.fetchers", "offsets.retention.minutes", "offsets.topic.replication.factor"),
    *("replica.fetch.max.bytes", "replica.fetch.response.max.bytes", "replica.lag.time.max.ms"),
    *("replica.selector.class", "replica.socket.receive.buffer.bytes", "socket.receive.buffer.bytes"),
    *("socket.request.max.bytes", "socket.send.buffer.bytes", "transaction.max.timeout.ms"),
    *("transaction.state.log.min.isr", "transaction.state.log.replication.factor", "transactional.id.expiration.ms"),
    *("unclean.leader.election.enable", "allow.everyone.if.no.acl.found"),
}


def test_brokers_have_only_properties_that_msk_takes(environment: SynthesisedEnvironment) -> None:
    (configuration,) = environment.resources("AWS::MSK::Configuration")
    lines = configuration.properties["ServerProperties"].splitlines()
    names = {line.partition("=")[0] for line in lines if line and not line.startswith("#")}
    assert names
    assert names <= MSK_PROPERTIES


def test_directory_options_are_allowed_for_its_instances(environment: SynthesisedEnvironment) -> None:
    """Fine-grained access control needs HTTPS, encryption at rest and between nodes, and no t2 instances.

    Audit logs need fine-grained access control.
    https://docs.aws.amazon.com/opensearch-service/latest/developerguide/fgac.html
    https://docs.aws.amazon.com/opensearch-service/latest/developerguide/audit-logs.html
    https://docs.aws.amazon.com/opensearch-service/latest/developerguide/limits.html (volumes by instance type)
    """
    (domain,) = environment.resources("AWS::OpenSearchService::Domain")
    properties = domain.properties
    assert properties["AdvancedSecurityOptions"]["Enabled"] is True
    assert properties["EncryptionAtRestOptions"]["Enabled"] is True
    assert properties["NodeToNodeEncryptionOptions"]["Enabled"] is True
    assert properties["DomainEndpointOptions"]["EnforceHTTPS"] is True
    cluster = properties["ClusterConfig"]
    assert not cluster["InstanceType"].startswith("t2.")
    # Burstable instances: at most 10 nodes of 200 GiB each; other instances of the sizes in config.py accept at least 1
    # TiB.
    largest = 200 if cluster["InstanceType"].startswith("t3.") else 1_024
    assert 10 <= properties["EBSOptions"]["VolumeSize"] <= largest
    zones = cluster.get("ZoneAwarenessConfig", {"AvailabilityZoneCount": 1})["AvailabilityZoneCount"]
    # A domain without zone awareness has one subnet.
    assert len(properties["VPCOptions"]["SubnetIds"]) == zones
    assert cluster["ZoneAwarenessEnabled"] is (zones > 1)
    assert cluster["InstanceCount"] % zones == 0
    assert cluster.get("DedicatedMasterCount", 3) in (3, 5)


def test_emr_serverless_workers_have_a_size_that_exists(environment: SynthesisedEnvironment) -> None:
    """A worker of 2 vCPU has 4 to 16 GB, including an overhead of 10 %, in steps of 1 GB; capacity is written `N vCPU`,
    `N GB`.

    https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/worker-configs.html
    """
    memory = {1: (2, 8), 2: (4, 16), 4: (8, 30), 8: (16, 60), 16: (32, 120)}
    parameters = job_requests(environment)
    requests = [flat(parameter.properties["Value"]) for parameter in parameters]
    applications = list(environment.resources("AWS::EMRServerless::Application"))
    # The job of the organisation's own topics has an application of its own, where it is configured.
    own_topics = sum(parameter.properties["Name"].endswith("/events-job") for parameter in parameters)
    assert (len(requests), len(applications)) == (3 + own_topics, 2 + own_topics)
    for request in requests:
        for place in ("driver", "executor"):
            cores = int(re.findall(rf"spark\.{place}\.cores=(\d+)", request)[0])
            given = int(re.findall(rf"spark\.{place}\.memory=(\d+)g", request)[0])
            least, most = memory[cores]
            assert least <= given + max(1, given * 0.1) <= most, place
    for application in applications:
        capacity = application.properties["MaximumCapacity"]
        assert re.fullmatch(r"\d+(\.\d+)? ?vCPU", capacity["Cpu"])
        assert re.fullmatch(r"\d+(\.\d+)? ?GB", capacity["Memory"])


def test_capacity_agrees_with_dynamic_allocation(environment: SynthesisedEnvironment) -> None:
    """By default dynamic allocation is on, with three executors at the start and none at least. A run ends at once if
    the number at the start is above the maximum. spark.executor.instances is of a run without dynamic allocation.

    https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/jobs-spark.html#spark-defaults
    https://github.com/aws-samples/aws-emr-utilities/pull/175 (the error of a run)
    https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html#max-capacity
    """
    # The streaming job's next run may start before the present one has ended; the other runs share an application.
    runs_at_once = {"streaming-job": 1, "erase-job": 1, "archive-runs": 3, "events-job": 1}
    needed: Counter[tuple[str, str]] = Counter()
    for parameter in job_requests(environment):
        request = flat(parameter.properties["Value"])
        (application,) = re.findall(r'"applicationId":"([^"]+)"', request)
        found = dict(re.findall(r"spark\.dynamicAllocation\.(\w+)=(\w+)", request))
        assert found.pop("enabled") == "true"
        least, initial, most = (int(found[f"{name}Executors"]) for name in ("min", "initial", "max"))
        assert 0 <= least <= initial <= most
        assert "spark.executor.instances" not in request
        cores = [int(re.findall(rf"spark\.{place}\.cores=(\d+)", request)[0]) for place in ("driver", "executor")]
        runs = runs_at_once.pop(parameter.properties["Name"].rpartition("/")[2])
        needed[parameter.stack, application] += runs * (cores[0] + most * cores[1])
    assert runs_at_once.keys() <= {"events-job"}
    for application in environment.resources("AWS::EMRServerless::Application"):
        capacity = int(application.properties["MaximumCapacity"]["Cpu"].removesuffix(" vCPU"))
        [key] = [(stack, name) for stack, name in needed if stack == application.stack and application.id in name]
        assert capacity >= needed.pop(key), application
    assert not needed


def test_rules_run_at_rates_that_eventbridge_knows(environment: SynthesisedEnvironment) -> None:
    """https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html"""
    for rule in environment.resources("AWS::Events::Rule"):
        schedule = rule.properties.get("ScheduleExpression")
        # cron(minutes hours day-of-month month day-of-week year): one of the two days is `?`.
        if schedule is not None and not re.fullmatch(r"cron\([0-5]?\d (1?\d|2[0-3]) \* \* \? \*\)", schedule):
            rate = re.fullmatch(r"rate\((\d+) (minute|minutes|hour|hours|day|days)\)", schedule)
            assert rate, rule
            assert (rate[1] == "1") != rate[2].endswith("s"), rule
            assert int(rate[1]) > 0, rule
        assert len(as_list(rule.properties["Targets"])) <= 5, rule


def test_databases_have_a_size_and_backups_that_rds_takes(environment: SynthesisedEnvironment) -> None:
    """gp3 of PostgreSQL: 20 GiB to 64 TiB; the autoscaling limit is at least 10 % higher; 0 to 35 days of backups.

    https://docs.aws.amazon.com/AmazonRDS/latest/APIReference/API_CreateDBInstance.html
    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/USER_PIOPS.Autoscaling.html
    """
    for instance in environment.resources("AWS::RDS::DBInstance"):
        properties = instance.properties
        size = int(properties["AllocatedStorage"])
        assert 20 <= size <= 65_536, instance
        assert size * 1.1 <= properties["MaxAllocatedStorage"] <= 65_536, instance
        assert 0 <= properties["BackupRetentionPeriod"] <= 35, instance
        # RDS rejects `admin`, `rdsadmin` and other reserved words of the engine.
        assert properties.get("MasterUsername") not in ("admin", "postgres", "rdsadmin", "rds_superuser"), instance


# Broker type → maximum number of partitions, replicas included, with which MSK still updates a cluster.
# https://docs.aws.amazon.com/msk/latest/developerguide/bestpractices.html#partitions-per-broker
PARTITIONS_A_BROKER = {"kafka.t3.small": 300, "kafka.m7g.large": 1_500, "kafka.m7g.xlarge": 1_500}


def test_brokers_hold_the_partitions_of_every_topic(environment: SynthesisedEnvironment) -> None:
    (cluster,) = environment.resources("AWS::MSK::Cluster")
    topics = [each.properties for each in environment.resources("AWS::MSK::Topic")]
    replicas = sum(each["PartitionCount"] * each["ReplicationFactor"] for each in topics)
    kind = cluster.properties["BrokerNodeGroupInfo"]["InstanceType"]
    assert replicas <= PARTITIONS_A_BROKER[kind] * cluster.properties["NumberOfBrokerNodes"]


def test_connectors_have_a_capacity_that_msk_connect_knows(prod: SynthesisedEnvironment) -> None:
    """https://docs.aws.amazon.com/MSKC/latest/mskc/API_ProvisionedCapacity.html"""
    connectors = list(prod.resources("AWS::KafkaConnect::Connector"))
    assert connectors
    for connector in connectors:
        capacity = connector.properties["Capacity"]["ProvisionedCapacity"]
        assert capacity["McuCount"] in (1, 2, 4, 8), connector
        assert 1 <= capacity["WorkerCount"] <= 10, connector


def test_tasks_have_a_size_that_fargate_knows(environment: SynthesisedEnvironment) -> None:
    """https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-tasks-services.html"""
    memory = {256: (512, 2_048), 512: (1_024, 4_096), 1_024: (2_048, 8_192), 2_048: (4_096, 16_384)}
    tasks = list(environment.resources("AWS::ECS::TaskDefinition"))
    assert tasks
    for task in tasks:
        least, most = memory[int(task.properties["Cpu"])]
        assert least <= int(task.properties["Memory"]) <= most, task
        assert int(task.properties["Memory"]) % 512 == 0, task


def test_health_checks_end_before_the_next_begins(environment: SynthesisedEnvironment) -> None:
    """https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health-checks.html"""
    groups = list(environment.resources("AWS::ElasticLoadBalancingV2::TargetGroup"))
    assert groups
    for group in groups:
        properties = group.properties
        assert 2 <= properties["HealthCheckTimeoutSeconds"] <= 120, group
        assert properties["HealthCheckTimeoutSeconds"] < properties["HealthCheckIntervalSeconds"] <= 300, group
        assert 2 <= properties["HealthyThresholdCount"] <= 10, group
        assert 2 <= properties["UnhealthyThresholdCount"] <= 10, group


def test_events_are_kept_and_retried_within_limits(environment: SynthesisedEnvironment) -> None:
    """Retries end after: 60 s to a day and 185 attempts for a rule's target; 60 s to 6 h and 2 attempts for an
    asynchronous invocation; 14 days for a queue.

    https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_RetryPolicy.html
    https://docs.aws.amazon.com/lambda/latest/api/API_PutFunctionEventInvokeConfig.html
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html
    """
    for rule in environment.resources("AWS::Events::Rule"):
        for target in rule.properties["Targets"]:
            retries = target.get("RetryPolicy", {})
            assert 60 <= retries.get("MaximumEventAgeInSeconds", 86_400) <= 86_400, rule
            assert 0 <= retries.get("MaximumRetryAttempts", 185) <= 185, rule
    for invoking in environment.resources("AWS::Lambda::EventInvokeConfig"):
        assert 60 <= invoking.properties["MaximumEventAgeInSeconds"] <= 21_600, invoking
        assert 0 <= invoking.properties["MaximumRetryAttempts"] <= 2, invoking
    for queue in environment.resources("AWS::SQS::Queue"):
        assert 60 <= queue.properties["MessageRetentionPeriod"] <= 1_209_600, queue


def test_objects_move_to_infrequent_access_after_30_days(environment: SynthesisedEnvironment) -> None:
    """Objects move to infrequent access after 30 days or more, and before they expire.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/lifecycle-transition-general-considerations.html
    """
    for bucket in environment.resources("AWS::S3::Bucket"):
        for rule in bucket.properties.get("LifecycleConfiguration", {}).get("Rules", ()):
            for transition in rule.get("Transitions", ()):
                assert transition["TransitionInDays"] >= 30, bucket
                assert transition["TransitionInDays"] < rule.get("ExpirationInDays", 10_000), bucket


def test_the_firewall_counts_as_waf_can(prod: SynthesisedEnvironment) -> None:
    """https://docs.aws.amazon.com/waf/latest/APIReference/API_RateBasedStatement.html"""
    for acl in prod.resources("AWS::WAFv2::WebACL"):
        rules = acl.properties["Rules"]
        assert len({rule["Priority"] for rule in rules}) == len(rules)
        for rule in rules:
            # A rule that references a rule group has an override action; any other rule has an action.
            assert ("OverrideAction" in rule) != ("Action" in rule), rule["Name"]
            if rate := rule["Statement"].get("RateBasedStatement"):
                assert 10 <= rate["Limit"] <= 2_000_000_000
                assert rate["EvaluationWindowSec"] in (60, 120, 300, 600)


def test_the_firewall_accepts_documented_requests(prod: SynthesisedEnvironment) -> None:
    """Rules of the common rule set refuse queries above 2,048 bytes, bodies above 8 kB, and bodies with HTML or with
    the address of a server; the rules that would refuse documented requests only count.

    https://docs.aws.amazon.com/waf/latest/developerguide/aws-managed-rule-groups-baseline.html
    """
    document = json.loads((ROOT / "docs" / "openapi" / "masscomm.json").read_text())
    operations = [each for path in document["paths"].values() for each in path.values() if isinstance(each, dict)]
    assert max(map(_longest_query, operations)) > 2_048
    assert "html" in document["components"]["schemas"]["Draft"]["properties"]
    (acl,) = (each for each in prod.resources("AWS::WAFv2::WebACL") if each.stack == "api")
    (common,) = [each for each in acl.properties["Rules"] if each["Name"] == "AWSManagedRulesCommonRuleSet"]
    overrides = common["Statement"]["ManagedRuleGroupStatement"]["RuleActionOverrides"]
    assert {each["Name"] for each in overrides if "Count" in each["ActionToUse"]} >= {
        *("SizeRestrictions_QUERYSTRING", "SizeRestrictions_BODY", "CrossSiteScripting_BODY", "GenericRFI_BODY")
    }


def _longest_query(operation: dict[str, Any]) -> int:
    """Return the bytes of a query with as many ids of tenants as the operation accepts, or 0."""
    parameters = {each["name"]: each["schema"] for each in operation.get("parameters", ()) if each.get("in") == "query"}
    club = parameters.get("club_id", {})
    return int(club.get("maxItems", 0)) * len(f"club_id={club.get('items', {}).get('maximum')}&")


def test_permissions_of_a_function_fit_into_its_policy(environment: SynthesisedEnvironment) -> None:
    """Each route, rule and log group adds a statement to the policy of its function, which has 20,480 bytes.

    https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
    """
    sizes: Counter[str] = Counter()
    for permission in environment.resources("AWS::Lambda::Permission"):
        properties = permission.properties
        source = flat(properties.get("SourceArn", ""))
        statement = {
            # CloudFormation adds 12 characters to the names of stack and resource.
            "Sid": f"masscomm-{environment.name}-{permission.stack}-{permission.id}-{12 * 'x'}",
            "Effect": "Allow",
            "Principal": {"Service": properties["Principal"]},
            "Action": properties["Action"],
            "Resource": f"arn:aws:lambda:eu-central-1:{12 * '0'}:function:{64 * 'x'}:live",
            "Condition": {"ArnLike": {"AWS:SourceArn": source}},
        }
        sizes[f"{permission.stack}/{flat(properties['FunctionName'])}"] += len(json.dumps(statement))
    assert max(sizes.values()) > 1_000
    assert {function: size for function, size in sizes.items() if size > 20_480} == {}


def test_api_invokes_each_function_by_one_permission(environment: SynthesisedEnvironment) -> None:
    """The stage of test invocations, which pass the authorizer by, has none."""
    sources: defaultdict[str, list[str]] = defaultdict(list)
    for permission in environment.resources("AWS::Lambda::Permission"):
        source = flat(permission.properties.get("SourceArn", ""))
        if ":execute-api:" in source and "/authorizers/" not in source and permission.stack == "api":
            sources[flat(permission.properties["FunctionName"])].append(source)
    assert len(sources) > 5
    assert {len(each) for each in sources.values()} == {1}
    assert all(source.endswith(f"/{STAGE}/*/*") for [source] in sources.values())


def test_job_requests_keep_the_limits_of_emr_serverless(environment: SynthesisedEnvironment) -> None:
    """A batch has a limit of at most seven days, and a stream one of 0, because the default of twelve hours would end
    it.

    https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_StartJobRun.html
    https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/considerations.html
    https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/release-version-7110.html
    """
    for parameter in job_requests(environment):
        request = flat(parameter.properties["Value"])
        # keep_job and start_run append to the name.
        assert len(re.findall(r'"name":"([^"]*)"', request)[0]) <= 200
        (entry,) = re.findall(r'"entryPoint":"([^"]*)"', request)
        assert len(entry) <= 256
        (parameters,) = re.findall(r'"sparkSubmitParameters":"((?:[^"\\]|\\.)*)"', request)
        assert len(parameters) <= 102_400
        (mode,) = re.findall(r'"mode":"(\w+)"', request)
        (minutes,) = map(int, re.findall(r'"executionTimeoutMinutes":(\d+)', request))
        assert minutes == 0 if mode == "STREAMING" else 0 < minutes <= 7 * 24 * 60
    for application in environment.resources("AWS::EMRServerless::Application"):
        assert 1 <= application.properties["AutoStopConfiguration"]["IdleTimeoutMinutes"] <= 10_080


@pytest.mark.parametrize("name", ["small", "prod", "replacing", "local"])
def test_templates_are_no_larger_than_cloudformation_takes(
    synthesised: dict[str, SynthesisedEnvironment], name: str
) -> None:
    """A stack has at most 500 resources, 200 outputs, and a template of 1 MB from S3.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
    """
    for stack, template in synthesised[name].templates().items():
        assert len(template["Resources"]) <= 500, stack
        assert len(template.get("Outputs", {})) <= 200, stack
        assert len(json.dumps(template)) <= 1_000_000, stack
        assert all(len(each) <= 255 for each in template["Resources"]), stack


GLUE_DATABASE = "AWS::Glue::Database"


def test_writers_of_the_archive_commit_to_its_tables_only(environment: SynthesisedEnvironment) -> None:
    """Iceberg's commits are calls of UpdateTable: https://iceberg.apache.org/docs/latest/aws/#glue-catalog

    The actions and their resources: https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsglue.html
    """
    granted = [
        (resource, statement)
        for resource, statement in role_statements(environment)
        if any(action.startswith("glue:") for action in actions(statement))
    ]
    databases = [each.properties["DatabaseInput"]["Name"] for each in environment.resources(GLUE_DATABASE)]
    assert len(granted) == (3 if databases else 0)
    for resource, statement in granted:
        assert set(actions(statement)) == {"glue:CreateTable", "glue:GetDatabase", "glue:GetTable", "glue:UpdateTable"}
        ends = {target.rpartition(":")[2] for target in targets(statement)}
        tables = {f"table/{databases[-1]}/{name}" for name in ("records", "uncounted")}
        assert ends == {"catalog", f"database/{databases[-1]}", *tables}, resource
    places = {str(each.properties["DatabaseInput"]["LocationUri"]) for each in environment.resources(GLUE_DATABASE)}
    assert len(databases) == len(set(databases)) == len(places), "each archive has a database and a folder of its own"
    assert len(databases) == (2 if environment.name == REPLACING.name else bool(databases))
    for name in databases:
        # Spark's SQL takes such names without quotes.
        assert re.fullmatch(r"[a-z0-9_]{1,255}", name)
