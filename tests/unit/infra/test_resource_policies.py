"""Each writer of a topic, queue, bucket or of the key has a permission, since a policy with only denials allows
nothing.

Pages of AWS' documentation:

- a topic without a policy of its own lets its account publish (the condition `AWS:SourceOwner`), one with a policy has
  no other: https://docs.aws.amazon.com/sns/latest/dg/sns-access-policy-use-cases.html,
  https://docs.aws.amazon.com/sns/latest/api/API_SetTopicAttributes.html
- alarms publish as cloudwatch.amazonaws.com:
  https://repost.aws/knowledge-center/cloudwatch-receive-sns-for-alarm-trigger
- events of platform applications are published in the owner's name:
  https://docs.aws.amazon.com/sns/latest/dg/application-event-notifications.html
- a writer of an encrypted topic needs kms:GenerateDataKey* and kms:Decrypt, and EventBridge sends no source
  account: https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html
- the same applies to encrypted queues, with the encryption context aws:sqs:arn:
  https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
- rules and subscriptions write to dead-letter queues as the service:
  https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html,
  https://docs.aws.amazon.com/sns/latest/dg/sns-configure-dead-letter-queue.html
- CloudWatch Logs and its encryption context:
  https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
- server access logs: https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-server-access-logging.html
- access logs of load balancers:
  https://docs.aws.amazon.com/elasticloadbalancing/latest/application/enable-access-logging.html
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from tests.support.cdk.templates import (
    ROLE_POLICIES,
    SynthesisedEnvironment,
    actions,
    as_list,
    flat,
    job_requests,
    role_statements,
    statements,
    targets,
)

# Type of a policy → (type of its resource, the policy's property that names the resource, action of a writer).
POLICIES = {
    "AWS::SNS::TopicPolicy": ("AWS::SNS::Topic", "Topics", "sns:Publish"),
    "AWS::SQS::QueuePolicy": ("AWS::SQS::Queue", "Queues", "sqs:SendMessage"),
    "AWS::S3::BucketPolicy": ("AWS::S3::Bucket", "Bucket", "s3:PutObject"),
}
OWNER = "the account itself"
CLOUDWATCH, EVENTS, SNS = "cloudwatch.amazonaws.com", "events.amazonaws.com", "sns.amazonaws.com"


def _name(reference: object) -> str:
    return flat(reference).strip("{}").removesuffix(".Arn")


def writers(environment: SynthesisedEnvironment) -> dict[tuple[str, str], set[str]]:
    """Return the services that write to each (stack, topic, queue or bucket) according to the templates."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for each in environment.resources():
        properties = each.properties
        match each.type:
            case "AWS::CloudWatch::Alarm":
                for kind in ("AlarmActions", "OKActions", "InsufficientDataActions"):
                    for action in properties.get(kind, ()):
                        found[each.stack, _name(action)].add(CLOUDWATCH)
            case "AWS::Budgets::Budget":
                for notification in properties["NotificationsWithSubscribers"]:
                    for subscriber in notification["Subscribers"]:
                        if subscriber["SubscriptionType"] == "SNS":
                            found[each.stack, _name(subscriber["Address"])].add("budgets.amazonaws.com")
            case "AWS::Events::Rule":
                for target in properties["Targets"]:
                    if "DeadLetterConfig" in target:
                        found[each.stack, _name(target["DeadLetterConfig"]["Arn"])].add(EVENTS)
                    if _name(target["Arn"]) in _ids(environment, each.stack):
                        found[each.stack, _name(target["Arn"])].add(EVENTS)
            case "AWS::SNS::Subscription":
                if "RedrivePolicy" in properties:
                    found[each.stack, _name(properties["RedrivePolicy"]["deadLetterTargetArn"])].add(SNS)
                if properties["Protocol"] == "sqs":
                    found[each.stack, _name(properties["Endpoint"])].add(SNS)
            case "AWS::SES::ConfigurationSetEventDestination":
                if topic := properties["EventDestination"].get("SnsDestination"):
                    found[each.stack, _name(topic["TopicARN"])].add("ses.amazonaws.com")
            case "AWS::S3::Bucket":
                if "LoggingConfiguration" in properties:
                    name = _name(properties["LoggingConfiguration"]["DestinationBucketName"])
                    found[each.stack, name].add("logging.s3.amazonaws.com")
            case "AWS::ElasticLoadBalancingV2::LoadBalancer":
                for attribute in properties["LoadBalancerAttributes"]:
                    if attribute["Key"] == "access_logs.s3.bucket":
                        found[each.stack, _name(attribute["Value"])].add("delivery.logs.amazonaws.com")
            case "Custom::AWS":
                for topic in _event_topics(flat(properties["Update"])):
                    found[each.stack, topic].add(OWNER)
    return found


