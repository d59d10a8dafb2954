"""Measure the time of an invocation, for capacity: `python -m lab.benchmarks.service_times [--write]`.

The benchmark needs `make setup`; it starts and stops its own broker, OpenSearch, LocalStack (DynamoDB, SES) and SNS
stand-in. The functions run in this process with the real adapters, for records of one recipient and of many. Wall time
and this process's processor time (all threads) are measured, because Lambda gives a function less of a processor than
this machine does, which lengthens only the processor time. The benchmark prints the medians of the runs.

--write stores the figures in lab/capacity/service_times.json, from which docs/internals/capacity.md is calculated.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import psutil

from functions.builder.build_messages import BuildMessages
from functions.delivery.deliver import Deliver
from functions.delivery.publish import UNRECORDED
from functions.delivery.retry_scheduler import RetryScheduler
from functions.preference_checker.check_preferences import CheckPreferences
from functions.receipts.apply_answers import ApplyAnswers
from functions.receipts.ingest_receipts import IngestReceipts
from functions.receipts.process_receipts import ProcessReceipts
from functions.receipts.sent_messages import OpenSearchSentMessages, OutcomeWithTrace
from lab.benchmarks.rate_limiter import Minute
from lab.benchmarks.running_chain import serve_directory
from local.devstack.config import GENERATION, StackConfig
from local.devstack.provision import create_dynamodb_tables, create_indices, create_topics
from local.devstack.sns_process import SnsStandIn
from local.devstack.stack import Stack
from local.emulators.sns_stand_in import Rule, endpoint_arn
from masscomm.chain.batch import BatchDriver, UseCase
from masscomm.chain.chunks import chunk_of
from masscomm.chain.email_pauses import EmailPauses
from masscomm.chain.email_reputation import EmailReputation
from masscomm.chain.sms_spending import SmsSpending
from masscomm.channels.aws_sms import AwsSms
from masscomm.channels.gateway import WORKERS, ProviderGateway
from masscomm.channels.provider_calls import Caller
from masscomm.channels.rate_limiter import RateLimiter
from masscomm.channels.senders import EmailSender, PushSender, SmsSender
from masscomm.channels.ses_email import SesEmail
from masscomm.channels.sns_push import SnsPush
from masscomm.clock import SystemClock
from masscomm.decisions.parts import PART_SIZE
from masscomm.directory.bulk_writes import connect
from masscomm.directory.change_preferences import ChangePreferences
from masscomm.directory.document_publisher import OpenSearchDocumentPublisher
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.directory.preference_changes import OpenSearchPreferenceChanges
from masscomm.domain.channels import CHANNELS
from masscomm.domain.delays import RetrySchedule
from masscomm.domain.email_settings import read_emails
from masscomm.domain.ids import receipt_id
from masscomm.domain.outcomes import RANGE_SIZE
from masscomm.domain.records import (
    AvroRecord,
    DeliveryRequested,
    NotificationOutcome,
    ReceiptReceived,
    RecheckRequested,
)
from masscomm.domain.users import Device, Template, User, UserSettings
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.outcome_progress import InMemoryOutcomeProgress
from masscomm.kafka.producer import Headers, KafkaProducer, Report
from masscomm.observability import logs
from masscomm.rendering.templates import TemplateCache
from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog
from masscomm.stores.decision_log.dynamodb import DynamoDbDecisionLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delivery_ledger.dynamodb import DynamoDbDeliveryLedger
from masscomm.stores.digests.dynamodb import DynamoDbDigests
from masscomm.stores.email_counts.dynamodb import DynamoDbEmailCounter
from masscomm.stores.frequency_caps.dynamodb import DynamoDbFrequencyCaps
from masscomm.stores.key_usage.dynamodb import DynamoDbKeyUsage
from masscomm.stores.sends.dynamodb import DynamoDbSends
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.chain import build, delivery, entry, registry_with_all_schemas, send
from tests.support.inputs.receipt_events import PUSHED, of_logs
from tests.support.servers.directory_tables import OpenSearchTables
from tests.support.servers.opensearch_client import TestClient

FIGURES = Path(__file__).parents[1] / "capacity" / "service_times.json"
COMMAND = "python -m lab.benchmarks.service_times --write"
CLUB = 7
PROVIDER_MS = (0, 10, 25, 50, 100)
# The figure for `python -m lab.benchmarks.metrics_throughput` (with archive, the lower figure) in
# docs/internals/metrics-job.md. It is not measured again here, because that occupies both cores for minutes.
SPARK = {"source": "docs/internals/metrics-job.md", "events_s": 24_747, "recipients_an_event": 3, "cores": 2}
HANDLERS = ("preference_checker", "builder", "delivery")
# The receipts of an event of CloudWatch Logs, and the records of a batch.
LOG_LINES, RECEIPTS = 100, 200

type Invoke = Callable[[Sequence[AvroRecord]], None]


class RecordingProducer:
    """The real producer, which also stores the produced values by topic."""

    def __init__(self, producer: KafkaProducer) -> None:
        self._producer = producer
        self.values: dict[str, list[bytes]] = {}

    def produce(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, report: Report) -> None:
        self.values.setdefault(topic, []).append(value or b"")
        self._producer.produce(topic, key, value, headers, report)

    def flush(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)


class Chain:
    """The functions preference_checker, builder and delivery on the servers of one stack."""

    def __init__(self, config: StackConfig, tables: OpenSearchTables, sns: SnsStandIn) -> None:
        clock = SystemClock()
        self.codec = Codec(registry_with_all_schemas())
        # log_level 0 suppresses librdkafka's errors about the broker, which ends before the producer. Failed deliveries
        # of records are still reported.
        self.producer = RecordingProducer(KafkaProducer(config.kafka_bootstrap, log_level=0))
        self.directory = OpenSearchDirectory(tables.client, progress=lambda _: tables.progress, clock=clock)
        os.environ["AWS_ENDPOINT_URL_SNS"] = os.environ["AWS_ENDPOINT_URL_SESV2"] = sns.url
        sender = os.environ["SES_SENDER"]
        decisions = DynamoDbDecisionLog(clock=clock)
        self.check = self._step(
            "preference_checker",
            topics.RECHECK,  # The topic of the lane in which broadcasts are checked.
            CheckPreferences(
                outcome_progress=InMemoryOutcomeProgress(),
                directory=self.directory,
                clock=clock,
                delay_store=InMemoryDelayStore(),
                decision_log=decisions,
                frequency_caps=DynamoDbFrequencyCaps(),
                digests=DynamoDbDigests(),
                sends=DynamoDbSends(),
            ),
        )
        self.build = self._step(
            "builder",
            topics.BUILD,
            BuildMessages(
                directory=self.directory,
                templates=TemplateCache(self.directory, clock),
                clock=clock,
                decision_log=decisions,
                sends=DynamoDbSends(),
            ),
        )
        logger = logs.logger("receipts")
        pauses = EmailPauses(sends=DynamoDbSends(), audit_log=DynamoDbAuditLog(), clock=clock, logger=logger)
        self.deliver = self._step(
            "delivery",
            topics.DELIVERY,
            Deliver(
                directory=self.directory,
                sends=DynamoDbSends(),
                ledger=DynamoDbDeliveryLedger(table="delivery_ledger", owner=str(uuid4()), clock=clock),
                gateway=ProviderGateway(
                    clock=clock,
                    rate_limiters={channel: RateLimiter(clock) for channel in CHANNELS},
                ),
                caller=Caller(
                    senders={
                        "push": PushSender(provider=SnsPush()),
                        "email": EmailSender(provider=SesEmail(), emails=read_emails({}, sender=sender)),
                        "sms": SmsSender(provider=AwsSms()),
                    },
                    clock=clock,
                ),
                spending=SmsSpending(store=DynamoDbKeyUsage(), clock=clock),
                retry_scheduler=RetryScheduler(store=InMemoryDelayStore(), retry_schedule=RetrySchedule(), clock=clock),
                pauses=pauses,
                pool=ThreadPoolExecutor(8),
                clock=clock,
            ),
        )
        client = connect(config.opensearch_url)
        self.sent_messages = OpenSearchSentMessages(client)
        publisher = OpenSearchDocumentPublisher(client, self.codec, self.producer)
        preferences = ChangePreferences(
            directory=self.directory,
            changes=OpenSearchPreferenceChanges(client),
            publisher=publisher,
            codec=self.codec,
            producer=self.producer,
            clock=clock,
        )
        self.receipts = self._step(
            "receipts",
            topics.RECEIPT,
            ProcessReceipts(
                sends=InMemorySends(),
                frequency_caps=DynamoDbFrequencyCaps(),
                reputation=EmailReputation(
                    counter=DynamoDbEmailCounter(),
                    pauses=pauses,
                ),
                messages=self.sent_messages,
                publisher=publisher,
                answers=ApplyAnswers(
                    messages=self.sent_messages,
                    publisher=publisher,
                    directory=self.directory,
                    preferences=preferences,
                    logger=logger,
                ),
                delay_store=InMemoryDelayStore(),
                clock=clock,
                logger=logger,
            ),
        )
        self.ingest = IngestReceipts(codec=self.codec, producer=self.producer, clock=clock, logger=logger)

    def _step(self, name: str, topic: str, use_case: UseCase[Any]) -> Invoke:
        driver = BatchDriver(function=name, codec=self.codec, producer=self.producer)

        def invoke(records: Sequence[AvroRecord]) -> None:
            values = [self.codec.encode(topic, type(record).__name__, record.to_avro()) for record in records]
            entries = [entry(value, topic=topic, offset=offset) for offset, value in enumerate(values)]
            answer = driver.run({"records": {f"{topic}-0": entries}}, Minute(), use_case)
            if answer["batchItemFailures"]:
                raise SystemExit(f"{name} failed: {answer}")

        return invoke


def fill(tables: OpenSearchTables, users: int) -> None:
    """Store users of one club, each with settings and a device, and one template per channel."""
    ids = range(1, users + 1)
    tables.put(*(User(user_id=i, club_id=CLUB, first_name=f"Name{i}", email=f"{i}@example.com") for i in ids))
    tables.put(*(UserSettings(user_id=i, channels={"push": i % 10 != 0}) for i in ids))
    for start in range(1, users + 1, 1000):
        some = range(start, min(start + 1000, users + 1))
        tables.put(*(Device(device_id=i, user_id=i, platform="gcm", endpoint_arn=arn(i)) for i in some))
    body = "We won {{ data.score }}."
    tables.put(
        Template(template_id=1, club_id=None, type="news", channel="push", locale="en", title="For you", body=body)
    )


def arn(number: int) -> str:
    return endpoint_arn("arn:aws:sns:us-east-1:000000000000:app/GCM/masscomm-gcm", f"t{number}")


def timed[T](invoke: Callable[[T], object], event: Callable[[], T], runs: int) -> dict[str, float]:
    """Return the medians of wall time and of this process's processor time in seconds, after one unmeasured run."""
    invoke(event())
    wall, cpu = [], []
    for _ in range(runs):
        asked = event()
        began, began_cpu = time.perf_counter(), time.process_time()
        invoke(asked)
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
    return {"wall_s": statistics.median(wall), "cpu_s": statistics.median(cpu)}


