"""The chains that masscomm is compared with, on the same servers: the naive chain and three bare Kafka hops."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cli.client_log import KAFKA_LOGGER
from lab.benchmarks.chain.loads import BROADCASTER, Load, Sent, produce
from lab.benchmarks.naive import __main__ as naive
from lab.benchmarks.naive import hop
from lab.benchmarks.running_chain import TEXT, RunningChain
from local.devstack import process
from local.devstack.config import ROOT

_TIMEOUT_S = 60.0


def naive_broadcast(recipients: int) -> Load:
    """Produce one event for each recipient to the naive chain."""

    def emit(chain: RunningChain) -> list[Sent]:
        send_id, users, at = str(uuid4()), range(1, recipients + 1), time.time()
        common = {"send_id": send_id, "club_id": BROADCASTER, "type": "news", **TEXT}
        produce(chain, naive.SEND, [json.dumps(common | {"user_id": user_id}).encode() for user_id in users])
        return [Sent(send_id, users, at)]

    return emit


def hop_messages(count: int) -> Load:
    """Produce as many messages as a broadcast has recipients to the first bare hop."""

    def emit(chain: RunningChain) -> list[Sent]:
        sent = Sent(str(uuid4()), range(1, count + 1), time.time())
        produce(chain, hop.topic(1), [f"{each} {json.dumps(TEXT)}".encode() for each in sent.notifications()])
        return [sent]

    return emit


@contextmanager
def naive_chain(chain: RunningChain) -> Iterator[None]:
    """Run the three programs of the naive chain during the block."""
    _create(chain, naive.TOPICS)
    config = chain.stack.config
    options = ["--kafka", config.kafka_bootstrap, "--opensearch", config.opensearch_url, "--sns", chain.sns.url]
    with _running([["lab.benchmarks.naive", step, *options] for step in naive.STEPS]):
        yield


@contextmanager
def bare_hops(chain: RunningChain) -> Iterator[None]:
    _create(chain, [hop.topic(number) for number in range(1, hop.HOPS + 2)])
    options = ["--kafka", chain.stack.config.kafka_bootstrap]
    with _running([["lab.benchmarks.naive.hop", str(number), *options] for number in range(1, hop.HOPS + 1)]):
        yield


class LastHop:
    """The messages that passed all bare hops, with the interface of `lab.benchmarks.chain.measure.Taken`."""

    def __init__(self, chain: RunningChain) -> None:
        self._bootstrap = chain.stack.config.kafka_bootstrap
        self._place = TopicPartition(hop.topic(hop.HOPS + 1), 0)

    def count(self) -> int:
        consumer = self._consumer()
        try:
            _, end = consumer.get_watermark_offsets(self._place, timeout=_TIMEOUT_S)
            return end
        finally:
            consumer.close()

    def taken_from(self, first: int) -> Iterator[tuple[str, float]]:
        """Yield the notification id and the time of each message, beginning with number `first`."""
        remaining = self.count() - first
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(self._place.topic, 0, first)])
            while remaining > 0:
                for message in consumer.consume(5_000, 1.0):
                    remaining -= 1
                    yield (message.value() or b"").decode().partition(" ")[0], message.timestamp()[1] / 1000
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": str(uuid4()), "enable.auto.commit": False},
            logger=KAFKA_LOGGER,
        )


def _create(chain: RunningChain, names: Sequence[str]) -> None:
    with AdminClient({"bootstrap.servers": chain.stack.config.kafka_bootstrap}, logger=KAFKA_LOGGER) as admin:
        existing = admin.list_topics(timeout=_TIMEOUT_S).topics
        missing = [NewTopic(name, num_partitions=1, replication_factor=1) for name in names if name not in existing]
        for future in admin.create_topics(missing).values() if missing else ():
            future.result(_TIMEOUT_S)


@contextmanager
def _running(commands: Sequence[Sequence[str]]) -> Iterator[None]:
    with ExitStack() as resources:
        programs: list[tuple[Sequence[str], subprocess.Popen[str]]] = []
        for command in commands:
            whole = process.child_command([sys.executable, "-m", *command], death_signal=signal.SIGKILL, owned=())
            program = subprocess.Popen(whole, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            resources.enter_context(program)
            resources.callback(program.kill)
            programs.append((command, program))
        for command, program in programs:
            if program.stdout is None or program.stdout.readline().strip() != "ready":
                raise SystemExit(f"{' '.join(command)} ended before it consumed")
        yield