def _ids(environment: SynthesisedEnvironment, stack: str) -> set[str]:
    kinds = ("AWS::SNS::Topic", "AWS::SQS::Queue")
    return {each.id for kind in kinds for each in environment.resources(kind) if each.stack == stack}


def _event_topics(call: str) -> Iterator[str]:
    attributes = json.loads(call)["parameters"].get("Attributes", {})
    for name, value in attributes.items():
        if name.startswith("Event"):
            yield value.strip("{}")


def allowed(environment: SynthesisedEnvironment) -> dict[tuple[str, str], set[str]]:
    """Return the services to which the policy of each (stack, topic, queue or bucket) allows writing."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for kind, (_, of, action) in POLICIES.items():
        for policy, statement in statements(environment, kind):
            if statement["Effect"] == "Allow" and action in actions(statement):
                for name in map(_name, as_list(policy.properties[of])):
                    found[policy.stack, name] |= set(_principals(statement))
    return found


def _principals(statement: dict[str, Any]) -> Iterator[str]:
    principal = statement["Principal"]
    if principal in ("*", {"AWS": "*"}):
        # A policy counts only if a condition restricts the account.
        condition = statement.get("Condition", {}).get("StringEquals", {})
        if flat(condition.get("aws:SourceOwner", "")) == "{AWS::AccountId}":
            yield OWNER
    elif isinstance(principal, dict):
        yield from as_list(principal.get("Service", []))
        yield from map(flat, as_list(principal.get("AWS", [])))


def test_each_resource_policy_allows_its_writers(environment: SynthesisedEnvironment) -> None:
    wanted, may = writers(environment), allowed(environment)
    assert {service for services in wanted.values() for service in services} >= {CLOUDWATCH, EVENTS, SNS, OWNER}
    assert {place: services - may[place] for place, services in wanted.items() if services - may[place]} == {}


def test_a_policy_with_a_denial_also_has_a_permission(environment: SynthesisedEnvironment) -> None:
    """A policy with only denials makes a topic or queue accept nothing; the account's roles still write to buckets."""
    silent = []
    for kind, (_, of, action) in POLICIES.items():
        denying = {
            (policy.stack, _name(each))
            for policy, statement in statements(environment, kind)
            if statement["Effect"] == "Deny" and kind != "AWS::S3::BucketPolicy"
            for each in as_list(policy.properties[of])
        }
        silent += [place for place in denying if not allowed(environment)[place]]
        assert denying or kind == "AWS::S3::BucketPolicy", action
    assert silent == []


def test_a_topic_is_writable_in_every_environment(local: SynthesisedEnvironment) -> None:
    wanted, may = writers(local), allowed(local)
    assert {place: services - may[place] for place, services in wanted.items() if services - may[place]} == {}


def test_each_resource_policy_refuses_other_accounts(environment: SynthesisedEnvironment) -> None:
    for kind, (_, _, action) in POLICIES.items():
        for policy, statement in statements(environment, kind):
            if statement["Effect"] == "Allow" and action in actions(statement):
                said = json.dumps(statement.get("Condition", {})) + json.dumps(statement["Resource"])
                assert "AWS::AccountId" in said or "SourceArn" in said, policy


