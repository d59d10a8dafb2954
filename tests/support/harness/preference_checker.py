"""The preference checker with an in-memory directory and in-memory adapters."""

from collections.abc import Iterable
from typing import Any

from aws_lambda_powertools import Logger

from functions.preference_checker.check_preferences import CheckPreferences
from functions.scheduler.release_due_records import ReleaseDueRecords
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.records import AvroRecord, RecheckRequested
from masscomm.domain.users import User, UserSettings
from masscomm.kafka import topics
from masscomm.kafka.outcome_progress import InMemoryOutcomeProgress
from masscomm.stores.decision_log.in_memory import InMemoryDecisionLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.digests.in_memory import InMemoryDigests
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.chain import Chain, entry


class Checker(Chain):
    """The use case with a directory in which users 1 to 3 of club 7 permit everything."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = InMemoryDirectory()
        self.delay_store = InMemoryDelayStore()
        self.log = InMemoryDecisionLog()
        self.register = InMemorySends(self.clock)
        self.frequency_caps = InMemoryFrequencyCaps()
        self.digests = InMemoryDigests()
        self.outcome_progress = InMemoryOutcomeProgress()
        self.use_case = self.environment(self.directory)
        self.put_users(range(1, 4))

    def environment(self, directory: InMemoryDirectory) -> CheckPreferences:
        return CheckPreferences(
            directory=directory,
            clock=self.clock,
            delay_store=self.delay_store,
            decision_log=self.log,
            frequency_caps=self.frequency_caps,
            digests=self.digests,
            outcome_progress=self.outcome_progress,
            sends=self.register,
        )

    def put_users(self, user_ids: Iterable[int], **columns: Any) -> None:
        for user_id in user_ids:
            self.directory.put(User(**{"user_id": user_id, "club_id": 7} | columns), UserSettings(user_id=user_id))

    def check(self, *records: AvroRecord, topic: str = topics.SEND_MONOLITH, **place: Any) -> list[int]:
        """Process these records at offsets 0, 1, …; return the offsets to be redelivered."""
        entries = [self.encoded(record, topic, **({"offset": offset} | place)) for offset, record in enumerate(records)]
        return self.run(self.use_case, *entries)

    def due_times(self) -> list[int]:
        return sorted(item.due_ms for item in self.delay_store.items.values())

    def delayed_parts(self) -> list[RecheckRequested]:
        """The delayed rechecks, in the order of their due times."""
        items = sorted(self.delay_store.items.values(), key=lambda item: (item.due_ms, item.id))
        return [RecheckRequested.from_avro(self.codec.decode("RecheckRequested", item.value)) for item in items]

    def release_at(self, moment_ms: int) -> list[int]:
        """Advance the clock, release the due records and check them. Returns the offsets to be redelivered."""
        self.clock.advance((moment_ms - self.clock.now_ms()) / 1000)
        return self.run(self.use_case, *self.released())

    def released(self) -> list[dict[str, Any]]:
        before = len(self.producer.produced)
        scheduler = ReleaseDueRecords(
            store=self.delay_store,
            sends=self.register,
            producer=self.producer,
            clock=self.clock,
            logger=Logger(),
        )
        scheduler.sweep(lambda: 60)
        return [
            entry(value, topic=topic, offset=100 + place, headers=headers)
            for place, (topic, _, value, headers) in enumerate(self.producer.produced[before:])
        ]
