"""A running stack with test users, on which the fault matrix runs its cells and checks their results."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from cli.client_log import KAFKA_LOGGER
from examples.monolith.emit import Emitter
from functions.catalogue import read_catalogue
from functions.delivery.publish import UNRECORDED
from local.devstack.config import GENERATION
from local.devstack.demo import provider
from local.devstack.demo.api import Api, SendStatus
from local.devstack.demo.oracle import Ask, expect
from local.devstack.demo.records import DeadLettered, DeadLetterTail, OutcomeTail, RecordsError, TopicReader
from masscomm.directory.state import StateDirectory
from masscomm.domain.ids import notification_id
from masscomm.domain.statuses import TERMINAL, Reason, Status
from masscomm.errors import Retry
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.offsets import topic_offsets
from masscomm_client import ApiError
from tests.support.fault_stack.cell import Cell, Load, Result
from tests.support.fault_stack.population import CATEGORIES, CLUB, CLUBS, DEVICES_A_USER, Population, address
from tests.support.fault_stack.stack import FaultStack
from tests.support.until import WaitTimeoutError, until

CHAIN = ("preference_checker", "builder", "delivery")
SHARED_USERS = 2_000
SETTLE_S = 90.0
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

# An expected provider call: (notification id, endpoint ARN or address).
type Pair = tuple[str, str]


@dataclass
class Sent:
    """A send of a cell, with the results that the oracle expects.

    Attributes:
        fates: User → expected result: "sent" or a reason. If there are several, each of them is right, because settings
            change meanwhile.
        calls: User → provider calls if the notification is sent.
        receipt_outcomes: User → (status, reason) of the outcome that receipts lead to.
        category: The category, if the cell has chosen one.
        uncounted: Users that the metrics do not count, because their notification has the same id as another one.
    """

    send_id: str
    fates: dict[int, frozenset[str]]
    calls: dict[int, list[Pair]]
    channel: str = "push"
    receipt_outcomes: dict[int, tuple[str, str]] = field(default_factory=dict)
    uncounted: frozenset[int] = frozenset()
    category: str = ""

    @property
    def pairs(self) -> set[Pair]:
        """Return the provider calls that must be made."""
        return {pair for user_id, pairs in self.calls.items() for pair in pairs if self.fates[user_id] == {"sent"}}


@dataclass
class Bench:
    """A stack, with the methods that run cells of the fault matrix and check their results.

    Attributes:
        stack: The running stack.
        timeout_s: The seconds until every notification must have ended.
        by_minute: Whether the metrics by minute are checked.
        killed: The number of killed invocations of delivery in the current cell.
        sends: The sends of the current cell.
        refused_users: The users of the current cell whose endpoints the provider refuses.
    """

    stack: FaultStack
    population: Population
    emitter: Emitter
    api: Api
    outcomes: OutcomeTail
    letters: DeadLetterTail
    codec: Codec
    admin: KafkaAdmin
    shared: range
    since_ms: int = field(default_factory=lambda: time.time_ns() // 60_000_000_000 * 60_000)
    killed: int = 0
    timeout_s: float = SETTLE_S
    by_minute: bool = True
    sends: list[Sent] = field(default_factory=list)
    refused_users: frozenset[int] = frozenset()
    _letters_before: int = 0
    unfinished: str = ""  # functions that still had records to process at the last check

    @classmethod
    @contextmanager
    def on(cls, stack: FaultStack, *, shared: int = SHARED_USERS) -> "Iterator[Bench]":
        """Return a bench on a running stack without users. `shared` is the number of users for cells that have no
        users of their own.
        """
        config = stack.config
        population = Population(config)
        registry, bootstrap = config.registry_url, config.kafka_bootstrap
        with Emitter(bootstrap, registry, logger=KAFKA_LOGGER) as emitter:
            bench = cls(
                stack=stack,
                population=population,
                emitter=emitter,
                api=Api(config.gateway_url, config.api_key),
                outcomes=OutcomeTail(bootstrap, registry),
                letters=DeadLetterTail(bootstrap),
                codec=Codec(HttpSchemaRegistry(registry)),
                admin=KafkaAdmin({"bootstrap.servers": bootstrap, "logger": KAFKA_LOGGER}),
                shared=population.grow(shared),
            )
            try:
                yield bench
            finally:
                for each in (bench.api, bench.outcomes, bench.letters, bench.admin):
                    each.close()

    def open_again(self) -> None:
        """Replace the clients that know offsets, after the topics were created anew; earlier outcomes are forgotten."""
        registry, bootstrap = self.stack.config.registry_url, self.stack.config.kafka_bootstrap
        for each in (self.outcomes, self.letters, self.admin):
            each.close()
        self.outcomes = OutcomeTail(bootstrap, registry)
        self.letters = DeadLetterTail(bootstrap)
        self.admin = KafkaAdmin({"bootstrap.servers": bootstrap, "logger": KAFKA_LOGGER})
        self._letters_before = 0

    # --- a cell ---

    def run(self, cell: Cell) -> Result:
        self.killed, self.sends = 0, []
        self._letters_before = len(self.letters.all())
        users = list(self._users(cell.load))
        self.refused_users = frozenset(users[index] for index in cell.expectation.refused_users)
        result = Result(cell=cell.name)
        before = self.counts()
        began = time.monotonic()
        try:
            self.stack.deploy(cell.deployment)
            cell.fault(self, lambda: self._send(cell.load, users))
            self.stack.sns.clear()
            self.settle()
            # A record of an unknown schema waits in the delay store: no topic shows that its dead letter follows.
            until("the dead letters are there", lambda: self._has_letters(cell), self.timeout_s, every_s=0.1)
        except Exception as error:  # A cell whose run raises has failed.
            result.wrong.append(f"{type(error).__name__}: {error}")
        finally:
            self.stack.sns.clear()
        self._check(cell, before, result)
        result.seconds = time.monotonic() - began
        return result

    def _send(self, load: Load, users: Sequence[int]) -> None:
        self.emit(users, named=load.named, chunk=load.chunk, refused_users=self.refused_users, channel=load.channel)

    def emit(
        self,
        users: Sequence[int],
        *,
        named: Sequence[int] | None = None,
        chunk: int = 2_500,
        refused_users: Set[int] = frozenset(),
        channel: str = "push",
        club_id: int = CLUB,
        category: str | None = None,
        is_capped: bool = False,
        is_collected: bool = False,
        **options: Any,
    ) -> Sent:
        """Produce a send to these users as the monolith does, by default of the category that has the channel.
        `options` are those of Emitter.send.
        """
        category = category or CATEGORIES[channel]
        to_users = list(users) if named is None else [users[index] for index in named]
        send_id = f"{time.time_ns():x}-{len(self.sends)}"
        sent = self.expect_send(
            send_id,
            to_users,
            refused_users=refused_users,
            channel=channel,
            club_id=club_id,
            category=category,
            is_capped=is_capped,
            is_collected=is_collected,
        )
        self.emitter.send(category, club_id, to_users, chunk_size=chunk, send_id=sent.send_id, **options)
        return sent

    def expect_send(
        self,
        send_id: str,
        to_users: Sequence[int],
        *,
        refused_users: Set[int] = frozenset(),
        channel: str = "push",
        club_id: int = CLUB,
        category: str | None = None,
        is_capped: bool = False,
        is_collected: bool = False,
    ) -> Sent:
        """Compute the oracle's expectation for a send; the cell is checked against it."""
        kind = category or CATEGORIES[channel]
        asked = Ask(
            club_id=club_id,
            type=kind,
            to_users=to_users,
            channels=[channel],
            is_capped=is_capped,
            is_collected=is_collected,
        )
        expected = expect(self.population.world, asked)
        fates = {user_id: frozenset({fate}) for (user_id, _), fate in expected.fates.items()}
        fates |= {user_id: frozenset({"device_inactive"}) for user_id in refused_users if fates[user_id] == {"sent"}}
        calls = {
            user_id: [
                (notification_id(send_id, user_id, channel), target) for target in self._targets(user_id, channel)
            ]
            for user_id, fate in fates.items()
            if fate == {"sent"}
        }
        sent = Sent(send_id, fates, calls, channel, category=category or "")
        self.sends.append(sent)
        return sent

    def _targets(self, user_id: int, channel: str) -> list[str]:
        return self.population.endpoints[user_id] if channel == "push" else [address(user_id)]

    def received(self) -> Counter[Pair]:
        """Return all messages that the providers have accepted since they were started."""
        found = Counter((each.notification_id, each.endpoint) for each in self.stack.sns.received())
        if any(sent.channel == "email" for sent in self.sends):
            mails = provider.calls(self.stack.config.aws_url, self.stack.config.sms_url)
            found.update((each.notification_id, each.target) for each in mails if each.channel == "email")
        return found

    def _users(self, load: Load) -> range:
        return self.population.grow(load.users) if load.own else self.shared[: load.users]

    # --- faults ---

    def processes(self, function: str) -> list[psutil.Process]:
        host = psutil.Process(self.stack.stack.pid("lambda_host"))
        found = []
        for process in host.children(recursive=True):
            try:
                if process.environ().get("AWS_LAMBDA_FUNCTION_NAME") == function:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def kill(self, function: str) -> None:
        """Kill the processes of a function with SIGKILL, and wait until they have ended."""
        processes = self.processes(function)
        assert processes, f"{function} has no process"
        for process in processes:
            process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, 10)
        self.killed += len(processes) if function.startswith("delivery") else 0

    def freeze(self, function: str) -> None:
        """Send SIGSTOP to the processes of a function; the host kills them at their timeout."""
        processes = self.processes(function)
        assert processes, f"{function} has no process"
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        self.killed += len(processes) if function == "delivery" else 0

    def thaw(self, function: str) -> None:
        """Send SIGCONT to the stopped processes of a function."""
        for process in self.processes(function):
            process.send_signal(signal.SIGCONT)

    def functions(self) -> list[str]:
        """Return the functions that have a process now."""
        status = httpx.get(f"{self.stack.config.gateway_url}/-/status", trust_env=False).json()
        return [name for name, found in status["functions"].items() if found["pids"]]

    def failures(self) -> int:
        """Return how many records event source mappings have passed to their functions again."""
        mappings = httpx.get(f"{self.stack.config.gateway_url}/-/status", trust_env=False).json()["mappings"]
        return sum(mappings[function]["retries"] for function in CHAIN)

    def await_held(self, count: int) -> None:
        """Wait until the provider has received this many publishes and responded to none of them."""
        until(f"{count} publishes held", lambda: self.stack.sns.counts().held >= count)

    def extra_environment(self, function: str) -> "ExtraEnvironment":
        """Return a warm environment of a function, for one invocation that is concurrent with those of its mapping."""
        return ExtraEnvironment(function, self.stack.environment, self.stack.code)

    def produce(self, topic: str, values: Sequence[bytes], *, partition: int) -> list[Message]:
        """Produce values to one partition in order. Return the messages with their offsets."""
        written: list[Message] = []
        producer = Producer(
            {"bootstrap.servers": self.stack.config.kafka_bootstrap, "linger.ms": 20}, logger=KAFKA_LOGGER
        )
        for value in values:
            producer.produce(topic, value, partition=partition, on_delivery=lambda _, message: written.append(message))
        producer.flush(20)
        assert len(written) == len(values)
        return written

    def ends(self, *names: str) -> dict[tuple[str, int], int]:
        """Return the end offset of each partition of these topics."""
        metadata = self.admin.client().list_topics(timeout=10).topics
        asked = [TopicPartition(name, number) for name in names for number in metadata[name].partitions]
        return topic_offsets(
            self.admin.client(), asked, _LATEST, timeout_s=3, isolation_level=IsolationLevel.READ_COMMITTED
        )

    def records(self, *names: str) -> int:
        """Return the number of records that were produced to these topics."""
        return sum(self.ends(*names).values())

    # --- the end ---

    def state_directory(self) -> StateDirectory:
        """Return the directory's state in memory."""
        config = self.stack.config
        return StateDirectory([config.directory_state_url], token=lambda: config.directory_state_token)

    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until all recipients have a terminal status and all topics are consumed. Raises WaitTimeoutError."""
        timeout_s = timeout_s or self.timeout_s
        until("every recipient has a terminal status", lambda: all(map(self.ended, self.sends)), timeout_s, every_s=0.1)
        try:
            until("the chain's topics are consumed", self.at_rest, timeout_s, every_s=0.1)
        except WaitTimeoutError as late:
            raise WaitTimeoutError(f"{late}; {self.unfinished}") from late

    def ended(self, sent: Sent) -> bool:
        try:
            return len(self._outcomes(sent)) >= len(sent.fates)
        except (RecordsError, KafkaException):
            return False  # The fault makes the broker unreachable.

    def _outcomes(self, sent: Sent, *, by_receipts: bool = False) -> dict[int, list[tuple[str, str]]]:
        """Return every terminal (status, reason) by user, from the records of several functions, or with
        `by_receipts` from those of receipts.
        """
        found: dict[int, list[tuple[str, str]]] = {}
        try:
            records = self.outcomes.of(sent.send_id)
        except RecordsError:  # The partition had another leader; the reader now knows the new one.
            records = self.outcomes.of(sent.send_id)
        for record in {record["record_id"]: record for record in records}.values():
            if (record["step"] == "receipt") is not by_receipts or record["channel"] != sent.channel:
                continue
            for user_id, index in zip(record["user_ids"], record["result_index"], strict=True):
                result = record["results"][index]
                if result["status"] in TERMINAL:
                    found.setdefault(user_id, []).append((result["status"], result["reason"] or ""))
        return found

    def await_receipts(self) -> None:
        """Wait for the outcome of every expected receipt and for the topics of receipts. Raises WaitTimeoutError."""

        def all_receipts_have_outcomes() -> bool:
            try:
                return all(
                    self._outcomes(sent, by_receipts=True).keys() >= sent.receipt_outcomes.keys() for sent in self.sends
                )
            except (RecordsError, KafkaException):
                return False

        until("every receipt has an outcome", all_receipts_have_outcomes, self.timeout_s, every_s=0.1)
        until("nothing is left of receipts", lambda: self.at_rest(_SOURCES_OF_RECEIPTS), self.timeout_s, every_s=0.1)

    def await_counted(self, sent: Sent) -> None:
        """Wait until the metrics of a send equal the oracle's expectation. Raises WaitTimeoutError."""
        expected = self._expected_status(sent)
        until("it is counted", lambda: self.api.status(sent.send_id) == expected, self.timeout_s, every_s=0.2)

    def await_requested(self, sent: Sent) -> None:
        """Wait until the metrics have counted each requested recipient of a send. Raises WaitTimeoutError."""

        def requested() -> bool:
            status = self.api.status(sent.send_id)
            return status is not None and status.requested == len(sent.fates)

        until("the send is counted", requested, self.timeout_s, every_s=0.1)

    def at_rest(self, sources: "Mapping[str, Sequence[str]] | None" = None) -> bool:
        """Return whether the functions, or these consumer groups, have consumed their topics to the end."""
        try:
            return self._all_read(sources or _SOURCES)
        except (KafkaException, Retry) as error:
            # The next check uses a new client, because a client that has lost a coordinator or leader does not find it
            # again.
            self.admin.close()
            self.unfinished = str(error)
            return False

    def _all_read(self, sources: Mapping[str, Sequence[str]]) -> bool:
        for group, names in sources.items():
            asked = ConsumerGroupTopicPartitions(group)
            committed = self.admin.client().list_consumer_group_offsets([asked], request_timeout=10)[group].result()
            offsets = {(each.topic, each.partition): each.offset for each in committed.topic_partitions}
            behind = {index: end for index, end in self.ends(*names).items() if offsets.get(index, 0) < end}
            if behind:
                self.unfinished = f"{group}: {[(*index, offsets.get(index), end) for index, end in behind.items()]}"
                return False
        return True

    def counts(self) -> Counter[str]:
        """Return the totals by measure of the metrics by minute, over every club that cells send to."""
        found = Counter[str]()
        for (_, club_id, category, _, measure), count in self.api.counts(self.since_ms).items():
            if club_id in CLUBS and category in {*CATEGORIES.values(), *(sent.category for sent in self.sends)}:
                found[measure] += count
        return found

    def _check(self, cell: Cell, before: Counter[str], result: Result) -> None:
        received = self.received()
        result.bound = self.killed * UNRECORDED * DEVICES_A_USER + cell.expectation.bound
        for sent in self.sends:
            outcomes = self._outcomes(sent)
            self._check_calls(sent, outcomes, received, result)
            self._check_outcomes(sent, outcomes, result)
            self._check_receipts(sent, result)
            result.metric_error += self._metric_error(sent, result)
        if self.by_minute:
            result.metric_error += self._count_error(before, result)
        letters = [letter.reason for letter in self._new_letters()]
        if sorted(letters) != sorted(cell.expectation.dead_letters):
            result.wrong.append(f"dead letters {letters} instead of {list(cell.expectation.dead_letters)}")

    def accept_dead_letters(self) -> None:
        """Exclude the existing dead letters from the check of the cell."""
        self._letters_before = len(self.letters.all())

    def _has_letters(self, cell: Cell) -> bool:
        return len(self._new_letters()) >= len(cell.expectation.dead_letters)

    def _new_letters(self) -> list[DeadLettered]:
        return self.letters.all()[self._letters_before :]

    def _check_calls(
        self, sent: Sent, outcomes: Mapping[int, list[tuple[str, str]]], received: Counter[Pair], result: Result
    ) -> None:
        must = sent.pairs
        for user_id, fate in sent.fates.items():
            if fate != {"sent"} and "sent" in fate and (Status.SENT, "") in outcomes.get(user_id, []):
                must |= set(sent.calls[user_id])
        ours = {notification_id(sent.send_id, user_id, sent.channel) for user_id in sent.fates}
        got = {pair: count for pair, count in received.items() if pair[0] in ours}
        # A cancelled recipient may have the message if a kill prevented recording the result.
        unrecorded = {
            pair
            for user_id, fate in sent.fates.items()
            if "cancelled" in fate and (Status.CANCELLED, "cancelled") in outcomes.get(user_id, [])
            for pair in sent.calls.get(user_id, [])
            if pair in got
        }
        result.expected += len(must)
        result.sent += sum(got.values())
        result.lost += len(must - got.keys())
        result.unexpected += len(got.keys() - must - unrecorded) + max(0, len(unrecorded) - result.bound)
        result.duplicates += sum(got.values()) - len(got)

    def _check_outcomes(self, sent: Sent, outcomes: Mapping[int, list[tuple[str, str]]], result: Result) -> None:
        wrong = Counter[str]()
        for user_id, fate in sent.fates.items():
            ends = outcomes.get(user_id, [])
            if len(ends) != 1:
                wrong[f"{len(ends)} ends {sorted(set(ends))}"] += 1
            elif _fate(*ends[0]) not in fate:
                wrong[f"{_fate(*ends[0])} instead of {'/'.join(sorted(fate))}"] += 1
        wrong["outcomes of people nobody sent to"] += len(outcomes.keys() - sent.fates.keys())
        result.wrong += [f"{count} recipients: {problem}" for problem, count in (+wrong).items()]

    def _check_receipts(self, sent: Sent, result: Result) -> None:
        outcomes = self._outcomes(sent, by_receipts=True)
        wrong = Counter(
            f"heard {outcomes.get(user_id, [])} instead of {sent.receipt_outcomes.get(user_id, 'nothing')}"
            for user_id in outcomes.keys() | sent.receipt_outcomes.keys()
            if outcomes.get(user_id, []) != [sent.receipt_outcomes.get(user_id)]
        )
        result.wrong += [f"{count} recipients: {problem}" for problem, count in wrong.items()]

    def _expected_status(self, sent: Sent) -> SendStatus:
        """Return the counts of a send over all its channels."""
        parts = [each for each in self.sends if each.send_id == sent.send_id]
        fates, receipt_outcomes = Counter[str](), Counter[str]()
        for each in parts:
            fates.update(fate for user_id, fate in self._decided(each) if user_id not in each.uncounted)
            receipt_outcomes.update(status for status, _ in each.receipt_outcomes.values())
        return SendStatus(
            requested=sum(len(each.fates) - len(each.uncounted) for each in parts),
            suppressed={fate: count for fate, count in fates.items() if fate not in _MEASURES},
            sent=fates["sent"] - receipt_outcomes.total(),
            failed=sum(count for fate, count in fates.items() if fate in _FAILED),
            in_flight=0,
            delivered=receipt_outcomes[Status.DELIVERED],
            bounced=receipt_outcomes[Status.BOUNCED],
            cancelled=sum(count for fate, count in fates.items() if _MEASURES.get(fate) == Status.CANCELLED),
        )

    def _metric_error(self, sent: Sent, result: Result) -> int:
        """Return the difference between GET /v1/sends/{id} and the oracle after the time-out."""
        expected = self._expected_status(sent)
        status: SendStatus | None = None

        def equal() -> bool:
            nonlocal status
            try:
                status = self.api.status(sent.send_id)
            except httpx.HTTPError:
                return False
            return status == expected

        if not sent.fates:
            return 0
        try:
            until("the metrics say the same", equal, 5 if result.wrong else min(60, self.timeout_s), every_s=0.2)
        except WaitTimeoutError:
            result.wrong.append(f"metrics: {status} instead of {expected}")
            return _difference(expected, status or SendStatus(0, {}, 0, 0, 0)) or 1
        return 0

    def _count_error(self, before: Counter[str], result: Result) -> int:
        """Return the difference between the growth of the metrics by minute and the oracle."""
        expected = Counter[str]()
        for sent in self.sends:
            expected["requested"] += len(sent.fates) - len(sent.uncounted)
            expected.update(_MEASURES.get(fate, "suppressed") for _, fate in self._decided(sent))
            expected.update(status for status, _ in sent.receipt_outcomes.values())
        grown: dict[str, int] = {}

        def equal() -> bool:
            nonlocal grown
            try:
                counts = self.counts()
            except (httpx.HTTPError, ApiError):
                return False
            grown = {name: counts[name] - before[name] for name in _COUNTED}
            return all(grown[name] == expected[name] for name in grown)

        try:
            until("the metrics by minute say the same", equal, 5 if result.wrong else 20, every_s=0.3)
        except WaitTimeoutError:
            result.wrong.append(f"metrics by minute grew by {grown} instead of {dict(expected)}")
            return sum(abs(grown.get(name, 0) - expected[name]) for name in grown) or 1
        return 0

    def _decided(self, sent: Sent) -> Iterator[tuple[int, str]]:
        """Return each user with the expected result; if several are right, the result in the outcome record."""
        outcomes = self._outcomes(sent)
        for user_id, fate in sent.fates.items():
            yield user_id, next(iter(fate)) if len(fate) == 1 else _fate(*outcomes.get(user_id, [("", "")])[0])