# --- the key ----------------------------------------------------------------------------------------------------------


def key_users(environment: SynthesisedEnvironment) -> dict[str, list[dict[str, Any]]]:
    """Service → the statements of the key's policy about it."""
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, statement in statements(environment, "AWS::KMS::Key"):
        principal = statement["Principal"]
        for service in as_list(principal.get("Service", []) if isinstance(principal, dict) else []):
            found[service].append(statement)
    return found


def _may(statement: dict[str, Any], action: str) -> bool:
    return any(fnmatchcase(action, pattern) for pattern in actions(statement))


def test_writers_to_encrypted_topics_and_queues_may_use_the_key(environment: SynthesisedEnvironment) -> None:
    users = key_users(environment)
    encrypted = {
        (each.stack, each.id)
        for kind in ("AWS::SNS::Topic", "AWS::SQS::Queue")
        for each in environment.resources(kind)
        if each.properties.get("KmsMasterKeyId")
    }
    services = {service for place, all_ in writers(environment).items() if place in encrypted for service in all_}
    # Events of platform applications are published by SNS itself.
    for service in {SNS if each == OWNER else each for each in services}:
        for action in ("kms:GenerateDataKey", "kms:Decrypt"):
            assert any(_may(statement, action) for statement in users[service]), (service, action)


def test_eventbridge_uses_the_key_without_a_source_account(environment: SynthesisedEnvironment) -> None:
    """EventBridge does not support conditions on aws:SourceAccount or aws:SourceArn in a key's policy."""
    (statement,) = key_users(environment)[EVENTS]
    keys = {key for operator in statement["Condition"].values() for key in operator}
    assert keys == {"kms:EncryptionContext:aws:sqs:arn"}
    assert "AWS::AccountId" in json.dumps(statement["Condition"])


def test_log_groups_may_have_the_key(environment: SynthesisedEnvironment) -> None:
    (service,) = [each for each in key_users(environment) if each.startswith("logs.")]
    (statement,) = key_users(environment)[service]
    for action in ("Encrypt", "Decrypt", "ReEncryptTo", "GenerateDataKey", "DescribeKey"):
        assert _may(statement, f"kms:{action}"), action


# Resource type with a property that names the KMS key → the key's users and the test or page about their permission.
KEY_PROPERTIES = {
    "AWS::DynamoDB::Table": "callers, by their roles: test_roles_that_use_encrypted_data_may_use_the_key",
    "AWS::SQS::Queue": "writers: test_writers_to_encrypted_topics_and_queues_may_use_the_key",
    "AWS::SNS::Topic": "writers: test_writers_to_encrypted_topics_and_queues_may_use_the_key",
    "AWS::Logs::LogGroup": "CloudWatch Logs: test_log_groups_may_have_the_key",
    "AWS::S3::Bucket": "callers, by their roles",
    "AWS::SecretsManager::Secret": "callers, by their roles",
    # RDS makes a grant in the name of the deploying role:
    # https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/Overview.Encryption.Keys.html
    "AWS::RDS::DBInstance": "RDS, by a grant; the administrator's secret: callers, by their roles",
    # https://docs.aws.amazon.com/opensearch-service/latest/developerguide/encryption-at-rest.html
    "AWS::OpenSearchService::Domain": "OpenSearch Service, by a grant",
    # https://docs.aws.amazon.com/msk/latest/developerguide/msk-encryption.html
    "AWS::MSK::Cluster": "MSK, by a grant",
    "AWS::KMS::Alias": "a name for it",
}


def _names_the_key(value: object) -> bool:
    text = json.dumps(value)
    return '"keyFEDD6EC0"' in text or "keyFEDD6EC0Arn" in text or "ExportsOutputRefkeyFEDD6EC0" in text


