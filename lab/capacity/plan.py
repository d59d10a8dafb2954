"""The sizes of a deployment: the configuration of an environment, the functions, the topics and the quotas of AWS.

All sizes except the quotas are read from the sources of the deployment: examples/environments, functions/functions.yaml
and schemas/topics.yaml.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Self

from functions.catalogue import FunctionEntry, read_catalogue
from infra.cdk.config import Environment
from lab.capacity.quotas import quota, sns_publish
from lab.capacity.service_times import ServiceTimes
from lab.capacity.workload import Workload
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.outcomes import RANGE_SIZE
from masscomm.kafka import topics

STEPS = ("preference_checker", "builder", "delivery")
# The topic that each function consumes. The model assumes the worst case, in which one producer causes all traffic of
# the preference checker.
INPUTS = {"preference_checker": topics.SEND_API, "builder": topics.BUILD, "delivery": topics.DELIVERY}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The sizes of an environment, and the quotas of its account."""

    environment: Environment
    # The partitions by function: those of its bulk topic, which each of its broadcast queues has too.
    partitions: Mapping[str, int]
    # The maximum number of pollers by function.
    pollers: Mapping[str, int]
    memory_mb: Mapping[str, int]  # The memory in MB by function.
    sns_publish: float  # The fields from sns_publish to emr_vcpus are quotas of AWS.
    ses_rate: float
    lambda_concurrency: float
    table_writes: float
    emr_vcpus: float
    brokers: int  # The fields brokers, data_nodes and executors are numbers of instances.
    data_nodes: int
    # The number of copies (primary shards and replicas) of the largest index, each on one data node.
    copies: int
    executors: int
    database: str  # The class of the metrics database's instance.

    @classmethod
    def of(cls, environment: Environment) -> Self:
        """Return the configured plan of the environment, in an account with the default quotas."""
        entries = functions()
        partitions = {topic.name: topic.partitions for topic in topics.chain_topics()}
        factor = environment.kafka.partitions_factor
        return cls(
            environment=environment,
            partitions={step: partitions[INPUTS[step]] * factor for step in STEPS},
            pollers=dict.fromkeys(STEPS, pollers_of(environment)),
            memory_mb={step: entries[step].memory_mb for step in STEPS},
            sns_publish=sns_publish(environment.region).value,
            ses_rate=quota("ses_rate"),
            lambda_concurrency=quota("lambda_concurrency"),
            table_writes=quota("dynamodb_new_table_writes"),
            emr_vcpus=quota("emr_vcpus"),
            brokers=environment.kafka.brokers,
            data_nodes=environment.opensearch.data_nodes,
            copies=_copies(environment.opensearch.data_nodes),
            executors=environment.spark.executors,
            database=environment.database.instance_type,
        )

    def with_partitions(self, step: str, partitions: int) -> Self:
        return replace(self, partitions={**self.partitions, step: partitions})

    def with_pollers(self, step: str, pollers: int) -> Self:
        return replace(self, pollers={**self.pollers, step: pollers})

    def with_memory(self, step: str, memory_mb: int) -> Self:
        return replace(self, memory_mb={**self.memory_mb, step: memory_mb})

    def environments(self, step: str) -> float:
        """Return the maximum number of concurrent invocations of a function: one per partition, five per poller."""
        return min(
            self.partitions[step], quota("invocations_a_poller") * min(self.pollers[step], quota("pollers_most"))
        )

    @property
    def bulk_partitions(self) -> int:
        """Return the number of partitions in the cluster, replicas included."""
        factor = self.environment.kafka.partitions_factor
        known = [*topics.chain_topics(), *topics.cdc_topics(self.environment.generation)]
        usual = sum(topic.partitions * factor for topic in known)
        raised = sum(
            self.partitions[step] - topic.partitions * factor
            for topic in known
            for step in STEPS
            # A broadcast uses one queue alone, so every broadcast queue needs the full number of partitions.
            if topics.base_of(topic.name) == INPUTS[step]
            and topics.lane_of(topic.name) in BROADCASTS[: self.environment.broadcast_queues]
        )
        return (usual + raised) * self.environment.kafka.replication_factor


def pollers_of(environment: Environment) -> int:
    """Return the maximum number of pollers of a mapping. In on-demand mode, Lambda chooses it.

    https://docs.aws.amazon.com/lambda/latest/dg/kafka-scaling-modes.html
    """
    return int(quota("pollers_most")) if environment.pollers is None else environment.pollers


def _copies(data_nodes: int) -> int:
    """Return the number of copies of the largest index; OpenSearch adjusts the replicas to the number of nodes."""
    index = json.loads(files("schemas").joinpath("indices/users.json").read_text())["settings"]["index"]
    fewest, most = map(int, index["auto_expand_replicas"].split("-"))
    return int(index["number_of_shards"]) * (1 + max(fewest, min(most, data_nodes - 1)))


@cache
def functions() -> Mapping[str, FunctionEntry]:
    return {entry.name: entry for entry in read_catalogue(generation="g1")}


def batch_records(step: str, lane: Lane = Lane.BULK, *, topic: str | None = None) -> int:
    """Return the maximum number of records in a batch of a topic, by default of the function's input in INPUTS."""
    source = functions()[step if lane is Lane.BULK else f"{step}-critical"].event_source
    if source is None:
        raise ValueError(f"{step} has no event source")
    return source.batch_sizes[topics.in_lane(topic or INPUTS[step], lane)]


def recipients_a_record(step: str, workload: Workload) -> float:
    """Return the number of notifications in a full record of the function's input topic, including suppressed ones."""
    return workload.chunk if step == "preference_checker" else RANGE_SIZE


def invocation_s(
    step: str, records: float, workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float
) -> float:
    """Return the duration of an invocation with this number of full records in seconds."""
    memory = plan.memory_mb[step]
    if step == "preference_checker":
        return times.lines[step].at(records * workload.chunk, memory)
    recipients = records * RANGE_SIZE * workload.allowed
    if step == "builder":
        return times.lines[step].at(recipients, memory)
    calls = recipients * workload.calls_a_recipient
    slice_calls = times.slice_size * workload.calls_a_recipient
    one = times.slice_s(slice_calls, provider_s, memory)
    return times.lines[step].invocation.at(memory) + calls / slice_calls * one


def recipients_s(step: str, workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float) -> float:
    """Return the maximum throughput of a function in notifications per second, with every batch full and every
    environment busy.
    """
    records = batch_records(step)
    takes = invocation_s(step, records, workload, plan, times, provider_s)
    return plan.environments(step) * records * recipients_a_record(step, workload) / takes
