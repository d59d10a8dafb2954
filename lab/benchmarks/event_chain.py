"""Measures event delivery on the local servers, for `python -m lab.benchmarks.events --chain`.

Events go through Kafka, event_matcher and webhook_sender (processes of the Lambda host), DynamoDB's stand-in and the
registry to receivers with TLS in another process. A naive sender (lab/benchmarks/naive/events.py) gets the same events
for the same receivers. All of them share the processors of this machine.
"""

import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cli.client_log import KAFKA_LOGGER
from lab.benchmarks.chain import usage
from lab.benchmarks.chain.measure import at_rest
from lab.benchmarks.event_receivers import Received, Receivers
from lab.benchmarks.naive import events as naive
from lab.benchmarks.running_chain import RunningChain
from local.devstack import process
from local.devstack.config import ROOT
from local.devstack.service import local_client
from masscomm.domain.events import EventType
from masscomm.domain.records import EventOccurred
from masscomm.domain.subscriptions import Subscription
from masscomm.domain.webhooks import Endpoint, EndpointKey, bucket_of
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.stores.event_types.dynamodb import DynamoDbEventTypes
from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints

TYPE = "match.goal"
MATCHER, SENDERS = "event_matcher", ("webhook_sender", "webhook_batch_sender", "webhook_retry_sender")
_POLL_S, _TIMEOUT_S = 0.05, 300.0
_FLUSH_S = 60.0
_TICK_S = 0.02


class Audience(NamedTuple):
    """Endpoints with one subscription each: an event of the club `first + n` is for the endpoint n."""

    first: int
    receivers: Receivers
    # The numbers of the endpoints.
    numbers: Sequence[int]


class Throughput(NamedTuple):
    events: int
    per_s: float
    # Processor time of an event in microseconds: of the matcher, of the senders, and of the naive sender.
    matcher_us: float
    senders_us: float
    naive_us: float
    requests: int
    repeated: int


class EventChain:
    """A running chain, to which endpoints are added, and on which events occur."""

    def __init__(self, chain: RunningChain) -> None:
        self.chain = chain
        config = chain.stack.config
        client = local_client(config.dynamodb_url, "dynamodb")
        self._endpoints = DynamoDbWebhookEndpoints(client=client)
        self._codec = Codec(HttpSchemaRegistry(config.registry_url))
        self._key_id = json.loads(config.webhook_keys)["current"]
        self._next_club, self._next_number = 1_000, 0
        options = {"bootstrap.servers": config.kafka_bootstrap, "linger.ms": 2, "compression.type": "lz4"}
        self._producer = Producer(options, logger=KAFKA_LOGGER)
        DynamoDbEventTypes(client=client).put(EventType(name=TYPE, description="A goal"))

    def subscribe(
        self,
        receivers: Receivers,
        numbers: Sequence[int],
        *,
        max_count: int = 1,
        max_bytes: int = 256_000,
        one_bucket: bool = False,
    ) -> Audience:
        """Create an endpoint for each number, with a subscription. `one_bucket`: all are in the same bucket."""
        first = self._next_club
        self._next_club += len(numbers)
        for place, number in enumerate(numbers):
            key = endpoint_key(first + place, one_bucket=one_bucket)
            self._endpoints.create(
                Endpoint(
                    key=key,
                    url=receivers.url(number),
                    created_at_ms=1,
                    key_id=self._key_id,
                    max_count=max_count,
                    max_bytes=max_bytes,
                )
            )
            subscription = Subscription(
                id=f"sub_{key.id}", endpoint=key, types=("match.*",), club_ids=(key.club_id,), batched=max_count > 1
            )
            value = self._codec.encode(topics.SUBSCRIPTION, "SubscriptionChanged", subscription.to_record().to_avro())
            self._producer.produce(topics.SUBSCRIPTION, value, subscription.id)
        self._flush()
        return Audience(first, receivers, numbers)

    def occur(self, clubs: Iterable[int]) -> list[int]:
        """Produce an event for each club, and return their numbers."""
        found = []
        for club_id in clubs:
            number, self._next_number = self._next_number, self._next_number + 1
            event = EventOccurred(
                event_id=f"event-{number}", type=TYPE, club_id=club_id, occurred_at=_now_ms(), data=data(number)
            )
            value = self._codec.encode(topics.EVENT, "EventOccurred", event.to_avro())
            self._produce(topics.EVENT, value, event.event_id)
            found.append(number)
        return found

    def occur_naively(self, clubs: Iterable[int]) -> list[int]:
        """Produce an event for each club to the naive sender's topic, and return their numbers."""
        found = []
        for club_id in clubs:
            number, self._next_number = self._next_number, self._next_number + 1
            event = {"event_id": f"event-{number}", "type": TYPE, "club_id": club_id, "data": json.loads(data(number))}
            self._produce(naive.TOPIC, json.dumps(event).encode(), str(number))
            found.append(number)
        return found

    def _produce(self, topic: str, value: bytes, key: str) -> None:
        self._producer.produce(topic, value, key)
        self._producer.poll(0)

    def _flush(self) -> None:
        if self._producer.flush(_FLUSH_S):
            raise SystemExit("Kafka did not acknowledge all records")

    def throughput(self, audience: Audience, events: int, *, is_naive: bool = False) -> Throughput:
        """Let events occur at once, for each endpoint in turn, and wait until all have arrived."""
        at_rest(self.chain)
        audience.receivers.take()
        before, began = usage.usage(self.chain, 0.0), time.monotonic()
        occur = self.occur_naively if is_naive else self.occur
        numbers = occur(audience.first + number % len(audience.numbers) for number in range(events))
        self._flush()
        received = self._arrived(audience.receivers, len(numbers))
        if not is_naive:
            at_rest(self.chain)
        spent = usage.usage(self.chain, 0.0).since(before).processor_s
        return Throughput(
            events=events,
            per_s=events / (received.last_at - began),
            matcher_us=spent.get(MATCHER, 0.0) / events * 1e6,
            senders_us=sum(spent.get(name, 0.0) for name in SENDERS) / events * 1e6,
            naive_us=spent.get(naive.ROLE, 0.0) / events * 1e6,
            requests=sum(received.requests.values()),
            repeated=received.repeated,
        )

    def in_turn(self, audience: Audience, events: int, pause_s: float) -> list[float]:
        """Return the seconds from event to request of single events, with a pause before each."""
        at_rest(self.chain)
        audience.receivers.take()
        for place in range(events):
            time.sleep(pause_s)  # The chain is idle: nothing occurs.
            self.occur([audience.first + place % len(audience.numbers)])
            self._flush()
            self._wait(audience.receivers, place + 1)
        return sorted(audience.receivers.take().latencies.values())

    def steady(
        self, audience: Audience, rates: Sequence[tuple[int, float]], seconds: float, *, is_naive: bool = False
    ) -> Received:
        """Let events occur at constant rates, and return what arrives in the second half of the time.

        Args:
            audience: The endpoints.
            rates: (number of the endpoint in the audience, its events a second)
            seconds: The time.
        """
        occur = self.occur_naively if is_naive else self.occur
        began = time.monotonic()
        sent = dict.fromkeys((place for place, _ in rates), 0)
        is_counted = False
        # The endpoints begin at different times of their interval.
        starts = {place: number / len(rates) for number, (place, _) in enumerate(rates)}
        while (elapsed := time.monotonic() - began) < seconds:
            if not is_counted and elapsed > seconds / 2:
                audience.receivers.take()
                is_counted = True
            due: list[int] = []
            for place, rate in rates:
                count = int(elapsed * rate + starts[place]) - sent[place]
                sent[place] += count
                due += [audience.first + place] * count
            occur(due)
            self._producer.poll(0)
            time.sleep(_TICK_S)
        self._flush()
        return audience.receivers.take()

    def _arrived(self, receivers: Receivers, count: int) -> Received:
        self._wait(receivers, count)
        return receivers.take()

    def _wait(self, receivers: Receivers, count: int) -> None:
        until = time.monotonic() + _TIMEOUT_S
        while (arrived := receivers.count()) < count:
            if time.monotonic() > until:
                raise SystemExit(f"{count - arrived} of {count} events have not arrived in {_TIMEOUT_S:.0f} s")
            time.sleep(min(_POLL_S, 0.002 if count < 100 else _POLL_S))


