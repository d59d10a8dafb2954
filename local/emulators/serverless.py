"""Runs the serverless part of the local stack in one process: function host, event source mappings, HTTP gateway.

The configuration is a JSON file:

    functions_file      path of functions.yaml
    topics_file         path of topics.yaml; must be the one masscomm.kafka.topics reads
    generation          snapshot generation of the cdc topics
    runtime_api_port    for the functions' processes, on 127.0.1.1 and the addresses after it; 0: any
    gateway_port        on 127.0.0.1; 0: any
    environment         variables of all functions; KAFKA_BOOTSTRAP_SERVERS must be one of them
    log_dir             each function's processes append to <function>.log there
    job_log             optional: the metrics job's log; with it, /metrics has the job's metrics, and sends by state
    task_root           optional: folder the functions are imported from, by default the folder above functions_file's
    mappings            optional: configuration of all event source mappings (first_backoff_s, partial_failures, …)
    pollers             optional: the mode of all event source mappings, provisioned (by default) or on-demand
    environments        optional: environments of each function of the chain; with it, each topic has an event source
                        mapping of its own, as in AWS
    schedule_s          optional: seconds between the invocations of every schedule, in place of functions.yaml's
    bulk_nice           optional: niceness of the bulk functions' processes; 0 as in Lambda, where each function has a
                        share of a processor of its own
    development_key     optional: the SHA-256, in hex, of an API key that has every club and scope
    console             optional: the folder of the built web console
    docs                optional: the folder of the built documentation
    connector           optional: the address of Debezium's connector in Kafka Connect's API; with it, the alarms of the
                        deployment are evaluated, and the functions read their states
    sign_in             optional: the address of the gateway, where the development issuer (local/emulators/sign_in.py)
                        signs people in; without it, no access token is accepted
"""

import asyncio
import functools
import logging
import os
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import boto3
from pydantic import BaseModel, ConfigDict, DirectoryPath, Field

from functions.catalogue import read_catalogue
from local.emulators.alarms import AlarmSources, evaluated_rules, keep_evaluating
from local.emulators.cloudwatch import AlarmStates
from local.emulators.event_source import EventSourceMapping, Pollers
from local.emulators.event_source.kafka import KafkaDestination, KafkaSource
from local.emulators.event_source.ports import FailureDestination
from local.emulators.event_source.record import EventEnvelope
from local.emulators.event_source.s3 import S3Destination, s3_client
from local.emulators.event_source.spec import by_topic
from local.emulators.event_source.statistics import MappingStatistics
from local.emulators.function_catalogue import Deployment, read_deployments
from local.emulators.gateway import Gateway
from local.emulators.key_authorizer import KeyAuthorizer, RequestAuthorizer
from local.emulators.lambda_host import FunctionHost
from local.emulators.local import REGION
from local.emulators.prometheus import CONTENT_TYPE, FunctionLines, GatewayMetrics, Latencies, Sends, exposition
from local.emulators.queues import VISIBILITY_S, Door, QueueMapping, sqs_client
from local.emulators.schedule import Schedule
from local.emulators.sign_in import SignIn
from local.emulators.sms_events import SmsEvents
from masscomm.clock import SystemClock
from masscomm.http.access_tokens import AccessTokens
from masscomm.stores.api_keys.dynamodb import ApiKeys
from masscomm.stores.metrics.port import Latencies as StoredLatencies
from masscomm.stores.metrics.port import LatencyQuery
from masscomm.stores.metrics.postgres import PostgresMetricsStore
from masscomm.stores.metrics_database import connection_pool

log = logging.getLogger(__name__)

CLUSTER_ARN = "arn:aws:kafka:us-east-1:000000000000:cluster/masscomm/00000000-0000-0000-0000-000000000000-1"


class ServerlessConfig(BaseModel):
    """The content of the configuration file that the module describes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    functions_file: Path
    topics_file: Path
    generation: str
    runtime_api_port: int = 0
    gateway_port: int = 0
    environment: dict[str, str]
    log_dir: Path
    job_log: Path | None = None
    task_root: Path | None = None
    mappings: dict[str, Any] = Field(default_factory=dict)
    pollers: Pollers = Pollers.PROVISIONED
    environments: int | None = Field(default=None, ge=1)
    schedule_s: float | None = Field(default=None, gt=0)
    queue_visibility_s: int = Field(default=VISIBILITY_S, ge=1)
    bulk_nice: int = Field(default=0, ge=0, le=19)
    development_key: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    console: DirectoryPath | None = None
    docs: DirectoryPath | None = None
    connector: str | None = None
    sign_in: str | None = None


def request_authorizer(config: ServerlessConfig, sign_in: SignIn | None) -> RequestAuthorizer:
    """Return the authorizer over the table that the functions' environment names, and over the development issuer."""
    environment = config.environment
    client = boto3.client(
        "dynamodb",
        endpoint_url=environment.get("AWS_ENDPOINT_URL_DYNAMODB") or environment.get("AWS_ENDPOINT_URL"),
        region_name=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or REGION,
        aws_access_key_id=environment.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY"),
    )
    clock = SystemClock()
    keys = KeyAuthorizer(keys=ApiKeys(client), clock=clock, development_key=config.development_key)
    return RequestAuthorizer(keys=keys, tokens=None if sign_in is None else AccessTokens.of(sign_in.issuer, clock))


