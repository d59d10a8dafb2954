"""The concurrent executions that environments in one account and region can need at a time."""

from collections.abc import Iterable, Iterator

from infra.cdk.config import UNRESERVED, Environment
from infra.cdk.parts import deployed, left_out
from infra.cdk.profiles import PROFILES, Warmth
from masscomm.domain.lanes import Lane
from masscomm.kafka.topics import Topic, cdc_topics, chain_topics

# The invocations of a poller at a time. https://docs.aws.amazon.com/lambda/latest/dg/kafka-scaling-modes.html
INVOCATIONS_A_POLLER = 5


def partitions_of(topic: Topic, environment: Environment) -> int:
    """Return the number of partitions that a topic of schemas/topics.yaml has in the environment."""
    # The environment's partition factor does not apply to topics with one partition, because their order matters or
    # their volume is small.
    return topic.partitions * (environment.kafka.partitions_factor if topic.partitions > 1 else 1)


def concurrent_invocations(partitions: int, environment: Environment) -> int:
    """Return the maximum number of concurrent invocations by a mapping: at most one for each partition."""
    if environment.pollers is None:
        return partitions
    return min(partitions, environment.pollers * INVOCATIONS_A_POLLER)


def invoked_by_kafka(environment: Environment) -> dict[str, int]:
    """Return, for each function, the number of its environments that its mappings' pollers can occupy at a time."""
    topics = {topic.name: topic for topic in [*chain_topics(), *cdc_topics(environment.generation)]}
    return {
        entry.name: sum(
            concurrent_invocations(partitions_of(topics[topic], environment), environment)
            for topic in entry.event_source.topics
        )
        for entry in deployed(environment)
        if entry.event_source is not None
    }


def provisioned(environment: Environment) -> dict[str, int]:
    """Return the provisioned concurrency of each function that has one."""
    found = {}
    for entry in deployed(environment):
        profile = PROFILES[entry.package]
        if (profile.critical if entry.lane is Lane.CRITICAL else profile.warmth) is Warmth.PROVISIONED:
            found[entry.name] = environment.provisioned
    return found


def occupied(environment: Environment) -> int:
    """Return the reservations of an environment, and the needs of its pollers and warm functions."""
    warm, pollers, absent = provisioned(environment), invoked_by_kafka(environment), left_out(environment)
    reserved = {name: each for name, each in environment.concurrency.reserved.items() if name not in absent}
    names = (warm.keys() | pollers.keys()) - reserved.keys()
    return sum(reserved.values()) + sum(max(warm.get(each, 0), pollers.get(each, 0)) for each in names)


def quota_for(environments: Iterable[Environment]) -> int:
    """Return the quota for concurrent executions that environments of one account and region need together."""
    return UNRESERVED + sum(map(occupied, environments))


def conflicts(environments: Iterable[Environment]) -> Iterator[str]:
    """Yield what the environments of one account and region must not share.

    An environment without an account may be in any account: preflight looks which stacks are in its own.
    """
    groups: dict[tuple[str, str], list[Environment]] = {}
    for each in environments:
        if each.account is not None:
            groups.setdefault((each.account, each.region), []).append(each)
    for (account, region), group in groups.items():
        names = ", ".join(each.name for each in group)
        quotas = {each.concurrency.account for each in group}
        if len(quotas) > 1:
            yield f"{names}: concurrency.account is the quota of {account} in {region}, but they name {quotas}"
        elif quota_for(group) > min(quotas):
            yield f"{names}: {account} in {region} needs concurrency.account: {quota_for(group)}, and has {min(quotas)}"
        if len({each.spark.daily_runs_hour for each in group}) < len(group):
            yield f"{names}: spark.daily_runs_hour differs, because EMR Serverless has one quota for {account}"