def sources(*packages: str) -> dict[str, Sequence[str]]:
    """Return the topics by consumer group, in every lane."""
    return {
        entry.group: entry.event_source.topics
        for entry in read_catalogue(generation=GENERATION)
        if entry.package in packages and entry.event_source is not None
    }


_SOURCES = sources(*CHAIN)
_SOURCES_OF_RECEIPTS = sources("receipts")
_FAILED = frozenset({"dead_letter", "too_large", "provider_rejected"})
# Result → the measure that counts it; every other result is a reason of suppression.
_MEASURES = {
    **{status: status for status in ("sent", "expired", "cancelled", "digested")},
    **dict.fromkeys(sorted(_FAILED), "failed"),
    Reason.REPLACED: Status.CANCELLED,
}

_COUNTED = ("requested", "suppressed", *dict.fromkeys(_MEASURES.values()), Status.DELIVERED, Status.BOUNCED)


def _fate(status: str, reason: str) -> str:
    return "sent" if status == Status.SENT else reason or status


def _difference(expected: SendStatus, got: SendStatus) -> int:
    reasons = expected.suppressed.keys() | got.suppressed.keys()
    return (
        abs(expected.requested - got.requested)
        + abs(expected.sent - got.sent)
        + abs(expected.failed - got.failed)
        + abs(expected.in_flight - got.in_flight)
        + abs(expected.delivered - got.delivered)
        + abs(expected.bounced - got.bounced)
        + abs(expected.cancelled - got.cancelled)
        + sum(abs(expected.suppressed.get(reason, 0) - got.suppressed.get(reason, 0)) for reason in reasons)
    )


