"""Runs the chain for measurements: functions, Kafka, registry, directory, DynamoDB, provider stand-in.

The monolith, change data capture and Spark are omitted: users are indexed in the form that cdc_consumer writes.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import batched
from json import dumps, loads
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # not in its __all__

from cli.client_log import KAFKA_LOGGER
from examples.monolith.emit import Emitter
from local.devstack.config import GENERATION, StackConfig
from local.devstack.provision import provisioning
from local.devstack.service import Service, Task, function_environment
from local.devstack.services import all_services
from local.devstack.sns_process import SnsStandIn
from local.devstack.stack import Stack
from local.emulators.sns_stand_in import endpoint_arn
from masscomm.cdc.captured_tables import captured_tables
from masscomm.directory.bulk_writes import VersionedDocument, connect, write
from masscomm.domain.ids import notification_id
from masscomm.kafka.offsets import topic_offsets

TEXT = {"title": "Goal", "body": "We lead by one."}
_SETTLE_S = 3.0
_START_S = 240.0
# A broadcast has begun when the provider has accepted this number of its notifications.
_BEGUN = 1_000
# These services are omitted, because no user settings change and no metrics are counted.
_UNUSED = ("connect", "spark")
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class RunningChain:
    """A running stack with the SNS stand-in and an emitter of sends."""

    stack: Stack
    sns: SnsStandIn
    emitter: Emitter
    # Returns the specification of a Lambda host whose functions have these additional environment variables.
    host: Callable[[Mapping[str, str]], Service]

    def reconfigure(self, environment: Mapping[str, str]) -> None:
        """Restart the Lambda host, with these environment variables of all functions in addition to the usual ones."""
        self.stack.known["lambda_host"] = self.host(environment)
        self.stack.restart("lambda_host")
        time.sleep(_SETTLE_S)

    def people(self, club_id: int, user_ids: Iterable[int]) -> None:
        """Add users of a club to the directory, each with a device and no opt-outs."""
        index_users(self.stack.config, dict.fromkeys(user_ids, club_id))

    def send(
        self,
        club_id: int,
        user_ids: Sequence[int],
        *,
        type: str = "news",
        critical: bool = False,
        channel: str = "push",
    ) -> str:
        return self.emitter.send(type, club_id, user_ids, critical=critical, channels=[channel], data=TEXT)

    def taken(self) -> dict[str, float]:
        """Return the time at which SNS accepted each notification, by id, in seconds since the epoch."""
        return {each.notification_id: each.time for each in self.sns.received()}

    def await_taken(self, send_id: str, user_ids: Sequence[int], timeout_s: float) -> float:
        """Return the time at which SNS accepted the send's last notification. Raises SystemExit after the time-out."""
        wanted = {notification_id(send_id, user_id, "push") for user_id in user_ids}
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            taken = self.taken()
            if wanted <= taken.keys():
                return max(taken[each] for each in wanted)
            time.sleep(0.2)
        raise SystemExit(f"{len(wanted - self.taken().keys())} of {len(wanted)} were not sent in {timeout_s:.0f} s")

    def seconds(self, club_id: int, user_ids: Sequence[int], timeout_s: float) -> float:
        """Return the seconds from a send to these users until SNS accepted its last notification."""
        began = time.time()
        return self.await_taken(self.send(club_id, user_ids), user_ids, timeout_s) - began

    def broadcast(self, club_id: int, user_ids: Sequence[int]) -> "Broadcast":
        """Send to these users, and wait until SNS has accepted the first thousand notifications."""
        send_id = self.send(club_id, user_ids)
        wanted = frozenset(notification_id(send_id, user_id, "push") for user_id in user_ids)
        broadcast = Broadcast(self, send_id, wanted)
        while len(broadcast.taken()) < _BEGUN:
            time.sleep(0.1)
        return broadcast


@dataclass(frozen=True)
class Broadcast:
    """A broadcast on a running chain."""

    chain: RunningChain
    send_id: str
    # The ids of its notifications.
    wanted: frozenset[str]

    def taken(self) -> list[float]:
        """Return the time at which SNS accepted each notification so far, in seconds since the epoch."""
        return [at for each, at in self.chain.taken().items() if each in self.wanted]