class Serverless:
    """The function host, the event source mappings and the gateway, which are started and stopped together."""

    def __init__(self, config: ServerlessConfig) -> None:
        self._config = config
        self._bootstrap_servers = config.environment["KAFKA_BOOTSTRAP_SERVERS"]
        self.deployments: list[Deployment] = read_deployments(
            config.functions_file,
            task_root=(config.task_root or config.functions_file.parent.parent).resolve(),
            generation=config.generation,
            environment=config.environment,
            mapping_overrides=config.mappings,
            bulk_nice=config.bulk_nice,
            pollers=config.pollers,
            environments=config.environments,
        )
        self.host = FunctionHost(
            [deployment.function for deployment in self.deployments],
            log_dir=config.log_dir,
            port=config.runtime_api_port,
        )
        client = sqs_client(config.environment)
        self._queues = [
            QueueMapping(
                function=deployment.function.name,
                queue=deployment.queue.name,
                batch_size=deployment.queue.batch_size,
                client=client,
                invoke=functools.partial(self.host.invoke, deployment.function.name),
                visibility_s=config.queue_visibility_s,
            )
            for deployment in self.deployments
            if deployment.queue is not None
        ]
        sign_in = None if config.sign_in is None else SignIn(address=config.sign_in, clock=SystemClock())
        self._mappings: list[EventSourceMapping] = []
        self._alarms = None if config.connector is None else self._alarm_sources(config.connector)
        self._requests = GatewayMetrics()
        self.gateway = Gateway(
            [route for deployment in self.deployments for route in deployment.routes],
            invoke=self.host.invoke,
            ready=self.readiness,
            status=self.status,
            metrics=self.metrics,
            observe=self._observe,
            authorize=request_authorizer(config, sign_in),
            console=config.console,
            docs=config.docs,
            door=Door(client=client, queue=self._queues[0].queue) if self._queues else None,
            further=[
                *(() if sign_in is None else sign_in.routes()),
                *(() if self._alarms is None else self._alarms.states.routes()),
            ],
        )
        self._lines = FunctionLines(config.log_dir, config.job_log)
        if self._alarms is not None:
            self._lines.observe = self._alarms.emitted
        self._evaluating: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        # Without the metrics job, nothing is counted.
        self._counted = () if config.job_log is None else (Sends(self._send_states), Latencies(self._read_latencies))
        self._scraping = threading.Lock()
        self._store: PostgresMetricsStore | None = None
        self._destination: FailureDestination = (
            S3Destination(s3_client(config.environment))
            if config.pollers is Pollers.ON_DEMAND
            else KafkaDestination(bootstrap_servers=self._bootstrap_servers)
        )
        self._schedules = [
            Schedule(
                function=deployment.function.name,
                every_s=config.schedule_s or deployment.schedule_s,
                invoke=functools.partial(self.host.invoke, deployment.function.name),
            )
            for deployment in self.deployments
            if deployment.schedule_s is not None
        ]
        sms = config.environment.get("AWS_ENDPOINT_URL_PINPOINT_SMS_VOICE_V2")
        self._sms_events = (
            None if sms is None else SmsEvents(url=sms, invoke=functools.partial(self.host.invoke, "receipts"))
        )
        self._started = time.monotonic()

    async def start(self) -> None:
        """Start all parts; return before the functions are ready. Raises OSError if a port is in use."""
        await self.gateway.start(self._config.gateway_port)
        log.info("gateway on http://127.0.0.1:%d", self.gateway.port)
        self.host.start()
        envelope = EventEnvelope(event_source_arn=CLUSTER_ARN, bootstrap_servers=self._bootstrap_servers)
        for deployment in self.deployments:
            if deployment.mapping is None:
                continue
            is_split = self._config.environments is not None
            statistics = MappingStatistics()
            for spec in by_topic(deployment.mapping) if is_split else [deployment.mapping]:
                mapping = EventSourceMapping(
                    spec=spec,
                    source=KafkaSource(
                        bootstrap_servers=self._bootstrap_servers,
                        group=spec.group,
                        topics=spec.topics,
                        instance=spec.group,
                    ),
                    destination=self._destination,
                    envelope=envelope,
                    invoke=functools.partial(self.host.invoke, spec.name),
                    statistics=statistics,
                )
                self._mappings.append(mapping)
                await mapping.start()
        if self._sms_events is not None:
            self._sms_events.start()
        for schedule in self._schedules:
            schedule.start()
        for queue in self._queues:
            queue.start()
        if self._alarms is not None:
            evaluating = keep_evaluating(self._alarms, self._read_lines, self._stopped)
            self._evaluating = asyncio.create_task(evaluating, name="alarms")

    async def stop(self) -> None:
        """Stop the parts in the order of the data flow, so that invocations in flight can still end."""
        self._stopped.set()
        if self._evaluating is not None:
            await self._evaluating
        if self._sms_events is not None:
            await self._sms_events.stop()
        await asyncio.gather(*(schedule.stop() for schedule in self._schedules))
        await asyncio.gather(*(queue.stop() for queue in self._queues))
        await asyncio.gather(*(mapping.stop() for mapping in self._mappings))
        await self.gateway.close()
        await self.host.close()
        await self._destination.close()

    def readiness(self) -> dict[str, Any]:
        """Return `ready` (whether every function has a warm environment and every mapping its partitions), and the
        missing ones.
        """
        waiting = [name for name, pool in self.host.pools.items() if not pool.ready and pool.init_error is None]
        broken = {
            name: pool.init_error.decode(errors="replace")
            for name, pool in self.host.pools.items()
            if pool.init_error is not None
        }
        mappings = [mapping.spec.name for mapping in self._mappings if not mapping.ready.is_set()]
        return {
            "ready": not (waiting or broken or mappings),
            "starting": waiting,
            "broken": broken,
            "mappings_without_partitions": mappings,
        }

    def metrics(self) -> tuple[bytes, str]:
        """Return the page for Prometheus and its content type."""
        with self._scraping:
            return exposition(self._lines, self.status, self._requests, *self._counted), CONTENT_TYPE

    def _alarm_sources(self, connector: str) -> AlarmSources:
        environment = self._config.environment
        entries = read_catalogue(self._config.functions_file, generation=self._config.generation)
        return AlarmSources(
            states=AlarmStates(evaluated_rules(entries)),
            pools=self.host.pools,
            mappings=self._mappings,
            kafka=self._bootstrap_servers,
            directory_url=environment["OPENSEARCH_URL"],
            registry_url=environment["SCHEMA_REGISTRY_URL"],
            connector_url=connector,
        )

    def _observe(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.observe(method, route, status, seconds)
        if self._alarms is not None:
            self._alarms.requested(method, route, status, seconds)

    def _read_lines(self) -> None:
        with self._scraping:
            self._lines.read()

    def _send_states(self, start: datetime, limit: int) -> Mapping[str, int]:
        """Return the numbers of sends by state. Raises Retry."""
        return {state.value: number for state, number in self._metrics_store().states(start, limit).items()}

    def _read_latencies(self, query: LatencyQuery) -> StoredLatencies:
        """Return latencies. Raises Retry."""
        return self._metrics_store().latencies(query)

    def _metrics_store(self) -> PostgresMetricsStore:
        if self._store is None:
            self._store = PostgresMetricsStore(connection_pool(self._config.environment["METRICS_DATABASE_URL"]))
        return self._store

    def status(self) -> dict[str, Any]:
        """Return all counts, by function and by event source mapping."""
        return {
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self._started, 1),
            "functions": {
                name: {**pool.statistics.as_dict(), "ready": pool.ready, "pids": pool.pids}
                for name, pool in self.host.pools.items()
            },
            "schedules": {schedule.function: schedule.status() for schedule in self._schedules},
            "queues": {mapping.function: mapping.status() for mapping in self._queues},
            "mappings": _by_function((mapping.spec.name, mapping.status()) for mapping in self._mappings),
        }


def _by_function(statuses: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Mapping[str, Any]]:
    """Return the status of each function's mappings as that of one, whose counts they share."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, status in statuses:
        known = found.get(name)
        found[name] = (
            status
            if known is None
            else {
                **status,
                "topics": known["topics"] + status["topics"],
                "ready": known["ready"] and status["ready"],
                "in_flight": known["in_flight"] + status["in_flight"],
                "partitions": known["partitions"] | status["partitions"],
            }
        )
    return found


async def serve(config: ServerlessConfig) -> None:
    """Run until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    serverless = Serverless(config)
    try:
        await serverless.start()
        await stopped.wait()
        log.info("stopping")
    finally:
        await serverless.stop()


def read_config(document: Mapping[str, Any]) -> ServerlessConfig:
    """Return the validated configuration. Raises pydantic's ValidationError with the invalid fields."""
    return ServerlessConfig.model_validate(document)
