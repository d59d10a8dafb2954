"""No broadcast delays another tenant's small send or broadcast, and each recipient gets the message.

The chain in memory behind event source mappings as they are deployed: the tests compare positions in the provider's
log.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from functions.builder.build_messages import BuildMessages
from functions.preference_checker.check_preferences import CheckPreferences
from functions.preference_checker.output_lanes import OutputLanes
from functions.preference_checker.small_sends import SmallSends
from local.emulators.event_source import EventSourceMapping
from local.emulators.event_source.memory import MemoryBroker, MemoryDestination, MemorySource
from local.emulators.function_catalogue import read_deployments
from masscomm.chain.batch import BatchDriver, UseCase
from masscomm.domain.lanes import Lane
from masscomm.domain.users import Template, User, UserSettings
from masscomm.kafka import topics
from masscomm.kafka.outcome_progress import InMemoryOutcomeProgress
from masscomm.kafka.producer import Headers, Report
from masscomm.rendering.templates import TemplateCache
from masscomm.stores.decision_log.in_memory import InMemoryDecisionLog
from masscomm.stores.digests.in_memory import InMemoryDigests
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.chain import Context, send
from tests.support.harness.delivery import Delivery
from tests.support.harness.event_source import ENVELOPE, FunctionResponse, until

LOUD, QUIET = 1, 5  # clubs whose ids hash to the same queue
ROOT = Path(__file__).parents[2]


class DeliveryToTenants(Delivery):
    """The chain with a directory of two clubs, in which every user has a device and allows everything."""

    def __init__(self, *, burst: float = 1_000) -> None:
        super().__init__()
        self.broker = MemoryBroker(max_message_bytes=2_097_152)
        for topic in topics.chain_topics():
            self.broker.create_topic(topic.name, topic.partitions)
        log = InMemoryDecisionLog()
        self.directory.put(
            Template(template_id=1, club_id=None, type="news", channel="push", locale="en", title="News", body="b")
        )
        self.functions: dict[str, UseCase[Any]] = {
            "preference_checker": CheckPreferences(
                outcome_progress=InMemoryOutcomeProgress(),
                directory=self.directory,
                clock=self.clock,
                delay_store=self.delay_store,
                decision_log=log,
                frequency_caps=InMemoryFrequencyCaps(),
                digests=InMemoryDigests(),
                sends=InMemorySends(),
                lanes=OutputLanes(small_sends=SmallSends(burst=burst)),
            ),
            "builder": BuildMessages(
                directory=self.directory,
                templates=TemplateCache(self.directory, self.clock),
                clock=self.clock,
                decision_log=log,
                sends=InMemorySends(),
            ),
            "delivery": self.use_case,
        }
        self.driver = BatchDriver(function="under_test", codec=self.codec, producer=self)
        self.running: list[EventSourceMapping] = []
        # All produced records as (topic, value), in order.
        self.log: list[tuple[str, bytes]] = []

    # --- the producer's interface ---

    def produce(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, report: Report) -> None:
        partitions = sum(each.topic == topic for each in self.broker.logs)
        self.broker.produce(topic, value, partition=crc32(key or b"") % partitions, key=key, headers=headers)
        self.log.append((topic, value or b""))
        report(None)

    def flush(self, timeout_s: float) -> None:
        """Return at once, because produce() has already appended the record."""

    # --- commands of a test ---

    def people(self, club_id: int, user_ids: Iterable[int]) -> list[int]:
        users = list(user_ids)
        for user_id in users:
            self.directory.put(User(user_id=user_id, club_id=club_id, first_name="Ada"), UserSettings(user_id=user_id))
            self.put_device(user_id, user_id)
        return users

    def ask(self, club_id: int, users: list[int], send_id: str, *, chunk: int = 2_500, number: int = 0) -> None:
        chunks = [users[start : start + chunk] for start in range(0, len(users), chunk)]
        for index, part in enumerate(chunks):
            record = send(part, club_id=club_id, send_id=send_id, chunk_index=index, chunk_count=len(chunks))
            value = self.codec.encode(topics.SEND_MONOLITH, "SendRequested", record.to_avro())
            timestamp = self.clock.now_ms()
            self.broker.produce(topics.SEND_MONOLITH, value, partition=(number + index) % 4, timestamp_ms=timestamp)

    async def start(self, *names: str, **changes: Any) -> None:
        """Start the mappings of these functions as functions.yaml configures them, with these changes."""
        for deployment in read_deployments(
            ROOT / "functions/functions.yaml",
            task_root=ROOT,
            generation="g1",
            environment={},
            mapping_overrides=changes,
        ):
            spec = deployment.mapping
            if spec is None or spec.name not in names:
                continue
            use_case = self.functions[spec.name]

            async def invoke(payload: bytes, use_case: UseCase[Any] = use_case) -> FunctionResponse:
                await asyncio.sleep(0)
                answer = self.driver.run(json.loads(payload), Context(self.clock), use_case)
                return FunctionResponse(json.dumps(answer).encode())

            mapping = EventSourceMapping(
                spec=spec,
                source=MemorySource(self.broker, group=spec.group, topics=spec.topics),
                destination=MemoryDestination(self.broker),
                envelope=ENVELOPE,
                invoke=invoke,
                wall_clock=lambda: self.clock.now_ms() / 1000,
            )
            self.running.append(mapping)
            await mapping.start()

    def recipients(self, topic: str) -> int:
        """The number of recipients in all records of a topic."""
        return sum(
            len(self.codec.decode("DeliveryRequested", record.value)["positions"])
            for place, log in self.broker.logs.items()
            if place.topic == topic
            for record in log
        )

    def of(self, kind: str, name: str, send_id: str) -> int:
        """The number of a send's recipients in a topic, in all lanes."""
        names = {topics.in_lane(name, lane) for lane in Lane}
        records = [
            self.codec.decode(kind, record.value)
            for place, log in self.broker.logs.items()
            if place.topic in names
            for record in log
        ]
        return sum(len(record["positions"]) for record in records if record["send_id"] == send_id)

    def places(self, users: Iterable[int]) -> list[int]:
        """The positions of these users' pushes in the provider's log."""
        wanted = {f"arn-{user_id}" for user_id in users}
        found = [place for place, push in enumerate(self.push.published) if push.endpoint_arn in wanted]
        assert len(found) == len(wanted), "each user once"
        return found


