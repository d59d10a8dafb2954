"""A deployment as far as its capacity goes: an environment's configuration, the functions, the topics and what AWS
grants.

Everything but what AWS grants is read from where it is deployed from: infra/cdk/config.py, functions/functions.yaml
and schemas/topics.yaml.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Self

from capacity.quotas import quota, sns_publish
from capacity.service_times import ServiceTimes
from capacity.workload import Workload
from functions.catalogue import FunctionEntry, read_catalogue
from infra.cdk.config import Environment
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.outcomes import RANGE_SIZE
from masscomm.kafka import topics

STEPS = ("preference_checker", "builder", "delivery")
# The topic that each step reads. All of the checker's traffic is assumed to come from one producer, the worst case.
INPUTS = {"preference_checker": topics.SEND_API, "builder": topics.BUILD, "delivery": topics.DELIVERY}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """An environment's sizes, and the account's quotas."""

    environment: Environment
    partitions: Mapping[str, int]  # of each step's topic, bulk, and of each further queue of it
    pollers: Mapping[str, int]  # of each step's mapping at most
    memory_mb: Mapping[str, int]  # of each step's function
    sns_publish: float  # sns_publish to emr_vcpus: AWS' quotas
    ses_rate: float
    lambda_concurrency: float
    table_writes: float
    emr_vcpus: float
    brokers: int  # brokers, data_nodes and executors: numbers of instances
    data_nodes: int
    copies: int  # of the directory's indices, each of which one data node serves
    executors: int

    @classmethod
    def of(cls, environment: Environment) -> Self:
        """The environment as configured, in an account with the default quotas."""
        entries = functions()
        partitions = {topic.name: topic.partitions for topic in topics.chain_topics()}
        factor = environment.kafka.partitions_factor
        return cls(
            environment=environment,
            partitions={step: partitions[INPUTS[step]] * factor for step in STEPS},
            pollers=dict.fromkeys(STEPS, environment.pollers),
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
        )

    def with_partitions(self, step: str, partitions: int) -> Self:
        """The plan with so many partitions of the step's topic."""
        return replace(self, partitions={**self.partitions, step: partitions})

    def with_pollers(self, step: str, pollers: int) -> Self:
        """The plan with so many pollers of the step's mapping at most."""
        return replace(self, pollers={**self.pollers, step: pollers})

    def with_memory(self, step: str, memory_mb: int) -> Self:
        """The plan with a step's function of so much memory."""
        return replace(self, memory_mb={**self.memory_mb, step: memory_mb})

    def environments(self, step: str) -> float:
        """Invocations of a step at a time: one a partition, five a poller."""
        return min(
            self.partitions[step], quota("invocations_a_poller") * min(self.pollers[step], quota("pollers_most"))
        )

    @property
    def bulk_partitions(self) -> int:
        """Every partition of the cluster, replicas counted."""
        factor = self.environment.kafka.partitions_factor
        known = [*topics.chain_topics(), *topics.cdc_topics(self.environment.generation)]
        usual = sum(topic.partitions * factor for topic in known)
        raised = sum(
            self.partitions[step] - topic.partitions * factor
            for topic in known
            for step in STEPS
            # A single tenant has its whole queue and no other queue: each needs as many.
            if topics.base_of(topic.name) == INPUTS[step] and topics.lane_of(topic.name) in BROADCASTS
        )
        return (usual + raised) * self.environment.kafka.replication_factor


def _copies(data_nodes: int) -> int:
    """Of the largest index, on so many nodes: OpenSearch makes and removes replicas as nodes come and go."""
    index = json.loads(files("schemas").joinpath("indices/users.json").read_text())["settings"]["index"]
    fewest, most = map(int, index["auto_expand_replicas"].split("-"))
    return int(index["number_of_shards"]) * (1 + max(fewest, min(most, data_nodes - 1)))


@cache
def functions() -> Mapping[str, FunctionEntry]:
    """Every function by the name it is deployed under."""
    return {entry.name: entry for entry in read_catalogue(generation="g1")}


def batch_records(step: str, lane: Lane = Lane.BULK) -> int:
    """Records of a batch at most."""
    source = functions()[step if lane is Lane.BULK else f"{step}-critical"].event_source
    if source is None:
        raise ValueError(f"{step} has no event source")
    return int(source.config["batch_size"])


def recipients_a_record(step: str, workload: Workload) -> float:
    """Notifications in a full record of the step's topic: requested ones, some of which are suppressed."""
    return workload.chunk if step == "preference_checker" else RANGE_SIZE


def invocation_s(
    step: str, records: float, workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float
) -> float:
    """Seconds of an invocation with so many full records."""
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
    """Notifications a second that the step gets through, every batch full and every environment busy."""
    records = batch_records(step)
    takes = invocation_s(step, records, workload, plan, times, provider_s)
    return plan.environments(step) * records * recipients_a_record(step, workload) / takes