_ENVIRONMENT = """
import importlib, json, sys, time
module, _, name = sys.argv[1].rpartition(".")
handler = getattr(importlib.import_module(module), name)
getattr(importlib.import_module(module), "bootstrap")()
print("warm", flush=True)
class Context:
    aws_request_id = "extra"
    function_name = sys.argv[2]
    def __init__(self): self.until = time.monotonic() + 55
    def get_remaining_time_in_millis(self): return int((self.until - time.monotonic()) * 1000)
print("answer " + json.dumps(handler(json.loads(sys.stdin.readline()), Context())), flush=True)
"""


class ExtraEnvironment:
    """One environment of a function outside the function host. It processes the same batch a second time."""

    def __init__(self, function: str, environment: Mapping[str, str], code: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ENVIRONMENT, f"functions.{function}.handler.handler", function],
            cwd=code,
            env={**environment, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(code), "MASSCOMM_LANE": "bulk"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._read("warm")

    def invoke(self, event: Mapping[str, Any]) -> None:
        """Start the only invocation of this environment."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(event) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._read("answer"))
        self.close()
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self, word: str) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:  # Standard output also has the log lines of the function.
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError(f"the extra environment ended before {word!r}")


def tail(bench: Bench, topic: str) -> TopicReader:
    """Return a reader of the records that are produced to a topic from now on."""
    return TopicReader(bench.stack.config.kafka_bootstrap, [topic], from_beginning=False)
