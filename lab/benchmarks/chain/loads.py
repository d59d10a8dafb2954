"""The loads: each one sends to the running chain and returns its sends with the times at which they were emitted."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import httpx
from confluent_kafka import Producer

from cli.client_log import KAFKA_LOGGER
from lab.benchmarks.running_chain import TEXT, RunningChain
from local.devstack.config import StackConfig
from masscomm.domain.ids import notification_id
from masscomm.domain.records import SendRequested
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, HttpSchemaRegistry

BROADCASTER = 1
FIRST_TENANT = 101
FIRST_USER_OF_TENANTS = 2 * 10**7
_REST_CONNECTIONS = 8
_POLL_S = 0.005
_PAUSE_S = 0.1
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Sent:
    """A send and the time, in seconds since the epoch, at which it was emitted."""

    send_id: str
    users: Sequence[int]
    at: float
    channel: str = "push"

    def notifications(self) -> list[str]:
        """Return the ids of the notifications of the send."""
        return [notification_id(self.send_id, user_id, self.channel) for user_id in self.users]


type Load = Callable[[RunningChain], list[Sent]]


def broadcast(recipients: int, channel: str = "push") -> Load:
    """Return a load: one send to this many users of one tenant."""

    def emit(chain: RunningChain) -> list[Sent]:
        users = range(1, recipients + 1)
        at = time.time()
        return [Sent(chain.send(BROADCASTER, users, channel=channel), users, at, channel)]

    return emit


def small_sends(count: int, tenants: int) -> Load:
    """Return a load: sends with one recipient each, all produced at once to the monolith's topic."""

    def emit(chain: RunningChain) -> list[Sent]:
        config = chain.stack.config
        codec = Codec(HttpSchemaRegistry(config.registry_url))
        sent = []

        def values() -> Iterator[bytes]:
            for number in range(count):
                now = time.time()
                user_id, club_id = tenants_user(number, tenants)
                request = SendRequested(
                    type="news",
                    club_id=club_id,
                    timestamp=int(now * 1000),
                    to_users=[user_id],
                    send_id=str(uuid4()),
                    channels=["push"],
                    data=TEXT,
                )
                sent.append(Sent(request.send_id or "", [user_id], now))
                yield codec.encode(topics.SEND_MONOLITH, "SendRequested", request.to_avro())

        produce(chain, topics.SEND_MONOLITH, values())
        return sent

    return emit


def rest_sends(count: int, tenants: int) -> Load:
    """Return a load: sends with one recipient each over REST, on a few persistent connections."""

    async def post(client: httpx.AsyncClient, numbers: Sequence[int]) -> list[Sent]:
        sent = []
        for number in numbers:
            user_id, club_id = tenants_user(number, tenants)
            body = {"type": "news", "club_id": club_id, "to_users": [user_id], "channels": ["push"], "data": TEXT}
            at = time.time()
            answer = await client.post("/v1/sends", json=body)
            sent.append(Sent(answer.raise_for_status().json()["send_id"], [user_id], at))
        return sent

    async def post_all(config: StackConfig) -> list[Sent]:
        headers = {"x-api-key": config.api_key}
        async with httpx.AsyncClient(
            base_url=config.gateway_url, timeout=_TIMEOUT_S, trust_env=False, headers=headers
        ) as client:
            parts = [range(first, count, _REST_CONNECTIONS) for first in range(_REST_CONNECTIONS)]
            found = await asyncio.gather(*(post(client, part) for part in parts))
        return [each for part in found for each in part]

    return lambda chain: asyncio.run(post_all(chain.stack.config))


def in_turn(count: int, recipients: int, *, critical: bool = False) -> Load:
    """Return a load: sends to a few users, each after the provider has accepted the previous one."""

    def emit(chain: RunningChain) -> list[Sent]:
        sent = []
        for _ in range(count):
            users = range(1, recipients + 1)
            before = chain.sns.counts().accepted
            at = time.time()
            kind = "one_time_password" if critical else "news"
            sent.append(Sent(chain.send(BROADCASTER, users, type=kind, critical=critical), users, at))
            until = time.monotonic() + _TIMEOUT_S
            while chain.sns.counts().accepted < before + recipients:
                if time.monotonic() > until:
                    raise SystemExit("a push never arrived")
                time.sleep(_POLL_S)
            time.sleep(_PAUSE_S)
        return sent

    return emit


def produce(chain: RunningChain, topic: str, values: Iterable[bytes]) -> None:
    """Produce records without keys. Raises SystemExit if Kafka does not acknowledge them."""
    options = {"bootstrap.servers": chain.stack.config.kafka_bootstrap, "linger.ms": 5, "compression.type": "lz4"}
    with Producer(options, logger=KAFKA_LOGGER) as producer:
        for value in values:
            producer.produce(topic, value)
            producer.poll(0)
        if producer.flush(_TIMEOUT_S):
            raise SystemExit("Kafka did not acknowledge all records")


def tenants_user(number: int, tenants: int) -> tuple[int, int]:
    """Return the id of a tenants' user, and of its tenant."""
    return FIRST_USER_OF_TENANTS + number, FIRST_TENANT + number % tenants