def line(one: Mapping[str, float], many: Mapping[str, float], size: int) -> dict[str, dict[str, float]]:
    """Return the time of an invocation, and the additional time of each recipient."""
    each = {unit: max(0.0, (many[unit] - one[unit]) / (size - 1)) for unit in one}
    return {
        "invocation": {unit: _rounded(max(0.0, one[unit] - each[unit])) for unit in one},
        "recipient": {unit: _rounded(value) for unit, value in each.items()},
    }


def measure(runs: int, *, only_receipts: bool = False) -> dict[str, Any]:
    """Return all figures, or those of receipts, measured on newly started servers."""
    with tempfile.TemporaryDirectory() as folder:
        config = StackConfig.on_free_ports(Path(folder))
        with (
            Stack(config, ["kafka", "opensearch", "localstack"]) as stack,
            environment_of(stack),
            SnsStandIn.start(any_endpoint=True) as sns,
        ):
            create_topics(config.kafka_bootstrap, topics.chain_topics())
            create_indices(config.opensearch_url, GENERATION)
            create_dynamodb_tables(boto3.client("dynamodb"))
            serve_directory(config)
            tables = OpenSearchTables(TestClient(config.opensearch_url), GENERATION)
            fill(tables, PART_SIZE)
            chain = Chain(config, tables, sns)
            if only_receipts:
                return receipts(chain, runs)
            return {
                **functions(chain, runs),
                **receipts(chain, runs),
                "slices": slices(chain, sns, runs),
                "directory": directory(chain, psutil.Process(stack.pid("opensearch")), runs),
                "cold_start_s": {name: cold_start(name) for name in HANDLERS},
            }


