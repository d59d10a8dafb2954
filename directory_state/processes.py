"""Starts the feeders and the server, and ends with the first of them that ends.

Environment:
    KAFKA_BOOTSTRAP_SERVERS, KAFKA_AUTHENTICATION, SCHEMA_REGISTRY_URL, CDC_GENERATION, CONNECT_OFFSETS_TOPIC: as those
        of the functions.
    OPENSEARCH_URL: Asked once for each store, whether the topics have masscomm's own documents.
    DIRECTORY_STATE_FOLDER: The folder of the store.
    DIRECTORY_STATE_TOKEN: The token that callers present, of at least 24 characters.
    DIRECTORY_STATE_ADDRESS: The host and port on which the server listens.
    DIRECTORY_STATE_CERTIFICATE, DIRECTORY_STATE_KEY: The files of the server's certificate and key. Without them it
        listens on a loopback address only. The certificate `self-signed` is made at each start: for a load balancer,
        which does not verify it.
    DIRECTORY_STATE_FEEDERS: The number of feeders, 1 by default.
    DIRECTORY_STATE_SNAPSHOTS: The bucket of the snapshots; without it, there are none.
"""

import ipaddress
import multiprocessing
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from aiohttp import web

from directory_state.audience_process import AudienceProcess
from directory_state.certificate import self_signed_context
from directory_state.feed import Feeder, GapError, fed_topics
from directory_state.server import Answers, Server
from directory_state.snapshots import Snapshots
from directory_state.store import Store, empty, prepare
from masscomm import environment
from masscomm.aws.authentication import kafka_client_config
from masscomm.cdc.progress import KafkaCdcProgress
from masscomm.clock import SystemClock
from masscomm.directory.bulk_writes import connect_from_environment
from masscomm.directory.own_document_index import OpenSearchOwnDocumentIndices, unfilled
from masscomm.domain.time_limits import DIRECTORY_STATE_SNAPSHOT_S
from masscomm.errors import Retry, Stop
from masscomm.kafka import topics
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.topic_ids import topic_ids
from masscomm.observability import logs

_SHORTEST_TOKEN = 24
# The certificate that the server makes itself.
_SELF_SIGNED = "self-signed"
# The status of a feeder whose store must be emptied.
_GAP = 3


def _settings() -> dict[str, Any]:
    return {
        "bootstrap.servers": environment.required("KAFKA_BOOTSTRAP_SERVERS"),
        "broker.address.family": "v4",
        **kafka_client_config(),
    }


def _folder() -> Path:
    return Path(environment.required("DIRECTORY_STATE_FOLDER"))


def _generations() -> tuple[str, ...]:
    return topics.generations(environment.required("CDC_GENERATION"))


def _feed(index: int, count: int) -> None:
    logger = logs.logger("directory_state")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    store = Store(_folder(), writes=True)
    feeder = Feeder(
        store,
        _settings(),
        generations=_generations(),
        codec=Codec(HttpSchemaRegistry.from_environment()),
        share=(index, count),
        logger=logger,
    )
    parent = os.getppid()
    try:
        feeder.run(lambda: ended.is_set() or os.getppid() != parent)
    except GapError as error:
        logger.warning("the store has a gap, and is rebuilt from the topics", error=str(error))
        sys.exit(_GAP)
    except Retry as error:
        logger.warning("the feeder ends", error=str(error))
        sys.exit(1)
    finally:
        store.close()


def _serve(feeders: int) -> None:
    token = environment.required("DIRECTORY_STATE_TOKEN")
    if len(token) < _SHORTEST_TOKEN:
        raise Stop(f"DIRECTORY_STATE_TOKEN has less than {_SHORTEST_TOKEN} characters")
    host, _, port = environment.required("DIRECTORY_STATE_ADDRESS").rpartition(":")
    tls = tls_context(host)
    web.run_app(
        Server(_answers(feeders), token=token, audiences=AudienceProcess(_folder())).application(),
        host=host,
        port=int(port),
        ssl_context=tls,
        access_log=None,
        print=None,
    )


def _answers(feeders: int) -> Answers:
    return Answers(
        store=Store(_folder(), writes=True),
        generations=_generations(),
        progress=_progress,
        filled=_is_filled,
        feeders=feeders,
        clock=SystemClock(),
        logger=logs.logger("directory_state"),
        clock_skew_ms=environment.whole_number("CDC_CLOCK_SKEW_MS", 250),
    )