@contextmanager
def running_chain(environment: Mapping[str, str] | None = None, *, bulk_nice: int = 0) -> Iterator[RunningChain]:
    """Start the chain for the duration of the block.

    Args:
        environment: Additional environment variables of all functions.
        bulk_nice: The niceness of the bulk functions' processes.
    """
    with (
        tempfile.TemporaryDirectory(prefix="masscomm-bench-") as folder,
        SnsStandIn.start(any_endpoint=True) as sns,
    ):
        more = {
            "AWS_ENDPOINT_URL_SNS": sns.url,
            "AWS_ENDPOINT_URL_SESV2": sns.url,
            "LOG_LEVEL": "ERROR",
            "POWERTOOLS_LOG_LEVEL": "ERROR",
        }
        more |= environment or {}

        def services(config: StackConfig) -> dict[str, Service]:
            return {name: _changed(service, more, bulk_nice) for name, service in all_services(config).items()}

        config = StackConfig.on_free_ports(Path(folder))
        with ExitStack() as resources:
            stack = resources.enter_context(Stack(config, without=_UNUSED, catalogue=services, tasks=_tasks))
            serve_directory(config)
            emitter = resources.enter_context(Emitter(config.kafka_bootstrap, config.registry_url, logger=KAFKA_LOGGER))
            time.sleep(_SETTLE_S)  # The consumer groups have just been joined and need some seconds to settle.

            def host(changes: Mapping[str, str]) -> Service:
                return _changed(all_services(config)["lambda_host"], {**more, **changes}, bulk_nice)

            yield RunningChain(stack, sns, emitter, host)


def _tasks(config: StackConfig) -> list[Task]:
    return [task for task in provisioning(config) if not {task.name, *task.depends_on} & {"connect", "monolith"}]


def _changed(service: Service, more: Mapping[str, str], bulk_nice: int) -> Service:
    if service.name != "lambda_host":
        return service
    files = {}
    for path, text in service.files.items():
        content = loads(text)
        files[path] = dumps(content | {"environment": content["environment"] | more, "bulk_nice": bulk_nice})
    return replace(service, files=files, start_timeout_s=_START_S)


def serve_directory(config: StackConfig) -> None:
    """Let look-ups use the indices of the snapshot generation, which no snapshot completes here."""
    actions: list[dict[str, Any]] = [
        {"add": {"index": f"{table}-{GENERATION}", "alias": table}} for table in captured_tables()
    ]
    connect(config.opensearch_url).indices.update_aliases(body={"actions": actions})


def index_users(config: StackConfig, clubs: Mapping[int, int]) -> None:
    """Add users to the directory, each with a device and no opt-outs. Raises SystemExit.

    Args:
        clubs: The club of each user.
    """
    client = connect(config.opensearch_url)
    application = function_environment(config)["PLATFORM_APPLICATION_ARN_GCM"]
    for some in batched(clubs.items(), 5_000, strict=False):
        documents = [each for user_id, club_id in some for each in _documents(club_id, user_id, application)]
        failed = [fate for fate in write(client, documents) if fate is not None]
        if failed:
            raise SystemExit(f"the directory did not accept every user: {failed[0]}")
    client.indices.refresh()


def topic_ends(bootstrap: str, wanted: Callable[[str], bool]) -> Counter[str]:
    """Return the sum of the end offsets of each topic whose name is wanted."""
    with AdminClient({"bootstrap.servers": bootstrap}, logger=KAFKA_LOGGER) as admin:
        places = [
            TopicPartition(name, number)
            for name, topic in admin.list_topics(timeout=_TIMEOUT_S).topics.items()
            if wanted(name)
            for number in topic.partitions
        ]
        ends: Counter[str] = Counter()
        for (name, _), offset in topic_offsets(admin, places, _LATEST, timeout_s=_TIMEOUT_S).items():
            ends[name] += offset
        return ends


def _documents(club_id: int, user_id: int, application: str) -> Iterator[VersionedDocument]:
    """Yield the documents of a user with a device and no opt-outs, in the format of cdc_consumer and
    device_registrar.
    """

    def row(table: str, source: dict[str, Any]) -> VersionedDocument:
        return VersionedDocument(index=f"{table}-{GENERATION}", id=str(user_id), version=1, source=source)

    token = f"token-{user_id}"
    address = f"user{user_id}@example.com"
    yield row("users", {"id": user_id, "club_id": club_id, "first_name": "Ada", "locale": "en", "email": address})
    yield row("user_settings", {"user_id": user_id, "club_id": club_id, "channels": {}, "categories": {}})
    yield row("devices", {"id": user_id, "user_id": user_id, "platform": "gcm", "token": token, "active": True})
    state = {
        "token": token,
        "endpoint_arn": endpoint_arn(application, token),
        "enabled": True,
        "reason": None,
        "updated_at": 1,
        "generation": GENERATION,
    }
    yield VersionedDocument(index="device_state", id=str(user_id), version=1, source=state)