def test_every_use_of_the_key_is_known(environment: SynthesisedEnvironment) -> None:
    """A resource type that uses the KMS key fails the test if KEY_PROPERTIES does not list the key's users."""
    found = set()
    for resource in environment.resources():
        if resource.type not in (*ROLE_POLICIES, "AWS::KMS::Key") and _names_the_key(resource.properties):
            found.add(resource.type)
    assert found == KEY_PROPERTIES.keys()


# An action on encrypted data → the permissions on the key that its caller needs.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
# https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
NEEDED = {
    "dynamodb:GetItem": {"kms:Decrypt"},
    "dynamodb:PutItem": {"kms:Decrypt"},
    "s3:PutObject": {"kms:GenerateDataKey"},
    "s3:GetObject": {"kms:Decrypt"},
    "sqs:SendMessage": {"kms:GenerateDataKey", "kms:Decrypt"},
}


def _by_role(environment: SynthesisedEnvironment) -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for policy, statement in role_statements(environment):
        for role in policy.properties.get("Roles", []):
            found[policy.stack, flat(role)].append(statement)
    return found


def test_roles_that_use_encrypted_data_may_use_the_key(environment: SynthesisedEnvironment) -> None:
    missing = []
    for role, granted in _by_role(environment).items():
        if role[0] == "console":
            continue  # the console's files are public: their bucket has S3-managed keys
        used = {action for statement in granted for action in actions(statement)}
        keys = {
            action
            for statement in granted
            if any("key" in target.lower() for target in targets(statement))
            for action in actions(statement)
        }
        for action in used & NEEDED.keys():
            missing += [(role, action, need) for need in NEEDED[action] if need not in keys]
    assert missing == []


def test_roles_that_read_our_secrets_may_decrypt_them(environment: SynthesisedEnvironment) -> None:
    """The stack `cdc` is excepted: it reads the monolith's secret, for which MonolithConfig.key_arn names a key."""
    allowed = {
        role: {action for statement in granted for action in actions(statement)}
        for role, granted in _by_role(environment).items()
    }
    readers = {role for role, found in allowed.items() if "secretsmanager:GetSecretValue" in found and role[0] != "cdc"}
    assert len(readers) >= 2
    assert {role for role in readers if "kms:Decrypt" not in allowed[role]} == set()


def test_the_job_is_submitted_without_a_key_of_its_own(environment: SynthesisedEnvironment) -> None:
    """EMR Serverless rejects a job if the submitter has no permission on the key of its logs.

    https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/jobs-log-encryption.html: the submitter needs
    kms:GenerateDataKey and kms:Decrypt, the run logs:AssociateKmsKey. The log group has its key already.
    """
    for parameter in job_requests(environment):
        request = flat(parameter.properties["Value"])
        assert "key-arn" not in request
        assert "KeyArn" not in request
        assert '"cloudWatchLoggingConfiguration":{"enabled":true' in request
        group = request.partition('"logGroupName":"')[2].partition('"')[0].strip("{}")
        (log,) = [each for each in environment.resources("AWS::Logs::LogGroup") if each.id == group]
        assert log.properties["KmsKeyId"]


def test_endpoints_refuse_credentials_of_another_account(environment: SynthesisedEnvironment) -> None:
    """Without a policy of its own, an endpoint lets any credentials reach any account.

    https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-access.html
    """
    endpoints = list(environment.resources("AWS::EC2::VPCEndpoint"))
    assert len(endpoints) > (1 if environment.name == "small" else 10)
    for endpoint in endpoints:
        open_ = [
            (actions(each), targets(each))
            for each in endpoint.properties["PolicyDocument"]["Statement"]
            if "aws:PrincipalAccount" not in json.dumps(each.get("Condition"))
            and "aws:PrincipalIsAWSService" not in json.dumps(each.get("Condition"))
        ]
        for allowed, found in open_:
            # The layers of container images.
            assert allowed == {"s3:GetObject"}
            assert all("starport-layer-bucket" in each for each in found)
            assert "s3" in json.dumps(endpoint.properties["ServiceName"])
