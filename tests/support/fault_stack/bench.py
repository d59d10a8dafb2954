"""A stack with people in it, on which cells run one after another; and the judge of each."""

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

from devstack.client_log import KAFKA_LOGGER
from devstack.config import GENERATION
from devstack.demo import provider
from devstack.demo.api import Api, ApiError, SendStatus
from devstack.demo.oracle import Ask, expect
from devstack.demo.records import DeadLettered, DeadLetterTail, OutcomeTail, RecordsError, TopicReader
from examples.monolith.emit import Emitter
from functions.catalogue import read_catalogue
from functions.delivery.deliver import SLICE_SIZE
from masscomm.domain.ids import notification_id
from masscomm.domain.statuses import TERMINAL, Status
from masscomm.errors import Retry
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.offsets import topic_offsets
from tests.support.fault_stack.cell import Cell, Load, Result
from tests.support.fault_stack.population import CATEGORIES, CLUB, CLUBS, DEVICES_A_USER, Population, address
from tests.support.fault_stack.stack import FaultStack
from tests.support.until import WaitTimeoutError, until

CHAIN = ("preference_checker", "builder", "delivery")
SHARED_USERS = 2_000
SETTLE_S = 90.0
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

# (notification id, endpoint's ARN or address): a provider call that must be.
type Pair = tuple[str, str]


@dataclass
class Sent:
    """A send of a cell and the oracle's word on it.

    fates: user → what may become of them: sent or a reason, one of them or (a choice made meanwhile) either; calls: of
    each user who may be sent to; receipt_outcomes: (status, reason) by receipts; uncounted: users
    whose request the metrics refuse, because another's has its id.
    """

    send_id: str
    fates: dict[int, frozenset[str]]
    calls: dict[int, list[Pair]]
    channel: str = "push"
    receipt_outcomes: dict[int, tuple[str, str]] = field(default_factory=dict)
    uncounted: frozenset[int] = frozenset()

    @property
    def pairs(self) -> set[Pair]:
        """The calls that must be."""
        return {pair for user_id, pairs in self.calls.items() for pair in pairs if self.fates[user_id] == {"sent"}}


