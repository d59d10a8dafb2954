"""Sends messages with events through webhook_sender's code to servers on this machine, for lab.benchmarks.events.

event_matcher and webhook_sender run in this process on aws:kafka events as their mappings pass them; Kafka and DynamoDB
are in memory. The servers run in another process, one address of the loopback network for each endpoint.
"""

import asyncio
import multiprocessing
import random
import re
import socket
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, NamedTuple

from functions.catalogue import read_catalogue
from functions.event_matcher.match_events import MatchEvents
from functions.event_matcher.notify import Notify, RefusalStore, RuleOwners
from functions.webhook_sender.credentials import EndpointCredentials
from functions.webhook_sender.gateway import WebhookGateway
from functions.webhook_sender.ordering import Orders
from functions.webhook_sender.send_messages import KnownEndpoints, SendMessages
from functions.webhook_sender.storing import Storing
from masscomm.chain.batch import BatchDriver
from masscomm.chain.disabled_endpoints import AnnounceDisabled
from masscomm.channels.guarded_http import tls_context
from masscomm.channels.kept_alive_http import KeptAliveHttp
from masscomm.channels.signing_keys import SigningKeys
from masscomm.clock import SystemClock
from masscomm.decisions.event_matching import SubscriptionIndex
from masscomm.domain.events import EventType
from masscomm.domain.records import EventOccurred, WebhookRequested
from masscomm.domain.subscriptions import Subscription
from masscomm.domain.webhooks import Endpoint, EndpointKey
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.bundled_schema import BundledSchema
from masscomm.kafka.producer import InMemoryProducer, NoProducer
from masscomm.stores.api_keys.in_memory import InMemoryApiKeys
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.event_types.checks import KnownTypes
from masscomm.stores.event_types.in_memory import InMemoryEventTypes
from masscomm.stores.key_queues.in_memory import InMemoryKeyQueues
from masscomm.stores.key_usage.in_memory import InMemoryKeyUsage
from masscomm.stores.sent_messages.in_memory import InMemorySentMessages
from masscomm.stores.subscriptions.in_memory import InMemorySubscriptions
from masscomm.stores.webhook_dead_letters.in_memory import InMemoryWebhookDeadLetters
from masscomm.stores.webhook_endpoints.in_memory import InMemoryWebhookEndpoints
from masscomm.stores.webhook_endpoints.results import EndpointResults
from masscomm.stores.webhook_tokens.in_memory import InMemoryWebhookTokens
from tests.support.fakes.data_keys import InMemoryDataKeys
from tests.support.harness.chain import Context, entry, event, registry_with_all_schemas
from tests.support.servers.tls_server import create_authority

PARTITIONS = 4
_TYPE = "match.goal"
_PORT = 18_431
_KEYS = '{"current": "1", "1": "a key of at least thirty-two bytes"}'
# Topic → the records of a batch. A batch of webhook.batched ends with Lambda's 6 MB.
_RECORDS = {
    topic: size
    for function in read_catalogue(generation="g1")
    if function.event_source is not None
    for topic, size in function.event_source.batch_sizes.items()
}
_MAX_BATCH_BYTES = 4_500_000
_SENT_AT = re.compile(rb'"sent_at":([0-9.]+)')
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_NO = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"


class Case(NamedTuple):
    """What is measured."""

    name: str
    endpoints: int
    # The most messages of a request.
    max_count: int = 1
    # The number of endpoints that never answer, and of those that answer 500.
    hanging: int = 0
    failing: int = 0


@dataclass(frozen=True)
class Result:
    messages_per_s: float
    # Processor time of a message in microseconds, of either function.
    matcher_us: float
    sender_us: float
    requests: int
    # The writes to the delay store.
    writes: int


# --- the servers ------------------------------------------------------------------------------------------------------
def address_of(number: int) -> str:
    return f"127.0.{1 + number // 250}.{1 + number % 250}"


class _Server(asyncio.Protocol):
    def __init__(self, answer: bytes, seen: list[float], counts: list[int]) -> None:
        self._answer, self._seen, self._counts = answer, seen, counts
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._received) < end + 4 + length:
                return
            body, self._received = self._received[end + 4 : end + 4 + length], self._received[end + 4 + length :]
            if self._answer:
                now = time.monotonic()
                if self._answer == _OK:
                    sent = [now - float(each) for each in _SENT_AT.findall(body)]
                    self._seen.extend(sent)
                    self._counts[0] += 1
                self._transport.write(self._answer)