def keep_snapshots(snapshots: Snapshots, answers: Answers, folder: Path, ended: Callable[[float], bool]) -> None:
    """Keep a snapshot at each interval, once the store has caught up.

    Args:
        folder: A folder for copies.
        ended: Waits for a number of seconds, and returns whether the process is to end.
    """
    while not ended(DIRECTORY_STATE_SNAPSHOT_S):
        try:
            answers.advance()
            # guard: directory_state.snapshot_of_all
            if answers.caught_up() is not None and snapshots.keep(answers.store, folder):
                answers.logger.info("a snapshot is stored")
        except Retry as error:
            answers.logger.warning("no snapshot is stored", error=str(error))


def _snapshot(bucket: str, feeders: int) -> None:
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def ended(wait_s: float) -> bool:
        until = time.monotonic() + wait_s
        while (left := until - time.monotonic()) > 0 and os.getppid() == parent and not told.is_set():
            told.wait(min(left, 1))
        return told.is_set() or os.getppid() != parent

    folder = _folder().with_name(f"{_folder().name}.copy")
    keep_snapshots(Snapshots.in_bucket(bucket), _answers(feeders), folder, ended)


def _fetch_snapshot(bucket: str) -> None:
    """Begin with the newest snapshot. If there is none, all topics are read."""
    logger = logs.logger("directory_state")
    try:
        if Snapshots.in_bucket(bucket).fetch(_folder()):
            logger.info("the store begins with a snapshot")
    except Retry as error:
        logger.warning("the store begins without a snapshot", error=str(error))


def _is_filled() -> bool:
    return not unfilled(OpenSearchOwnDocumentIndices(connect_from_environment()))


def _progress(generation: str) -> KafkaCdcProgress:
    return KafkaCdcProgress(
        environment.required("KAFKA_BOOTSTRAP_SERVERS"),
        generation=generation,
        # The store has the applied offsets; no group has any.
        group=topics.CDC_PROGRESS_GROUP,
        offsets_topic=os.environ.get("CONNECT_OFFSETS_TOPIC") or "connect.offsets",
        further_topics=(topics.DIRECTORY_DOCUMENT,),
        **kafka_client_config(),
    )


def tls_context(host: str) -> ssl.SSLContext | None:
    """Return the server's TLS context. Raises Stop if it would listen to others in plain text."""
    certificate, key = os.environ.get("DIRECTORY_STATE_CERTIFICATE"), os.environ.get("DIRECTORY_STATE_KEY")
    if certificate == _SELF_SIGNED:
        return self_signed_context("directory_state")
    if certificate and key:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        return context
    if not ipaddress.ip_address(host).is_loopback:  # guard: directory_state.plain_text
        raise Stop("without DIRECTORY_STATE_CERTIFICATE and DIRECTORY_STATE_KEY, the server listens on loopback only")
    return None


def _topic_ids() -> dict[str, str]:
    """Return Kafka's ids of the topics. Raises Retry if Kafka does not describe them."""
    admin = KafkaAdmin(_settings())
    try:
        return topic_ids(admin, fed_topics(_generations()))
    finally:
        admin.close()


def _run(*, with_snapshot: bool) -> int:
    """Run the processes until one of them ends, or this one gets a signal; return the status of the first one.

    Args:
        with_snapshot: Whether a new store begins with the snapshot.
    """
    feeders = environment.whole_number("DIRECTORY_STATE_FEEDERS", 1, lowest=1)
    bucket = os.environ.get("DIRECTORY_STATE_SNAPSHOTS")
    if bucket and with_snapshot and not _folder().exists():
        _fetch_snapshot(bucket)
    prepare(_folder(), generations=_generations(), topic_ids=_topic_ids(), now_ms=SystemClock().now_ms())
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_feed, args=(index, feeders), name=f"feeder {index}") for index in range(feeders)
    ]
    processes.append(context.Process(target=_serve, args=(feeders,), name="server"))
    if bucket:
        processes.append(context.Process(target=_snapshot, args=(bucket, feeders), name="snapshots"))
    ended, told = os.pipe()
    signal.signal(signal.SIGTERM, lambda *_: os.write(told, b"."))
    signal.signal(signal.SIGINT, lambda *_: os.write(told, b"."))
    for process in processes:
        process.start()
    first = wait([ended, *(process.sentinel for process in processes)])
    status = 0
    for process in processes:
        if process.sentinel in first:
            process.join()
            status = status or process.exitcode or 1
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()
    return status


def main() -> int:
    """Run until the processes end; return the status of this one."""
    status = _run(with_snapshot=True)
    while status == _GAP:
        empty(_folder())
        status = _run(with_snapshot=False)  # guard: directory_state.gap_of_the_snapshot
    return status
