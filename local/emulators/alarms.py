"""The deployment's alarms on one machine: which are evaluated, and the samples of their metrics.

The rules are those of ops/alarms/table.py. NOT_EVALUATED has those whose metric does not exist on one machine.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import aiohttp
from confluent_kafka import KafkaException

from functions.catalogue import FunctionEntry
from local.emulators.cloudwatch import AlarmStates
from local.emulators.event_source import EventSourceMapping
from local.emulators.lambda_host.pool import EnvironmentPool
from masscomm.kafka.admin import KafkaAdmin
from masscomm.observability.metric_names import (
    ALL,
    DAILY_RUNS,
    JOB_RUNNING,
    JOB_STARTS,
    METRICS_DIFFERENCES,
    METRICS_DISK_DAYS,
    NAMESPACE,
)
from ops.alarms.installation import DIRECTORY
from ops.alarms.installation import installation as described
from ops.alarms.rules import Rule, Series, ours
from ops.alarms.series import (
    api_errors,
    api_latency,
    connector_tasks,
    controllers,
    dropped_records,
    lag,
    of_directory,
    of_function,
    offline_partitions,
    registry_tasks,
)
from ops.alarms.table import Installation, Servers, rules

log = logging.getLogger(__name__)

# As masscomm/observability/metrics.py writes it without MASSCOMM_ENVIRONMENT.
ENVIRONMENT = "local"
CLUSTER = API = STAGE = "local"
# The dimensions of the registry.
REGISTRY = {"ServiceName": "local"}
SAMPLED_EVERY_S = 15.0
_REQUEST_S = 5
_MIB = 1024**2
# The functions that only a deployment has.
HELPERS = ("authorizer", "copy-audit", "keep-job", "start-run")
_DAILY = "the daily runs have no schedule here; `masscomm recompute-check` compares the metrics with the archive"
_JOB = "`masscomm up` restarts the job; `metrics-stale` triggers if it does not count"
_CPU = "all servers share the processors of this machine"
_DISK = "all servers share the disk of this machine, which `directory-storage` watches"
# Why an alarm is not evaluated, by namespace and metric.
NOT_EVALUATED: Mapping[tuple[str, str], str] = {
    ("AWS/Lambda", "Throttles"): "the function host queues invocations, and refuses none",
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible"): "schedules have no dead-letter queue; `/-/status` has errors",
    ("AWS/Kafka", "KafkaDataLogsDiskUsed"): _DISK,
    ("AWS/Kafka", "UnderMinIsrPartitionCount"): "the broker has no replicas",
    ("AWS/Kafka", "CpuIdle"): _CPU,
    ("AWS/ES", "KMSKeyError"): "no key encrypts its data",
    ("AWS/DynamoDB", "ReadThrottleEvents"): "DynamoDB Local does not throttle",
    ("AWS/RDS", "CPUUtilization"): _CPU,
    ("AWS/RDS", "DatabaseConnections"): "Postgres refuses further connections, which `/-/status` shows",
    ("AWS/RDS", "FreeStorageSpace"): _DISK,
    ("AWS/SES", "Reputation.BounceRate"): "the stand-in of SES has no reputation",
    ("AWS/SES", "Reputation.ComplaintRate"): "the stand-in of SES has no reputation",
    ("AWS/SNS", "NumberOfNotificationsFailed"): "the stand-in of SNS fails during the call: `push-provider-errors`",
    (NAMESPACE, JOB_RUNNING.name): _JOB,
    (NAMESPACE, JOB_STARTS.name): _JOB,
    (NAMESPACE, METRICS_DIFFERENCES.name): _DAILY,
    (NAMESPACE, METRICS_DISK_DAYS.name): _DAILY,
    **{(NAMESPACE, metric.name): _DAILY for metric in DAILY_RUNS.values()},
}
_HELPER = "only a deployment has this function"


def installation(entries: Iterable[FunctionEntry]) -> Installation:
    """Return an installation with these functions and the servers of one machine."""
    servers = Servers(
        databases={"metrics": "metrics", "registry": "registry"},
        connections={"metrics": 100, "registry": 100},
        connectors={"local": CLUSTER},
        registry=REGISTRY,
        job=ENVIRONMENT,
    )
    found = described(ENVIRONMENT, entries, helpers=HELPERS, servers=servers)
    # The host has one pool of pollers for each function.
    return replace(found, mappings={name: [name] for name in found.mappings})


def reason_not_evaluated(rule: Rule) -> str | None:
    """Return why an alarm is not evaluated on one machine; None if it is."""
    for series in rule.series:
        if series.dimensions.get("FunctionName") in HELPERS:
            return _HELPER
        if (reason := NOT_EVALUATED.get((series.namespace, series.name))) is not None:
            return reason
    return None


def evaluated_rules(entries: Iterable[FunctionEntry]) -> list[Rule]:
    """Return the alarms that are evaluated on one machine."""
    return [rule for rule in rules(installation(entries)) if reason_not_evaluated(rule) is None]


@dataclass(kw_only=True)
class AlarmSources:
    """Takes the samples of the metrics that alarms read."""

    states: AlarmStates
    # The function host's environments, and the event source mappings, by function.
    pools: Mapping[str, EnvironmentPool]
    mappings: Sequence[EventSourceMapping]
    kafka: str
    directory_url: str
    registry_url: str
    # The address of the connector in Kafka Connect's API.
    connector_url: str
    now_s: Callable[[], float] = time.time
    _seen: dict[tuple[str, str], int] = field(default_factory=dict, init=False)

    def add(self, series: Series, value: float) -> None:
        """Add a value of now."""
        self.states.samples.add(series, value, self.now_s())

    def emitted(self, service: str, name: str, values: Sequence[float], at_s: float) -> None:
        """Add the values of one of masscomm's own metrics, as a line in a log has them."""
        series = ours(ENVIRONMENT, ALL[name], service)
        for value in values:
            self.states.samples.add(series, value, at_s)

    def requested(self, method: str, route: str, status: int, seconds: float) -> None:
        """Add a request to the gateway."""
        self.add(api_errors(API), float(status >= 500))
        self.add(api_latency(API, STAGE, method, route), seconds * 1000)

    def sample_functions(self) -> None:
        """Add the errors and the longest duration of each function since the last call, the dropped records of each
        mapping, and the age of the oldest record of each topic that waits.
        """
        for name, pool in self.pools.items():
            self.add(of_function(name, "Errors", "Sum"), self._since("errors", name, pool.statistics.errors))
            ended = self._since("invocations", name, pool.statistics.invocations)
            durations = list(islice(reversed(pool.statistics.durations_ms), ended))
            if durations:
                self.add(of_function(name, "Duration", "Maximum"), max(durations))
        for mapping in self.mappings:
            name = mapping.spec.name
            self.add(dropped_records(name), self._since("dropped", name, mapping.statistics.discarded))
            for topic, oldest_ms in mapping.oldest_ms().items():
                waited_s = 0.0 if oldest_ms is None else max(0.0, self.now_s() - oldest_ms / 1000)
                self.add(lag(CLUSTER, group=mapping.spec.group, topic=topic), waited_s)

    def _since(self, what: str, name: str, count: int) -> int:
        before = self._seen.get((what, name), 0)
        self._seen[what, name] = count
        return count - before

    async def sample_servers(self, session: aiohttp.ClientSession) -> None:
        """Add the states of Kafka, OpenSearch, the connector and the registry. A server that does not answer has no
        value, which its alarm judges.
        """
        await asyncio.gather(
            asyncio.to_thread(self._sample_kafka),
            self._sample_directory(session),
            self._sample_connector(session),
            self._sample_registry(session),
        )

    def _sample_kafka(self) -> None:
        admin = KafkaAdmin({"bootstrap.servers": self.kafka, "broker.address.family": "v4"})
        try:
            cluster = admin.client().list_topics(timeout=_REQUEST_S)
        except KafkaException as error:
            # A broker that is down reports no controller either.
            log.warning("Kafka does not return its topics: %s", error)
            self.add(controllers(CLUSTER), 0)
            return
        finally:
            admin.close()
        self.add(controllers(CLUSTER), float(cluster.controller_id >= 0))
        partitions = [each for topic in cluster.topics.values() for each in topic.partitions.values()]
        self.add(offline_partitions(CLUSTER), sum(each.leader < 0 for each in partitions))

    async def _sample_directory(self, session: aiohttp.ClientSession) -> None:
        health = await _json(session, f"{self.directory_url}/_cluster/health")
        settings = await _json(session, f"{self.directory_url}/_cluster/state/blocks")
        nodes = await _json(session, f"{self.directory_url}/_nodes/stats/jvm,fs")
        if health is None or settings is None or nodes is None:
            return
        self.add(of_directory(DIRECTORY, "ClusterStatus.red"), float(health["status"] == "red"))
        blocks = [block for index in settings["blocks"].get("indices", {}).values() for block in index.values()]
        self.add(
            of_directory(DIRECTORY, "ClusterIndexWritesBlocked"),
            float(any("write" in block["levels"] for block in blocks)),
        )
        for node in nodes["nodes"].values():
            old = node["jvm"]["mem"]["pools"]["old"]
            self.add(of_directory(DIRECTORY, "JVMMemoryPressure"), 100 * old["used_in_bytes"] / old["max_in_bytes"])
            self.add(of_directory(DIRECTORY, "FreeStorageSpace"), node["fs"]["total"]["available_in_bytes"] / _MIB)

    async def _sample_connector(self, session: aiohttp.ClientSession) -> None:
        status = await _json(session, f"{self.connector_url}/status")
        if status is not None:
            self.add(connector_tasks(CLUSTER), sum(task["state"] == "RUNNING" for task in status["tasks"]))

    async def _sample_registry(self, session: aiohttp.ClientSession) -> None:
        if await _json(session, f"{self.registry_url}/subjects") is not None:
            self.add(registry_tasks(REGISTRY), 1)


async def _json(session: aiohttp.ClientSession, url: str) -> Any:
    """Return the JSON at a URL; None if the server does not return it."""
    try:
        async with session.get(url) as answer:
            answer.raise_for_status()
            return await answer.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        log.warning("%s does not answer: %s", url, error)
        return None


async def keep_evaluating(sources: AlarmSources, read_logs: Callable[[], None], stopped: asyncio.Event) -> None:
    """Take samples and evaluate the alarms until `stopped` is set. A round that fails is logged, and ends no other.

    Args:
        sources: The sources of the samples.
        read_logs: Reads the new lines of the functions' logs; it is called in a separate thread.
        stopped: Ends the loop.
    """
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_REQUEST_S)) as session:
        while not stopped.is_set():
            try:
                await asyncio.to_thread(read_logs)
                sources.sample_functions()
                await sources.sample_servers(session)
                sources.states.evaluate()
            except Exception:
                log.exception("the alarms were not evaluated")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), SAMPLED_EVERY_S)