@pytest.fixture
async def chain() -> AsyncIterator[DeliveryToTenants]:
    made = DeliveryToTenants()
    yield made
    for mapping in made.running:
        await mapping.stop()


async def queued(chain: DeliveryToTenants, topic: str, count: int) -> None:
    """Wait until a topic has this many recipients."""
    await until(lambda: chain.recipients(topic) >= count)
    assert chain.recipients(topic) == count


@pytest.mark.guarantee("tenants.small_send_passes_broadcasts")
async def test_small_send_is_delivered_during_other_tenants_broadcast(chain: DeliveryToTenants) -> None:
    many, few = chain.people(LOUD, range(1, 20_001)), chain.people(QUIET, range(30_001, 30_051))
    await chain.start("preference_checker", "builder")
    chain.ask(LOUD, many, "loud")
    await queued(chain, topics.DELIVERY, len(many))
    chain.ask(QUIET, few, "quiet")
    await queued(chain, "delivery.small", len(few))
    await chain.start("delivery")
    await until(lambda: len(chain.push.published) == len(many) + len(few))
    assert max(chain.places(few)) < 0.25 * len(many)
    assert len(chain.places(many)) == len(many)


@pytest.mark.guarantee("tenants.many_small_sends_are_a_broadcast")
async def test_many_single_sends_delay_others_like_a_broadcast() -> None:
    chain = DeliveryToTenants(burst=100)
    many, few = chain.people(LOUD, range(1, 1_001)), chain.people(QUIET, range(30_001, 30_051))
    await chain.start("preference_checker", "builder")
    for number, user_id in enumerate(many):
        chain.ask(LOUD, [user_id], f"loud-{number}", number=number)
    await queued(chain, topics.DELIVERY, len(many) - 100)
    chain.ask(QUIET, few, "quiet")
    await queued(chain, "delivery.small", 100 + len(few))
    await chain.start("delivery")
    await until(lambda: len(chain.push.published) == len(many) + len(few))
    assert max(chain.places(few)) < 0.5 * len(many)
    assert len(chain.places(many)) == len(many)
    for mapping in chain.running:
        await mapping.stop()