@contextmanager
def naive_sender(chain: RunningChain, audience: Audience, folder: Path) -> Iterator[None]:
    """Run the naive sender during the block."""
    bootstrap = chain.stack.config.kafka_bootstrap
    with AdminClient({"bootstrap.servers": bootstrap}, logger=KAFKA_LOGGER) as admin:
        if naive.TOPIC not in admin.list_topics(timeout=_FLUSH_S).topics:
            for future in admin.create_topics([NewTopic(naive.TOPIC, 1, 1)]).values():
                future.result(_FLUSH_S)
    file = folder / "endpoints.json"
    urls = {audience.first + place: [audience.receivers.url(number)] for place, number in enumerate(audience.numbers)}
    file.write_text(json.dumps(urls))
    options = ["--kafka", bootstrap, "--endpoints", str(file), "--authority", audience.receivers.authority]
    command = [sys.executable, "-m", "lab.benchmarks.naive.events", *options]
    whole = process.child_command(command, death_signal=signal.SIGKILL, owned=())
    log = folder / "naive.log"
    with log.open("w") as output, subprocess.Popen(whole, cwd=ROOT, stdout=output, text=True) as program:
        try:
            until = time.monotonic() + _FLUSH_S
            while "ready" not in log.read_text():
                if program.poll() is not None or time.monotonic() > until:
                    raise SystemExit("the naive sender ended before it consumed")
                time.sleep(_POLL_S)
            yield
        finally:
            program.kill()


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return p50 and p99 in milliseconds; infinite if there are none."""
    if len(seconds) < 2:
        return float("inf"), float("inf")
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return cuts[49] * 1000, cuts[98] * 1000


def data(number: int) -> str:
    """Return data of an event: a body has 1 kB."""
    return f'{{"number": {number}, "at": {time.monotonic():.6f}, "text": "{"x" * 730}"}}'


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def endpoint_key(club_id: int, *, one_bucket: bool) -> EndpointKey:
    """Return the key of an endpoint of a tenant. `one_bucket`: all such keys are in the same bucket."""
    for number in range(100_000):
        key = EndpointKey(club_id, f"ep_{club_id}_{number:020d}")
        if not one_bucket or bucket_of(key.id) == 0:
            return key
    raise ValueError("no id of an endpoint is in the first bucket")
