"""The chain from a send to the provider in memory; settings, users and templates change between deliveries."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools import Logger

from functions.builder.build_messages import BuildMessages
from functions.builder.templates import TemplateCache
from functions.preference_checker.broadcast_queues import BroadcastQueues, InMemoryUseStore
from functions.preference_checker.check_preferences import CheckPreferences
from functions.preference_checker.small_sends import SmallSends
from functions.scheduler.release_due import ReleaseDue
from masscomm.chain.batch import UseCase
from masscomm.clock import Clock
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.users import Settings, Template, User
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.stores.decision_log import InMemoryDecisionLog
from masscomm.stores.delayed_records import InMemoryDelayStore
from tests.support.harness.chain import entry, send
from tests.support.harness.delivery import Delivery

USERS = range(1, 13)
CHANNELS = ("push", "email")


@dataclass(frozen=True, kw_only=True)
class AnyLane(SmallSends):
    """A tenant's budget of which nobody knows what is left: another lane each time a record is checked."""

    throw: random.Random

    def may(self, club_id: int, recipients: int, now_s: float) -> bool:
        return self.throw.random() < 0.5


class AnyQueue(BroadcastQueues):
    """Tenants come and go: another queue of these each time a record is checked."""

    def __init__(self, throw: random.Random, *queues: Lane) -> None:
        super().__init__(InMemoryUseStore())
        self.throw = throw
        self.queues = queues

    def of(self, club_id: int, clock: Clock) -> Lane:
        return self.throw.choice(self.queues)


class World(Delivery):
    """The chain's use cases, one directory and one producer for all of them."""

    def __init__(self, throw: random.Random, *, growing: bool) -> None:
        super().__init__()
        self.throw = throw
        self.growing = growing
        self.log = InMemoryDecisionLog()
        self.checker_delay_store = InMemoryDelayStore()
        self.checker = CheckPreferences(
            directory=self.directory,
            clock=self.clock,
            delay_store=self.checker_delay_store,
            decisions=self.log,
            small_sends=AnyLane(throw=throw),
            queues=AnyQueue(throw, *BROADCASTS),
        )
        self.scheduler, self.night = (
            ReleaseDue(store=store, producer=self.producer, clock=self.clock, logger=Logger())
            for store in (self.checker_delay_store, self.delay_store)
        )
        self.builder = BuildMessages(
            directory=self.directory,
            templates=TemplateCache(self.directory, self.clock),
            clock=self.clock,
            decisions=self.log,
        )
        for user_id in USERS:
            self.put_device(user_id, user_id)
            self.directory.put(User(user_id=user_id, club_id=7, first_name="Ada", email=f"{user_id}@example.com"))
            self.directory.put(Settings(user_id=user_id, quiet_hours=self.quiet_hours()))
        for number, channel in enumerate(CHANNELS):
            self.put_template(number, channel, 10)

    def put_template(self, number: int, channel: str, length: int) -> None:
        text = self.throw.choice("XYZ") * length
        self.directory.put(
            Template(
                template_id=number,
                club_id=None,
                type="news",
                channel=channel,
                locale="en",
                title=text,
                body=text + "{{ user.first_name }}",
            )
        )

    def quiet_hours(self) -> dict[str, str] | None:
        """None for most; some have begun, some begin soon."""
        start = self.throw.randrange(24)
        hours = {"start": f"{start:02}:00", "end": f"{(start + self.throw.randint(1, 23)) % 24:02}:00"}
        return hours if self.throw.random() < 0.4 else None

    def change(self) -> None:
        """Something else is so when the record comes again."""
        throw = self.throw
        for user_id in throw.sample(USERS, throw.randint(0, 6)):
            user = User(user_id=user_id, club_id=7)
            match throw.randint(0, 6):
                case 0:
                    self.directory.put(Settings(user_id=user_id, channels={throw.choice(CHANNELS): False}))
                case 1:
                    self.directory.put(Settings(user_id=user_id))
                case 2:
                    self.directory.remove(user)
                case 3:
                    self.directory.put(user)  # without an address
                case 4:
                    self.directory.put(Settings(user_id=user_id, quiet_hours=self.quiet_hours()))
                case 5:
                    self.directory.put(User(user_id=user_id, club_id=8, email="other@example.com"))
                case _:
                    self.directory.put(
                        User(user_id=user_id, club_id=7, first_name="Ada", email=f"{user_id}@example.com")
                    )
        number = throw.randrange(len(CHANNELS))
        if throw.random() < 0.2:
            key = (7, "news", CHANNELS[number])
            self.directory.remove(*self.directory.templates([key])[key])
        elif throw.random() < 0.5:
            self.put_template(
                number, CHANNELS[number], throw.randint(1, 300) if self.growing else throw.choice([10, 60])
            )
        self.clock.advance(throw.choice([0, 1, 10, 3_000]))

    def step(self, use_case: UseCase[Any], entries: Sequence[Mapping[str, Any]]) -> None:
        """Deliver records as batches, each several times, the last time to the end."""
        while entries:
            batch, entries = entries[:3], entries[3:]
            for _ in range(self.throw.randint(0, 3)):
                self.producer.fail = lambda *_: Retry("killed") if self.throw.random() < 0.5 else None
                self.run(use_case, *batch)
                self.change()
            self.producer.fail = lambda *_: None
            assert self.run(use_case, *batch) == []

    def take(self, topic: str) -> list[dict[str, Any]]:
        """What was produced to a topic in any lane; as consumers see it who read everything."""
        lanes = {topics.in_lane(topic, lane) for lane in Lane}
        found = [(name, value) for name, _, value, _ in self.producer.produced if name in lanes]
        return [entry(value, topic=name, offset=offset) for offset, (name, value) in enumerate(found)]

    def send(self, expires_at: int | None) -> None:
        """One send to everybody through the whole chain."""
        # One of few, or a chunk of a broadcast.
        chunks = self.throw.choice([1, 2])
        record = send(USERS, channels=list(CHANNELS), expires_at=expires_at, chunk_count=chunks)
        asked = self.encoded(record, topics.SEND_MONOLITH)
        self.step(self.checker, [asked])
        # A long chunk in parts, or a broadcast's as it is.
        known = self.take(topics.RECHECK)
        self.step(self.checker, known)
        while self.checker_delay_store.items:
            due_ms = min(item.due_ms for item in self.checker_delay_store.items.values())
            self.clock.advance(max(0, due_ms - self.clock.now_ms()) / 1000)
            assert self.scheduler.sweep(lambda: 60).released
            released = self.take(topics.RECHECK)[len(known) :]
            known += released
            # What was decided about long ago comes again, too: somebody did not commit.
            self.step(self.checker, self.throw.choice([[], [asked]]))
            late = self.throw.sample(known, self.throw.randint(0, min(2, len(known))))
            self.step(self.checker, released + late)
            known += self.take(topics.RECHECK)[len(known) :]
        self.step(self.builder, self.take(topics.BUILD))
        built = known = self.take(topics.DELIVERY)
        self.step(self.use_case, built)
        # Some are asleep by now; their part, and the record it is of, may come again then.
        while self.delay_store.items:
            due_ms = min(item.due_ms for item in self.delay_store.items.values())
            self.clock.advance(max(0, due_ms - self.clock.now_ms()) / 1000)
            assert self.night.sweep(lambda: 60).released
            released = self.take(topics.DELIVERY)[len(known) :]
            known = known + released
            self.step(self.use_case, released + self.throw.sample(known, self.throw.randint(0, min(2, len(known)))))
            known = known + self.take(topics.DELIVERY)[len(known) :]