def _serve(case: Case, control: Connection) -> None:
    """Serve until the other end sends something; then send the latencies in seconds and the number of requests."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        seen: list[float] = []
        counts = [0]
        for number in range(case.endpoints):
            answer = b"" if number < case.hanging else _NO if number < case.hanging + case.failing else _OK
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address_of(number), _PORT))
            await loop.create_server(partial(_Server, answer, seen, counts), sock=listener, backlog=64)
        control.send("ready")
        while True:
            asked = await loop.run_in_executor(None, control.recv)
            if asked == "end":
                return
            control.send((list(seen), counts[0]))
            seen.clear()
            counts[0] = 0

    asyncio.run(run())


@contextmanager
def _servers(case: Case) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(case, theirs))
    process.start()
    try:
        ours.recv()
        yield ours
    finally:
        ours.send("end")
        process.join()


def _shake_hands(folder: str, control: Connection) -> None:
    """Accept TLS connections and close them, until the other end sends something."""

    async def run() -> None:
        async def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        authority = create_authority(Path(folder))
        server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=authority.context("localhost"))
        control.send((str(authority.path), server.sockets[0].getsockname()[1]))
        await asyncio.get_running_loop().run_in_executor(None, control.recv)

    asyncio.run(run())


# --- the functions ----------------------------------------------------------------------------------------------------
class _Index:
    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self._index = SubscriptionIndex(subscriptions)

    def current(self) -> SubscriptionIndex:
        return self._index


class Functions:
    """Both functions over stores in memory, with the endpoints of a case. An event of the club n is for endpoint n."""

    def __init__(self, case: Case) -> None:
        self.clock = SystemClock()
        types = InMemoryEventTypes()
        types.put(EventType(name=_TYPE, description="A goal"))
        self.endpoints = InMemoryWebhookEndpoints()
        self.delayed = InMemoryDelayStore()
        self._keys = SigningKeys(read=lambda: _KEYS, clock=self.clock)
        subscriptions = []
        for number in range(case.endpoints):
            key = EndpointKey(number + 1, f"ep_{number + 1}_{number:020d}")
            self.endpoints.stored[key] = Endpoint(
                key=key,
                url=f"http://{address_of(number)}:{_PORT}/",
                created_at_ms=1,
                key_id="1",
                max_count=case.max_count,
            )
            subscriptions.append(
                Subscription(
                    id=f"sub_{number}",
                    endpoint=key,
                    types=("match.*",),
                    club_ids=(number + 1,),
                    batched=case.max_count > 1,
                )
            )
        self.codec = Codec(registry_with_all_schemas())
        self.matching = MatchEvents(
            subscriptions=_Index(subscriptions),
            types=KnownTypes(store=types, clock=self.clock),
            notify=Notify(
                owners=RuleOwners(keys=InMemoryApiKeys(), clock=self.clock),
                usage=InMemoryKeyUsage(),
                refusals=RefusalStore(subscriptions=InMemorySubscriptions(), clock=self.clock),
                clock=self.clock,
            ),
            clock=self.clock,
        )

    def match(self, events: Sequence[EventOccurred], partition: int, first: int) -> tuple[list[dict[str, Any]], float]:
        """Return the webhook records for the events at consecutive offsets, and the processor time in seconds."""
        producer = InMemoryProducer()
        driver = BatchDriver(function="benchmark", codec=self.codec, producer=producer)
        entries = [
            entry(
                self.codec.encode(topics.EVENT, "EventOccurred", each.to_avro()),
                topic=topics.EVENT,
                partition=partition,
                offset=first + place,
                timestamp=each.occurred_at,
            )
            for place, each in enumerate(events)
        ]
        given = event(*entries)
        began = time.thread_time()
        answered = driver.run(given, Context(), self.matching)
        used_s = time.thread_time() - began
        if answered["batchItemFailures"]:
            raise AssertionError(f"event_matcher has failed: {answered}")
        found = [
            entry(value, topic=topic, partition=int(key or 0) % PARTITIONS, headers=headers)
            for topic, key, value, headers in producer.produced
        ]
        return found, used_s

    def sender(self) -> Callable[[Sequence[dict[str, Any]]], None]:
        """Return an environment of webhook_sender, which processes a batch of records."""

        def audit(*_: object, **__: object) -> None: ...

        http = KeptAliveHttp(loopback=True)
        credentials = EndpointCredentials.of(
            keys=InMemoryDataKeys(), http=http, tokens=InMemoryWebhookTokens(), clock=self.clock
        )
        driver = BatchDriver(function="benchmark", codec=Codec(BundledSchema(WebhookRequested)), producer=NoProducer())
        use_case = SendMessages(
            endpoints=KnownEndpoints(store=self.endpoints, clock=self.clock),
            results=EndpointResults(
                endpoints=self.endpoints,
                audit=audit,
                announce=AnnounceDisabled(store=self.delayed, clock=self.clock),
            ),
            storing=Storing.of(self.delayed, InMemoryWebhookDeadLetters(), self.clock),
            sent=InMemorySentMessages(),
            orders=Orders(store=InMemoryKeyQueues(), clock=self.clock),
            gateway=WebhookGateway(http=http, keys=self._keys, credentials=credentials, clock=self.clock),
            clock=self.clock,
        )

        # A record that is given again has another offset, or its messages would not be sent again.
        offsets = count()

        def send(entries: Sequence[dict[str, Any]]) -> None:
            given = event(*({**each, "offset": next(offsets)} for each in entries))
            answered = driver.run(given, _Invocation(), use_case)
            if answered["batchItemFailures"]:
                raise AssertionError(f"webhook_sender has failed: {answered}")

        return send


class _Invocation:
    """A context with 60 seconds."""

    aws_request_id = "benchmark"

    def __init__(self) -> None:
        self._until = time.monotonic() + 60

    def get_remaining_time_in_millis(self) -> int:
        return round((self._until - time.monotonic()) * 1000)


def _event(number: int, club_id: int, data: str) -> EventOccurred:
    return EventOccurred(
        event_id=f"event-{number}", type=_TYPE, club_id=club_id, occurred_at=time.time_ns() // 1_000_000, data=data
    )


def _data() -> str:
    """Return data with the time at which the event occurred. A body has 1 kB."""
    return f'{{"sent_at":{time.monotonic():.6f},"text":"{"x" * 750}"}}'


def _batches(entries: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the batches of a mapping."""
    some: list[dict[str, Any]] = []
    size = 0
    for each in entries:
        added = len(each["value"]) * 3 // 4
        if some and (len(some) == _RECORDS[each["topic"]] or size + added > _MAX_BATCH_BYTES):
            yield some
            some, size = [], 0
        some.append(each)
        size += added
    if some:
        yield some


