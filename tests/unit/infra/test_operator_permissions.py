"""The role of operators' commands, and the policy of people who start them, have exactly these permissions."""

from collections import defaultdict
from typing import Any

from infra.cdk.examples import ENVIRONMENTS
from infra.cdk.parts import has_mapping
from infra.cdk.profiles import CONNECT_OFFSETS_TOPIC, OPERATOR_REQUESTS
from infra.cdk.stacks.grants import cdc_groups, of_generations
from masscomm.kafka.topic_reading import OPERATIONS_GROUP
from masscomm.kafka.topics import DEAD_LETTER_STATUS, cdc_topics, chain_topics
from masscomm.operations.dead_letter_replays import sources, transactional_id
from tests.support.cdk.resolved import ACCOUNT, Resolver
from tests.support.cdk.templates import SynthesisedEnvironment, actions, as_list, flat, role_statements

type Permissions = dict[str, set[str]]


def permissions(resolved: Resolver, statements: list[tuple[str, dict[str, Any]]]) -> Permissions:
    """Return the resources of each action: what follows the account in their ARNs."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for stack, statement in statements:
        assert statement["Effect"] == "Allow"
        for action in actions(statement):
            for resource in as_list(statement["Resource"]):
                found[action].add(str(resolved(stack, resource)).partition(f":{ACCOUNT}:")[2])
    return dict(found)


def test_operators_role_has_exactly_these_permissions(environment: SynthesisedEnvironment) -> None:
    prefix = f"masscomm-{environment.name}"
    found = permissions(
        Resolver(environment),
        [
            (policy.stack, statement)
            for policy, statement in role_statements(environment)
            if any("operatorrole" in flat(role) for role in policy.properties.get("Roles", ()))
        ],
    )
    (cluster,) = found["kafka-cluster:Connect"]
    (key,) = found["kms:Decrypt"]
    of_kafka = cluster.removeprefix("cluster/")
    generation = ENVIRONMENTS[environment.name].generation
    read = [topic.name for topic in (*chain_topics(), *cdc_topics(generation))]
    topics = {f"topic/{of_kafka}/{name}" for name in (*read, CONNECT_OFFSETS_TOPIC)}
    consumed = [name for name in sources(generation) if has_mapping(name, ENVIRONMENTS[environment.name])]
    written = {f"topic/{of_kafka}/{name}" for name in (*consumed, DEAD_LETTER_STATUS)}
    groups = [OPERATIONS_GROUP, *cdc_groups(ENVIRONMENTS[environment.name])]
    transaction = {f"transactional-id/{of_kafka}/{transactional_id(DEAD_LETTER_STATUS)}"}
    requests = [each.split() for each in of_generations(OPERATOR_REQUESTS, ENVIRONMENTS[environment.name])]
    assert found == {
        "kafka-cluster:Connect": {cluster},
        "kafka-cluster:DescribeCluster": {cluster},
        "kafka-cluster:WriteDataIdempotently": {cluster},
        "kafka-cluster:ReadData": topics,
        "kafka-cluster:WriteData": written,
        "kafka-cluster:DescribeTopic": topics | written,
        "kafka-cluster:DescribeGroup": {f"group/{of_kafka}/{name}" for name in groups},
        "kafka-cluster:AlterTransactionalId": transaction,
        "kafka-cluster:DescribeTransactionalId": transaction,
        "dynamodb:GetItem": {f"table/{prefix}-decisions"},
        "dynamodb:Query": {f"table/{prefix}-delivery_ledger", f"table/{prefix}-audit_log"},
        "dynamodb:Scan": {f"table/{prefix}-waiting"},
        "dynamodb:PutItem": {f"table/{prefix}-audit_log"},
        **{
            f"es:ESHttp{method.capitalize()}": {
                f"domain/{prefix}-directory/{path}" for each, path in requests if each == method
            }
            for method in ("GET", "PUT", "POST")
        },
        "kms:Decrypt": {key},
        "kms:DescribeKey": {key},
    }


def test_people_may_start_the_operators_task_alone(environment: SynthesisedEnvironment) -> None:
    """The policy that a deployment offers for their roles. Each call is confined to the environment's cluster."""
    configured, prefix = ENVIRONMENTS[environment.name], f"masscomm-{environment.name}"
    (policy,) = [
        each
        for each in environment.resources("AWS::IAM::ManagedPolicy")
        if each.properties.get("ManagedPolicyName") == f"{configured.global_prefix}-operators"
    ]
    statements = policy.properties["PolicyDocument"]["Statement"]
    found = permissions(Resolver(environment), [(policy.stack, each) for each in statements])
    execution = {each for each in found["iam:PassRole"] if "ExecutionRole" in each}
    assert len(execution) == 1
    log = found["logs:GetLogEvents"]
    assert found == {
        "ecs:RunTask": {f"task-definition/{prefix}-operator:*"},
        "ecs:DescribeTasks": {f"task/{prefix}/*"},
        "ecs:StopTask": {f"task/{prefix}/*"},
        "iam:PassRole": {f"role/{configured.global_prefix}-operator", *execution},
        "logs:GetLogEvents": log,
        "ssm:GetParameter": {f"parameter/{prefix}/tasks/operator"},
    }
    assert all("operatorlog" in each for each in log)
    for statement in statements:
        if any(action.startswith("ecs:") for action in actions(statement)):
            assert flat(statement["Condition"]["ArnEquals"]["ecs:cluster"]).endswith(f":cluster/{prefix}")
        if "iam:PassRole" in actions(statement):
            assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}}