@contextmanager
def environment_of(stack: Stack) -> Iterator[None]:
    """Set the functions' environment variables during the block."""
    before = dict(os.environ)
    os.environ.update(stack.environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def functions(chain: Chain, runs: int) -> dict[str, Any]:
    """Return the figures of preference_checker, builder and delivery, and of delivery by e-mail."""

    def sent(count: int) -> dict[str, float]:
        def chunk() -> list[RecheckRequested]:
            asked = send(range(1, count + 1), send_id=str(uuid4()), data={"score": "3:1"})
            place = KafkaRecord(topic=topics.SEND_API, partition=0, offset=0, timestamp_ms=asked.timestamp)
            return [chunk_of(asked, place)]

        return timed(chain.check, chunk, runs)

    def built(count: int) -> dict[str, float]:
        asked = build(range(1, count + 1), data={"score": "3:1"})
        return timed(chain.build, lambda: [replace(asked, record_id=str(uuid4()))], runs)

    one = _delivered(chain, 1, "push", runs)
    return {
        "preference_checker": line(sent(1), sent(PART_SIZE), PART_SIZE),
        "builder": line(built(1), built(RANGE_SIZE), RANGE_SIZE),
        "delivery": line(one, _delivered(chain, RANGE_SIZE, "push", runs), RANGE_SIZE),
        "delivery_email": line(
            _delivered(chain, 1, "email", runs), _delivered(chain, UNRECORDED, "email", runs), UNRECORDED
        ),
    }


def receipts(chain: Chain, runs: int) -> dict[str, Any]:
    """Return the figures of receipts for events of CloudWatch Logs, and for batches of receipts of known messages."""
    number = 0

    def lines(count: int) -> list[str]:
        nonlocal number
        names = [f"m{number + index}" for index in range(count)]
        number += count
        return [json.dumps(PUSHED | {"notification": {"messageId": name}}) for name in names]

    def ingested(count: int) -> dict[str, float]:
        return timed(lambda event: chain.ingest.ingest(event, 60.0), lambda: of_logs(*lines(count)), runs)

    def processed(count: int) -> dict[str, float]:
        def records() -> list[AvroRecord]:
            chain.deliver([_delivery(count, "push")])
            value = chain.codec.decode("NotificationOutcome", chain.producer.values[topics.OUTCOME][-1])
            sent = NotificationOutcome.from_avro(value)
            chain.sent_messages.store([OutcomeWithTrace(sent)])
            bodies = [
                json.dumps(PUSHED | {"notification": {"messageId": name}})
                for names in sent.provider_message_ids
                for name in names
            ]
            return [ReceiptReceived(record_id=receipt_id(body), body=body, received_at=0) for body in bodies]

        return timed(chain.receipts, records, runs)

    return {
        "receipts_ingest": line(ingested(1), ingested(LOG_LINES), LOG_LINES),
        "receipts": line(processed(1), processed(RECEIPTS), RECEIPTS),
    }


def _delivered(chain: Chain, count: int, channel: str, runs: int) -> dict[str, float]:
    return timed(chain.deliver, lambda: [_delivery(count, channel)], runs)


def _delivery(count: int, channel: str) -> DeliveryRequested:
    record = delivery((i for i in range(1, count + count // 9 + 2) if i % 10), record_id=str(uuid4()), channel=channel)
    kept = slice(0, count)
    record = replace(record, positions=record.positions[kept], user_ids=record.user_ids[kept])
    if channel == "push":
        return record
    content = [replace(column, field=field) for column, field in zip(record.content, ("subject", "text"), strict=True)]
    return replace(record, content=content, addresses=[f"{i}@example.com" for i in record.user_ids])


def slices(chain: Chain, sns: SnsStandIn, runs: int) -> list[dict[str, float]]:
    """Return the time of a slice (recipients published to together) for each latency of the provider.

    A record of RANGE_SIZE recipients contains several slices, and a record of UNRECORDED recipients contains one. The
    time of a slice is the difference of their invocation times, divided by the number of additional slices.
    """
    found = []
    for provider_ms in PROVIDER_MS:
        sns.answer(*([Rule(code="slow", delay_s=provider_ms / 1000)] if provider_ms else []))
        one, five = (_delivered(chain, count, "push", runs)["wall_s"] for count in (UNRECORDED, RANGE_SIZE))
        parts = RANGE_SIZE // UNRECORDED - 1
        found.append({"provider_ms": provider_ms, "slice_s": _rounded((five - one) / parts)})
    sns.clear()
    return found


def directory(chain: Chain, server: psutil.Process, runs: int) -> dict[str, float]:
    """Return OpenSearch's processor time in seconds for a document by id, and for the search of a user's devices."""

    def spent(work: Callable[[], object]) -> float:
        work()
        before = server.cpu_times()
        for _ in range(runs):
            work()
        after = server.cpu_times()
        return (after.user + after.system - before.user - before.system) / runs

    users = list(range(1, PART_SIZE + 1))
    by_id = spent(lambda: chain.directory.users_and_settings(users)) / (2 * PART_SIZE)
    by_user = spent(lambda: chain.directory.devices(users)) / PART_SIZE
    return {"server_cpu_s_a_document": _rounded(by_id), "server_cpu_s_a_user_of_devices": _rounded(by_user)}


def cold_start(function: str) -> float:
    """Return the processor seconds to start Python and import the handler, as before an environment's first
    invocation.
    """
    command = [sys.executable, "-c", f"import functions.{function}.handler"]
    runs = []
    for _ in range(5):
        before = os.times()
        subprocess.run(command, check=True)
        after = os.times()
        runs.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return _rounded(statistics.median(runs))


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def main() -> None:
    parser = argparse.ArgumentParser(description="How long an invocation takes, for the capacity model.")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--write", action="store_true", help=f"into lab/capacity/{FIGURES.name}")
    parser.add_argument("--only-receipts", action="store_true", help="keep the other figures")
    chosen = parser.parse_args()
    figures = {
        "command": COMMAND,
        "measured_at": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} shared cores ({platform.machine()}), servers on the same ones, "
        f"Python {platform.python_version()}, medians of {chosen.runs}",
        "workers": WORKERS,
        "slice_size": UNRECORDED,
        "spark": SPARK,
    }
    if chosen.only_receipts:
        figures = json.loads(FIGURES.read_text())
    figures |= measure(chosen.runs, only_receipts=chosen.only_receipts)
    text = json.dumps(figures, indent=2) + "\n"
    if chosen.write:
        FIGURES.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