# --- the measurements -------------------------------------------------------------------------------------------------
def throughput(case: Case, count: int) -> Result:
    """Send as many messages as fast as one environment of each function can."""
    functions = Functions(case)
    source = random.Random(7)
    entries: list[dict[str, Any]] = []
    matched_s = 0.0
    for first in range(0, count, 500):
        some = [_event(first + place, source.randint(1, case.endpoints), _data()) for place in range(500)]
        found, used_s = functions.match(some, 0, first)
        entries += found
        matched_s += used_s
    by_partition: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for each in entries:
        by_partition[each["partition"]].append(each)
    batches = [batch for some in by_partition.values() for batch in _batches(some)]
    with _servers(case) as control:
        send = functions.sender()
        for batch in batches[: max(1, len(batches) // 10)]:  # Connections are made.
            send(batch)
        control.send("counts")
        control.recv()
        before = len(functions.delayed.items)
        began, used = time.monotonic(), time.process_time()
        for batch in batches:
            send(batch)
        elapsed, used = time.monotonic() - began, time.process_time() - used
        control.send("counts")
        latencies, requests = control.recv()
    if len(latencies) != count:
        raise AssertionError(f"{len(latencies)} of {count} messages have arrived")
    return Result(
        messages_per_s=count / elapsed,
        matcher_us=matched_s / count * 1e6,
        sender_us=used / count * 1e6,
        requests=requests,
        writes=len(functions.delayed.items) - before,
    )


def handshake_us(count: int = 300) -> float:
    """Return the processor time of the client's side of a TLS connection in microseconds: the certificate is of an
    elliptic curve (P-256), and an authority has signed it.
    """

    async def connect(authority: str, port: int) -> float:
        context = tls_context(authority)
        used = 0.0
        for number in range(count + 10):
            if number == 10:
                used = time.process_time()
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
            writer.transport.abort()
        return time.process_time() - used

    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with TemporaryDirectory() as folder:
        process = context.Process(target=_shake_hands, args=(folder, theirs))
        process.start()
        try:
            return asyncio.run(connect(*ours.recv())) / count * 1e6
        finally:
            ours.send("end")
            process.join()


def latencies(case: Case, *, rate: int, seconds: float) -> list[float]:
    """Return the seconds from event to receipt at a constant rate, of the endpoints that answer, in order.

    Each partition has an environment and one batch in flight. The first half of the time is not counted.
    """
    functions = Functions(case)
    queues: list[deque[dict[str, Any]]] = [deque() for _ in range(PARTITIONS)]
    ended = Event()
    errors: list[Exception] = []

    def consume(queue: deque[dict[str, Any]]) -> None:
        send = functions.sender()
        try:
            while not ended.is_set() or queue:
                if not queue:
                    ended.wait(0.002)
                    continue
                send([queue.popleft() for _ in range(min(len(queue), _RECORDS[topics.WEBHOOK]))])
        except Exception as error:
            errors.append(error)

    source = random.Random(7)
    with _servers(case) as control:
        threads = [Thread(target=consume, args=(queue,)) for queue in queues]
        for thread in threads:
            thread.start()
        began, number, is_counted = time.monotonic(), 0, False
        while (elapsed := time.monotonic() - began) < seconds and not errors:
            if not is_counted and elapsed > seconds / 2:
                control.send("counts")
                control.recv()
                is_counted = True
            due = round(elapsed * rate) - number
            if due <= 0:
                time.sleep(0.002)
                continue
            some = [_event(number + place, source.randint(1, case.endpoints), _data()) for place in range(due)]
            found, _ = functions.match(some, 0, number)
            for each in found:
                queues[each["partition"]].append(each)
            number += due
        ended.set()
        for thread in threads:
            thread.join()
        control.send("counts")
        found_s, _ = control.recv()
    if errors:
        raise errors[0]
    return sorted(found_s)


def quantile(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]
