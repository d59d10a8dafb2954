"""The service directory_state as a process, on topics of a generation of its own on a real broker."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from directory_state.store import FILLED, Store, prepare
from local.devstack.config import ROOT, StackConfig, is_free
from local.devstack.provision import create_topics
from local.devstack.service import base_environment, listens
from masscomm.cdc.progress import KafkaCdcProgress
from masscomm.directory.state import StateDirectory
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.event import KafkaRecord
from tests.support.servers.directory_state import TOKEN
from tests.support.until import until


class Changelogs:
    """The topics of a snapshot generation, with the offsets that Kafka Connect would store."""

    def __init__(self, bootstrap: str) -> None:
        self.generation = f"t{uuid4().hex[:8]}"
        self.offsets_topic = f"offsets.{self.generation}"
        self._bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 0})
        own = [topic for topic in topics.chain_topics() if topic.name == topics.DIRECTORY_DOCUMENT]
        create_topics(bootstrap, [*topics.cdc_topics(self.generation), *own])
        with AdminClient({"bootstrap.servers": bootstrap}) as admin:
            admin.create_topics([NewTopic(self.offsets_topic, 1, 1)])[self.offsets_topic].result(20)

        until("the broker has leaders for the topics", self._has_leaders)

    def _has_leaders(self) -> bool:
        progress = KafkaCdcProgress(
            self._bootstrap, generation=self.generation, group="none", offsets_topic=self.offsets_topic
        )
        try:
            progress.end_offsets()
        except Retry:
            return False
        finally:
            progress.close()
        return True

    def produce(self, records: Iterable[KafkaRecord]) -> None:
        """Produce records of the generation g1 to the topics of this one, by their keys."""
        names: dict[str, str] = {}
        producer = self._producer
        for number, record in enumerate(records):
            name = names.get(record.topic)
            if name is None:
                name = names[record.topic] = record.topic.replace("cdc.g1.", f"cdc.{self.generation}.", 1)
            producer.produce(name, record.value, key=record.key)
            if number % 1_000 == 0:
                producer.poll(0)
        assert producer.flush(60) == 0

    def acknowledge(self, lsn: int) -> None:
        """Store a source offset, as Kafka Connect does once Kafka has acknowledged all changes up to it."""
        key = json.dumps([f"monolith-{self.generation}", {"server": topics.cdc_prefix(self.generation)}])
        self._producer.produce(self.offsets_topic, json.dumps({"lsn": lsn}).encode(), key=key.encode())
        assert self._producer.flush(60) == 0


class StateProcess:
    """The service, which can be killed and started again on the same folder.

    Args:
        port: A free port of the loopback address.
        snapshots: The variables of snapshots, one of which has such a store; None: there are none.
    """

    def __init__(
        self,
        config: StackConfig,
        changelogs: Changelogs,
        folder: Path,
        *,
        port: int,
        feeders: int = 1,
        snapshots: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.port = port
        self._snapshots = snapshots
        self._log = folder.with_suffix(".log")
        self._environment = {
            **base_environment(),
            "KAFKA_BOOTSTRAP_SERVERS": config.kafka_bootstrap,
            "SCHEMA_REGISTRY_URL": config.registry_url,
            "CDC_GENERATION": changelogs.generation,
            "CONNECT_OFFSETS_TOPIC": changelogs.offsets_topic,
            "CDC_CLOCK_SKEW_MS": "0",
            "DIRECTORY_STATE_FOLDER": str(folder),
            "DIRECTORY_STATE_ADDRESS": f"127.0.0.1:{port}",
            "DIRECTORY_STATE_TOKEN": TOKEN,
            "DIRECTORY_STATE_FEEDERS": str(feeders),
            **(snapshots or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the service on a store whose topics have masscomm's own documents: there is no OpenSearch to ask."""
        if self._snapshots is None and not self.folder.exists():
            prepare(self.folder, generations=[self._environment["CDC_GENERATION"]], topic_ids={}, now_ms=0)
            store = Store(self.folder, writes=True)
            with store.writing() as writer:
                writer.set_meta(FILLED, True)
            store.close()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "directory_state"],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until("the server listens", lambda: self._is_alive() and listens(self.port))

    def _is_alive(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-3_000:]
        return True

    def processes(self) -> list[psutil.Process]:
        """Return the service's processes: the first one, the feeders in their order, and the server."""
        assert self._process is not None
        first = psutil.Process(self._process.pid)
        workers = [each for each in first.children() if "spawn_main" in " ".join(each.cmdline())]
        return [first, *sorted(workers, key=lambda each: each.pid)]

    def audience_process(self) -> psutil.Process:
        """Return the process that compares audiences."""
        *_, server = self.processes()
        (found,) = [each for each in server.children() if "spawn_main" in " ".join(each.cmdline())]
        return found

    def has_logged(self, text: str) -> bool:
        return text in self._log.read_text()

    def kill(self) -> None:
        """Kill all processes at once."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def wait(self) -> int:
        """Wait for the end of the service; return its status."""
        assert self._process is not None
        return self._process.wait(60)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)

    def directory(self, **options: Any) -> StateDirectory:
        return StateDirectory([f"http://127.0.0.1:{self.port}"], token=lambda: TOKEN, clock_skew_ms=0, **options)


def free_port() -> int:
    """Return a port that is free now, below the range of outgoing connections."""
    return next(port for port in range(21_000 + os.getpid() % 1_000 * 5, 31_000) if is_free(port))
