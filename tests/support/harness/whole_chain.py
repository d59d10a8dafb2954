"""All functions from a send to the provider, in memory. Settings, users and templates change between redeliveries."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from aws_lambda_powertools import Logger

from functions.builder.build_messages import BuildMessages
from functions.preference_checker import look_up
from functions.preference_checker.broadcast_queues import BroadcastQueues, InMemoryQueueLeaseStore
from functions.preference_checker.check_preferences import CheckPreferences
from functions.preference_checker.output_lanes import OutputLanes
from functions.preference_checker.small_sends import SmallSends
from functions.scheduler.release_due_records import ReleaseDueRecords
from masscomm.chain.batch import UseCase
from masscomm.clock import Clock
from masscomm.decisions import messages, parts, plan
from masscomm.domain import channels
from masscomm.domain.delays import PAUSED
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.records import SendRequested
from masscomm.domain.sends import Send, SendKey, controlled
from masscomm.domain.users import Template, User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.outcome_progress import InMemoryOutcomeProgress
from masscomm.rendering.templates import TemplateCache
from masscomm.stores.decision_log.in_memory import InMemoryDecisionLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delayed_records.port import ControlledSend
from masscomm.stores.digests.in_memory import InMemoryDigests
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.sends.port import change
from tests.support.harness.chain import SEND_ID, entry, send
from tests.support.harness.delivery import Delivery

USERS = range(1, 13)
CHANNELS = tuple(channels.CHANNELS)


@dataclass(frozen=True, kw_only=True)
class RandomLane(SmallSends):
    """Chooses a random lane at each check of a record, as if the tenant's budget of small sends were unknown."""

    rng: random.Random

    def admit(self, club_id: int, recipients: int, now_s: float) -> bool:
        return self.rng.random() < 0.5


class RandomQueue(BroadcastQueues):
    """Chooses a random queue at each check of a record, as if the leases of other tenants changed."""

    def __init__(self, rng: random.Random, *queues: Lane) -> None:
        super().__init__(InMemoryQueueLeaseStore())
        self.rng = rng
        self.queues = queues

    def of(self, club_id: int, clock: Clock) -> Lane:
        return self.rng.choice(self.queues)


class ThreeSteps(Delivery):
    """The use cases of preference_checker, builder and delivery, over one directory and one producer."""

    def __init__(self) -> None:
        super().__init__()
        self.log = InMemoryDecisionLog()
        self.frequency_caps = InMemoryFrequencyCaps()
        self.digests = InMemoryDigests()
        self.outcome_progress = InMemoryOutcomeProgress()
        self.checker = CheckPreferences(
            directory=self.directory,
            clock=self.clock,
            delay_store=self.delay_store,
            decision_log=self.log,
            frequency_caps=self.frequency_caps,
            digests=self.digests,
            outcome_progress=self.outcome_progress,
            sends=self.register,
        )
        self.builder = BuildMessages(
            directory=self.directory,
            templates=TemplateCache(self.directory, self.clock),
            clock=self.clock,
            decision_log=self.log,
            sends=self.register,
        )

    def drive(self, record: SendRequested, topic: str) -> list[int]:
        """Process a send with all three functions; return the offsets to be redelivered."""
        redelivered = self.run(self.checker, self.encoded(record, topic))
        redelivered += self.run(self.checker, *self.entries(topics.RECHECK))
        redelivered += self.run(self.builder, *self.entries(topics.BUILD))
        return redelivered + self.run(self.use_case, *self.entries(topics.DELIVERY))

    def entries(self, topic: str) -> list[dict[str, Any]]:
        return [entry(value, topic=topic, offset=offset) for offset, value in enumerate(self.values(topic))]