BATCH = 1_000  # the recipients of a batch of two records


@pytest.mark.guarantee("tenants.broadcasts_advance_equally")
@pytest.mark.parametrize(
    ("before", "kind", "topic"),
    [
        (["preference_checker", "builder"], "DeliveryRequested", topics.DELIVERY),
        (["preference_checker"], "BuildRequested", topics.BUILD),
    ],
    ids=["delivery", "builder"],
)
async def test_smaller_broadcast_advances_equally_with_a_larger_one(
    chain: DeliveryToTenants, before: list[str], kind: str, topic: str
) -> None:
    """Both broadcasts are queued, the large one first; then both advance equally until the small one ends."""
    large, small = chain.people(LOUD, range(1, 9_001)), chain.people(QUIET, range(30_001, 32_001))
    await chain.start(*before, batch_size=2)
    for club_id, users, name in ((LOUD, large, "large"), (QUIET, small, "small")):
        chain.ask(club_id, users, name, chunk=BATCH)
        await until(lambda users=users, name=name: chain.of(kind, topic, name) == len(users))  # type: ignore[misc]
    await chain.start(*{"builder", "delivery"}.difference(before), batch_size=2)
    await until(lambda: len(chain.push.published) == len(large) + len(small))
    last = max(chain.places(small))
    meanwhile = sum(place < last for place in chain.places(large))
    in_flight = 2 * BATCH  # each of two functions may have one batch in flight
    assert meanwhile <= len(small) + in_flight < len(large) / 2


async def test_concurrent_broadcasts_share_evenly_and_delay_no_small(chain: DeliveryToTenants) -> None:
    """With more broadcasts than queues, tenants with a queue of their own advance equally."""
    clubs = range(1, 6)
    people = {club_id: chain.people(club_id, range(club_id * 10_000, club_id * 10_000 + 2_000)) for club_id in clubs}
    few = chain.people(9, range(90_000, 90_050))
    await chain.start("preference_checker", "builder", batch_size=2)
    for club_id, users in people.items():
        chain.ask(club_id, users, f"send-{club_id}", chunk=BATCH)
    await until(lambda: sum(chain.of("DeliveryRequested", topics.DELIVERY, f"send-{c}") for c in clubs) == 10_000)
    chain.ask(9, few, "few")
    await queued(chain, "delivery.small", len(few))
    await chain.start("delivery", batch_size=2)
    await until(lambda: len(chain.push.published) == 10_000 + len(few))
    assert max(chain.places(few)) < 2 * BATCH
    ends = {club_id: max(chain.places(users)) for club_id, users in people.items()}
    # Two of the five tenants share a queue; the broadcasts of the others end within one round of each other.
    alone = sorted(ends.values())[:3]
    assert alone[2] - alone[0] <= 4 * BATCH
    assert max(alone) < 9_000 < max(ends.values())


@pytest.mark.guarantee("tenants.broadcasts_are_checked_apart")
async def test_broadcast_is_checked_during_other_tenants_larger_one(chain: DeliveryToTenants) -> None:
    """A chunk of 30,000 recipients precedes three sends to 1,000 on the same partition, and a batch has one record."""
    large, small = chain.people(LOUD, range(1, 30_001)), chain.people(QUIET, range(40_001, 43_001))
    chain.ask(LOUD, large, "large", chunk=len(large))
    for number in range(3):
        chain.ask(QUIET, small[number * BATCH : (number + 1) * BATCH], f"small-{number}", chunk=BATCH)
    await chain.start("preference_checker", batch_size=1)
    await until(lambda: chain.of("BuildRequested", topics.BUILD, "large") == len(large))
    built = [
        record["send_id"].partition("-")[0]
        for topic, value in chain.log
        if topics.base_of(topic) == topics.BUILD
        for record in [chain.codec.decode("BuildRequested", value)]
        for _ in record["positions"]
    ]
    assert built.count("small") == len(small)
    last = len(built) - built[::-1].index("small")
    assert built[:last].count("large") <= 20_000