@dataclass
class Bench:
    """stack: what runs; timeout_s: for the end of every notification; by_minute: whether the metrics by minute are
    judged.

    Of the cell that runs: killed: invocations of delivery that were ended; sends; gone: whose endpoints are refused.
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
    gone: frozenset[int] = frozenset()
    _letters_before: int = 0
    _left: str = ""  # what was not at rest when it was last looked at

    @classmethod
    @contextmanager
    def on(cls, stack: FaultStack, *, shared: int = SHARED_USERS) -> "Iterator[Bench]":
        """A bench on a stack that runs and has nobody in it yet; shared: people for cells that need no others."""
        config = stack.config
        population = Population(config)
        registry, bootstrap = config.registry_url, config.kafka_bootstrap
        with Emitter(bootstrap, registry, logger=KAFKA_LOGGER) as emitter:
            bench = cls(
                stack=stack,
                population=population,
                emitter=emitter,
                api=Api(config.gateway_url),
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

    # --- a cell ---

    def run(self, cell: Cell) -> Result:
        """Run a cell and judge what came of it."""
        self.killed, self.sends = 0, []
        self._letters_before = len(self.letters.all())
        users = list(self._users(cell.load))
        self.gone = frozenset(users[place] for place in cell.expectation.gone)
        result = Result(cell=cell.name)
        before = self._counts()
        began = time.monotonic()
        try:
            cell.fault(self, lambda: self._send(cell.load, users))
            self.stack.sns.clear()
            self.settle()
        except Exception as error:  # a cell that could not be played is no cell that held
            result.wrong.append(f"{type(error).__name__}: {error}")
        finally:
            self.stack.sns.clear()
        self._judge(cell, before, result)
        result.seconds = time.monotonic() - began
        return result

    def _send(self, load: Load, users: Sequence[int]) -> None:
        self.emit(users, named=load.named, chunk=load.chunk, gone=self.gone, channel=load.channel)

    def emit(
        self,
        users: Sequence[int],
        *,
        named: Sequence[int] | None = None,
        chunk: int = 2_500,
        gone: Set[int] = frozenset(),
        channel: str = "push",
        club_id: int = CLUB,
        **options: Any,
    ) -> Sent:
        """A send to these people by the monolith; options: of Emitter.send."""
        to_users = list(users) if named is None else [users[place] for place in named]
        send_id = f"{time.time_ns():x}-{len(self.sends)}"
        sent = self.expect_send(send_id, to_users, gone=gone, channel=channel, club_id=club_id)
        category = CATEGORIES[channel]
        self.emitter.send(category, club_id, to_users, chunk_size=chunk, send_id=sent.send_id, **options)
        return sent

    def expect_send(
        self,
        send_id: str,
        to_users: Sequence[int],
        *,
        gone: Set[int] = frozenset(),
        channel: str = "push",
        club_id: int = CLUB,
    ) -> Sent:
        """The oracle's expectation of a send; the cell is judged by it."""
        asked = Ask(club_id=club_id, type=CATEGORIES[channel], to_users=to_users, channels=[channel])
        expected = expect(self.population.world, asked)
        fates = {user_id: frozenset({fate}) for (user_id, _), fate in expected.fates.items()}
        fates |= {user_id: frozenset({"device_inactive"}) for user_id in gone if fates[user_id] == {"sent"}}
        calls = {
            user_id: [
                (notification_id(send_id, user_id, channel), target) for target in self._targets(user_id, channel)
            ]
            for user_id, fate in fates.items()
            if fate == {"sent"}
        }
        sent = Sent(send_id, fates, calls, channel)
        self.sends.append(sent)
        return sent

    def _targets(self, user_id: int, channel: str) -> list[str]:
        return self.population.endpoints[user_id] if channel == "push" else [address(user_id)]

    def received(self) -> Counter[Pair]:
        """Everything the providers took, since they were started."""
        found = Counter((each.notification_id, each.endpoint) for each in self.stack.sns.received())
        if any(sent.channel == "email" for sent in self.sends):
            mails = provider.calls(self.stack.config.aws_url)
            found.update((each.notification_id, each.target) for each in mails if each.channel == "email")
        return found

    def _users(self, load: Load) -> range:
        return self.population.grow(load.users) if load.own else self.shared[: load.users]

    # --- faults ---

    def processes(self, function: str) -> list[psutil.Process]:
        """A function's processes."""
        host = psutil.Process(self.stack.stack.pid("lambda_host"))
        found = []
        for process in host.children(recursive=True):
            try:
                if process.environ().get("AWS_LAMBDA_FUNCTION_NAME") == function:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue  # it ended meanwhile
        return found

    def kill(self, function: str) -> None:
        """kill -9 a function's processes, and wait until they are gone."""
        processes = self.processes(function)
        assert processes, f"{function} has no process"
        for process in processes:
            process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, 10)
        self.killed += len(processes) if function.startswith("delivery") else 0

    def freeze(self, function: str) -> None:
        """Stop a function's processes until the host ends them for taking too long."""
        processes = self.processes(function)
        assert processes, f"{function} has no process"
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        self.killed += len(processes) if function == "delivery" else 0

    def thaw(self, function: str) -> None:
        """Let them go on that were stopped."""
        for process in self.processes(function):
            process.send_signal(signal.SIGCONT)

    def functions(self) -> list[str]:
        """Every function there is, in every lane."""
        status = httpx.get(f"{self.stack.config.gateway_url}/-/status", trust_env=False).json()
        return list(status["functions"])

    def failures(self) -> int:
        """How many records the chain's mappings have given to their functions again."""
        mappings = httpx.get(f"{self.stack.config.gateway_url}/-/status", trust_env=False).json()["mappings"]
        return sum(mappings[function]["retries"] for function in CHAIN)

    def await_held(self, count: int) -> None:
        """Wait until so many publishes stand unanswered at the provider."""
        until(f"{count} publishes held", lambda: self.stack.sns.counts().held >= count)

    def extra_environment(self, function: str) -> "ExtraEnvironment":
        """A warm environment of a function, for one invocation concurrent with those of its mapping."""
        return ExtraEnvironment(function, self.stack.environment, self.stack.code)

    def produce(self, topic: str, values: Sequence[bytes], *, partition: int) -> list[Message]:
        """Put bytes into one partition, one after another; where they stand."""
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
        """Where each partition of the topics ends."""
        metadata = self.admin.client().list_topics(timeout=10).topics
        asked = [TopicPartition(name, number) for name in names for number in metadata[name].partitions]
        return topic_offsets(
            self.admin.client(), asked, _LATEST, timeout_s=3, isolation_level=IsolationLevel.READ_COMMITTED
        )

    def records(self, *names: str) -> int:
        """How many records the topics have been given."""
        return sum(self.ends(*names).values())

    # --- the end ---

    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until all recipients have a terminal status and all topics are consumed. Errors: WaitTimeoutError."""
        timeout_s = timeout_s or self.timeout_s
        until("everybody has an end", lambda: all(map(self.ended, self.sends)), timeout_s, every_s=0.1)
        try:
            until("nothing is left in the chain's topics", self.at_rest, timeout_s, every_s=0.1)
        except WaitTimeoutError as late:
            raise WaitTimeoutError(f"{late}; {self._left}") from late

    def ended(self, sent: Sent) -> bool:
        """Whether everybody of it has a terminal status."""
        try:
            return len(self._outcomes(sent)) >= len(sent.fates)
        except (RecordsError, KafkaException):
            return False  # the broker is down

    def _outcomes(self, sent: Sent, *, by_receipts: bool = False) -> dict[int, list[tuple[str, str]]]:
        """user → every terminal (status, reason) of different records of the chain, or else of receipts."""
        found: dict[int, list[tuple[str, str]]] = {}
        try:
            records = self.outcomes.of(sent.send_id)
        except RecordsError:  # a partition has another leader since the last time: the reader knows it now
            records = self.outcomes.of(sent.send_id)
        for record in {record["record_id"]: record for record in records}.values():
            if (record["step"] == "receipt") is not by_receipts:
                continue
            for user_id, place in zip(record["user_ids"], record["result_index"], strict=True):
                result = record["results"][place]
                if result["status"] in TERMINAL:
                    found.setdefault(user_id, []).append((result["status"], result["reason"] or ""))
        return found

    def await_receipts(self) -> None:
        """Wait until every expected receipt has an outcome and no receipt is left. Errors: WaitTimeoutError."""

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
        """Wait until the metrics say of a send what the oracle says. Errors: WaitTimeoutError."""
        expected = self._expected_status(sent)
        until("it is counted", lambda: self.api.status(sent.send_id) == expected, self.timeout_s, every_s=0.2)

    def at_rest(self, sources: "Mapping[str, Sequence[str]] | None" = None) -> bool:
        """Whether the functions of the chain, or else these groups, have read their topics to the end."""
        try:
            return self._all_read(sources or _SOURCES)
        except (KafkaException, Retry) as error:
            # A client that lost the group's coordinator, or a partition's leader, does not find it again.
            self.admin.close()
            self._left = str(error)
            return False

    def _all_read(self, sources: Mapping[str, Sequence[str]]) -> bool:
        for group, names in sources.items():
            asked = ConsumerGroupTopicPartitions(group)
            committed = self.admin.client().list_consumer_group_offsets([asked], request_timeout=10)[group].result()
            offsets = {(each.topic, each.partition): each.offset for each in committed.topic_partitions}
            left = {place: end for place, end in self.ends(*names).items() if offsets.get(place, 0) < end}
            if left:
                self._left = f"{group}: {[(*place, offsets.get(place), end) for place, end in left.items()]}"
                return False
        return True

    def _counts(self) -> Counter[str]:
        """The metrics by minute, all together, of everybody cells send to: by measure."""
        found = Counter[str]()
        for (_, club_id, category, _, measure), count in self.api.counts(self.since_ms).items():
            if club_id in CLUBS and category in CATEGORIES.values():
                found[measure] += count
        return found

    def _judge(self, cell: Cell, before: Counter[str], result: Result) -> None:
        received = self.received()
        result.bound = self.killed * SLICE_SIZE * DEVICES_A_USER + cell.expectation.bound
        for sent in self.sends:
            outcomes = self._outcomes(sent)
            self._judge_calls(sent, outcomes, received, result)
            self._judge_outcomes(sent, outcomes, result)
            self._judge_receipts(sent, result)
            result.metric_error += self._metric_error(sent, result)
        if self.by_minute:
            result.metric_error += self._count_error(before, result)
        letters = [letter.reason for letter in self._new_letters()]
        if sorted(letters) != sorted(cell.expectation.dead_letters):
            result.wrong.append(f"dead letters {letters} instead of {list(cell.expectation.dead_letters)}")

    def accept_dead_letters(self) -> None:
        """Ignore the present dead letters when the cell is judged."""
        self._letters_before = len(self.letters.all())

    def _new_letters(self) -> list[DeadLettered]:
        return self.letters.all()[self._letters_before :]

    def _judge_calls(
        self, sent: Sent, outcomes: Mapping[int, list[tuple[str, str]]], received: Counter[Pair], result: Result
    ) -> None:
        must = sent.pairs
        for user_id, fate in sent.fates.items():
            if fate != {"sent"} and "sent" in fate and (Status.SENT, "") in outcomes.get(user_id, []):
                must |= set(sent.calls[user_id])
        ours = {notification_id(sent.send_id, user_id, sent.channel) for user_id in sent.fates}
        got = {pair: count for pair, count in received.items() if pair[0] in ours}
        result.expected += len(must)
        result.sent += sum(got.values())
        result.lost += len(must - got.keys())
        result.unexpected += len(got.keys() - must)
        result.duplicates += sum(got.values()) - len(got)

    def _judge_outcomes(self, sent: Sent, outcomes: Mapping[int, list[tuple[str, str]]], result: Result) -> None:
        wrong = Counter[str]()
        for user_id, fate in sent.fates.items():
            ends = outcomes.get(user_id, [])
            if len(ends) != 1:
                wrong[f"{len(ends)} ends {sorted(set(ends))}"] += 1
            elif _fate(*ends[0]) not in fate:
                wrong[f"{_fate(*ends[0])} instead of {'/'.join(sorted(fate))}"] += 1
        wrong["outcomes of people nobody sent to"] += len(outcomes.keys() - sent.fates.keys())
        result.wrong += [f"{count} recipients: {what}" for what, count in (+wrong).items()]

    def _judge_receipts(self, sent: Sent, result: Result) -> None:
        outcomes = self._outcomes(sent, by_receipts=True)
        wrong = Counter(
            f"heard {outcomes.get(user_id, [])} instead of {sent.receipt_outcomes.get(user_id, 'nothing')}"
            for user_id in outcomes.keys() | sent.receipt_outcomes.keys()
            if outcomes.get(user_id, []) != [sent.receipt_outcomes.get(user_id)]
        )
        result.wrong += [f"{count} recipients: {what}" for what, count in wrong.items()]

    def _expected_status(self, sent: Sent) -> SendStatus:
        fates = Counter(fate for user_id, fate in self._decided(sent) if user_id not in sent.uncounted)
        receipt_outcomes = Counter(status for status, _ in sent.receipt_outcomes.values())
        return SendStatus(
            requested=len(sent.fates) - len(sent.uncounted),
            suppressed={fate: count for fate, count in fates.items() if fate not in _MEASURES},
            sent=fates["sent"] - receipt_outcomes.total(),
            failed=sum(count for fate, count in fates.items() if fate in _FAILED),
            in_flight=0,
            delivered=receipt_outcomes[Status.DELIVERED],
            bounced=receipt_outcomes[Status.BOUNCED],
        )

    def _metric_error(self, sent: Sent, result: Result) -> int:
        """How far GET /v1/sends/{id} is from the oracle, once it has had its time."""
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
        """How far what the metrics by minute grew by is from the oracle."""
        expected = Counter[str]()
        for sent in self.sends:
            expected["requested"] += len(sent.fates) - len(sent.uncounted)
            expected.update(_MEASURES.get(fate, "suppressed") for _, fate in self._decided(sent))
            expected.update(status for status, _ in sent.receipt_outcomes.values())
        grown: dict[str, int] = {}

        def equal() -> bool:
            nonlocal grown
            try:
                counts = self._counts()
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
        """Each user with the expected result; where the oracle allows two, the one of the outcome record."""
        outcomes = self._outcomes(sent)
        for user_id, fate in sent.fates.items():
            yield user_id, next(iter(fate)) if len(fate) == 1 else _fate(*outcomes.get(user_id, [("", "")])[0])


def _sources(*packages: str) -> dict[str, Sequence[str]]:
    """Topics by consumer group, in every lane."""
    return {
        entry.group: entry.event_source.topics
        for entry in read_catalogue(generation=GENERATION)
        if entry.package in packages and entry.event_source is not None
    }


_SOURCES = _sources(*CHAIN)
_SOURCES_OF_RECEIPTS = _sources("receipts")
_FAILED = frozenset({"dead_letter", "too_large", "provider_rejected"})
# A fate's measure; every other is a reason to be suppressed for.
_MEASURES = {"sent": "sent", "expired": "expired", **dict.fromkeys(sorted(_FAILED), "failed")}

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
    """One environment of a function outside the function host: it processes the same batch a second time."""

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
        """Start its only invocation."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(event) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The invocation's answer, once it has ended."""
        answer: dict[str, Any] = json.loads(self._read("answer"))
        self.close()
        return answer

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()

    def _read(self, word: str) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:  # the functions log there, too
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError(f"the extra environment ended before {word!r}")


def tail(bench: Bench, topic: str) -> TopicReader:
    """A topic's records from now on."""
    return TopicReader(bench.stack.config.kafka_bootstrap, [topic], from_beginning=False)