class WholeChain(ThreeSteps):
    """The three functions with random lanes, and the scheduler."""

    def __init__(self, rng: random.Random, *, growing: bool, cancelling: bool = False, pausing: bool = False) -> None:
        """Create the functions.

        Args:
            rng: Chooses all faults and changes.
            growing: Whether texts may grow between deliveries.
            cancelling: Whether the send is cancelled at a random moment.
            pausing: Whether the send is paused and resumed at random moments.
        """
        super().__init__()
        self.rng = rng
        self.growing = growing
        self.cancelling = cancelling
        self.pausing = pausing
        # the number of messages that were published before the present pause
        self.published_before_pause: int | None = None
        # set when the send is cancelled: the messages that were published before
        self.published_before: int | None = None
        self.checker_delay_store = InMemoryDelayStore()
        self.checker = replace(
            self.checker,
            delay_store=self.checker_delay_store,
            lanes=OutputLanes(small_sends=RandomLane(rng=rng), queues=RandomQueue(rng, *BROADCASTS)),
        )
        self.scheduler, self.delivery_scheduler = (
            ReleaseDueRecords(
                store=store, sends=self.register, producer=self.producer, clock=self.clock, logger=Logger()
            )
            for store in (self.checker_delay_store, self.delay_store)
        )
        for user_id in USERS:
            self.put_device(user_id, user_id)
            self.directory.put(User(user_id=user_id, club_id=7, first_name="Ada", email=f"{user_id}@example.com"))
            self.directory.put(UserSettings(user_id=user_id, quiet_hours=self.quiet_hours()))
        for number, channel in enumerate(CHANNELS):
            self.put_template(number, channel, 10)

    def put_template(self, number: int, channel: str, length: int) -> None:
        text = self.rng.choice("XYZ") * length
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
        """Return no quiet hours for most users, and for others quiet hours that have begun or begin soon."""
        start = self.rng.randrange(24)
        hours = {"start": f"{start:02}:00", "end": f"{(start + self.rng.randint(1, 23)) % 24:02}:00"}
        return hours if self.rng.random() < 0.4 else None

    def cancel(self) -> None:
        self.published_before = self.published
        self._change(cancelled_at_ms=self.clock.now_ms())

    def pause(self) -> None:
        self.published_before_pause = self.published
        self._change(paused_at_ms=self.clock.now_ms())

    def resume(self) -> None:
        assert self.published == self.published_before_pause, "published during a pause"
        self.published_before_pause = None
        self._change(paused_at_ms=None, resumed_at_ms=self.clock.now_ms())

    def _change(self, **control: int | None) -> None:
        change(self.register, Send(key=SendKey(7, SEND_ID)), lambda send: controlled(send, **control))
        for store in (self.checker_delay_store, self.delay_store):
            store.put_controlled(ControlledSend(SendKey(7, SEND_ID), self.clock.now_ms()))

    @property
    def published(self) -> int:
        """The number of messages that the providers have accepted."""
        return len(self.push.published) + len(self.email.sent)

    def change_directory(self) -> None:
        """Change users, settings, templates and the clock before a redelivery."""
        rng = self.rng
        for user_id in rng.sample(USERS, rng.randint(0, 6)):
            user = User(user_id=user_id, club_id=7)
            match rng.randint(0, 6):
                case 0:
                    self.directory.put(UserSettings(user_id=user_id, channels={rng.choice(CHANNELS): False}))
                case 1:
                    self.directory.put(UserSettings(user_id=user_id))
                case 2:
                    self.directory.remove(user)
                case 3:
                    self.directory.put(user)
                case 4:
                    self.directory.put(UserSettings(user_id=user_id, quiet_hours=self.quiet_hours()))
                case 5:
                    self.directory.put(User(user_id=user_id, club_id=8, email="other@example.com"))
                case _:
                    self.directory.put(
                        User(user_id=user_id, club_id=7, first_name="Ada", email=f"{user_id}@example.com")
                    )
        number = rng.randrange(len(CHANNELS))
        if rng.random() < 0.2:
            key = (7, "news", CHANNELS[number])
            self.directory.remove(*self.directory.templates([key])[key])
        elif rng.random() < 0.5:
            self.put_template(number, CHANNELS[number], rng.randint(1, 300) if self.growing else rng.choice([10, 60]))
        self.clock.advance(rng.choice([0, 1, 10, 3_000]))
        if self.pausing and rng.random() < 0.2:
            if self.published_before_pause is None:
                self.pause()
            else:
                self.resume()
        if self.cancelling and self.published_before is None and rng.random() < 0.1:
            self.cancel()

    def _await_due(self, store: InMemoryDelayStore) -> None:
        """Resume the send and advance the clock to the next release, which may be at once."""
        if self.published_before_pause is not None:
            self.resume()
        now_ms = self.clock.now_ms()
        due_ms = min(now_ms if item.delay_reason == PAUSED else item.due_ms for item in store.items.values())
        self.clock.advance(max(0, due_ms - now_ms) / 1000)

    def step(self, use_case: UseCase[Any], entries: Sequence[Mapping[str, Any]]) -> None:
        """Invoke a use case with batches of records. Each invocation is interrupted several times, then completed."""
        while entries:
            batch, entries = entries[:3], entries[3:]
            for _ in range(self.rng.randint(0, 3)):
                self.producer.fail = lambda *_: Retry("killed") if self.rng.random() < 0.5 else None
                self.frequency_caps.failing = Retry("no answer") if self.rng.random() < 0.1 else None
                self.digests.failing = Retry("no answer") if self.rng.random() < 0.1 else None
                self.run(use_case, *batch)
                self.change_directory()
            self.producer.fail = lambda *_: None
            self.frequency_caps.failing = None
            self.digests.failing = None
            assert self.run(use_case, *batch) == []

    def consume(self, topic: str) -> list[dict[str, Any]]:
        """Return the event entries of all records that were produced to a topic, in any lane."""
        lanes = {topics.in_lane(topic, lane) for lane in Lane}
        found = [(name, value) for name, _, value, _ in self.producer.produced if name in lanes]
        now_ms = self.clock.now_ms()
        return [entry(value, topic=name, offset=n, timestamp=now_ms) for n, (name, value) in enumerate(found)]

    def send(self, expires_at: int | None, send_at: int | None = None) -> None:
        """Pass one send to all users, and the messages of its digests, through the whole chain."""
        # One chunk is a small send; of two chunks each belongs to a broadcast.
        chunks = self.rng.choice([1, 2])
        record = send(USERS, channels=list(CHANNELS), expires_at=expires_at, send_at=send_at, chunk_count=chunks)
        asked = self.encoded(record, topics.SEND_MONOLITH)
        self.step(self.checker, [asked])
        # The checker forwards the parts of a long chunk, or a broadcast's chunk unchanged, as rechecks.
        known, of_digests = self.consume(topics.RECHECK), 0
        self.step(self.checker, known)
        while self.checker_delay_store.items:
            self._await_due(self.checker_delay_store)
            assert self.scheduler.sweep(lambda: 60).released
            released = self.consume(topics.RECHECK)[len(known) :]
            known += released
            # Redeliver the request after its decision, as if its offset had not been committed.
            self.step(self.checker, self.rng.choice([[], [asked]]))
            late = self.rng.sample(known, self.rng.randint(0, min(2, len(known))))
            self.step(self.checker, released + late)
            # Each message of a digest may be produced several times.
            self.step(self.checker, self.consume(topics.SEND_API)[of_digests:])
            of_digests = len(self.consume(topics.SEND_API))
            known += self.consume(topics.RECHECK)[len(known) :]
        self.step(self.builder, self.consume(topics.BUILD))
        built = known = self.consume(topics.DELIVERY)
        self.step(self.use_case, built)
        # Quiet hours delay some recipients; the delayed part and its parent record may be redelivered.
        while self.delay_store.items:
            self._await_due(self.delay_store)
            assert self.delivery_scheduler.sweep(lambda: 60).released
            released = self.consume(topics.DELIVERY)[len(known) :]
            known = known + released
            self.step(self.use_case, released + self.rng.sample(known, self.rng.randint(0, min(2, len(known)))))
            known = known + self.consume(topics.DELIVERY)[len(known) :]


def reduce_sizes(patch: pytest.MonkeyPatch) -> None:
    """Reduce the sizes of ranges, parts and records, so that a dozen recipients need several of each."""
    patch.setattr(plan, "RANGE_SIZE", 3)
    patch.setattr(parts, "PART_SIZE", 6)
    patch.setattr(messages, "MAX_CONTENT_BYTES", 190)
    patch.setattr(messages, "MAX_GROWN_BYTES", 400)


def choose_split(patch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """Split a send to a dozen recipients, or do not."""
    split_above = rng.choice([8, len(USERS)])
    patch.setattr(plan, "SPLIT_ABOVE", split_above)
    patch.setattr(look_up, "SPLIT_ABOVE", split_above)
