"""The preference checker with an in-memory directory and in-memory adapters."""

from collections.abc import Iterable
from typing import Any

from functions.preference_checker.check_preferences import CheckPreferences
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.records import AvroRecord
from masscomm.domain.users import User, UserSettings
from masscomm.kafka import topics
from masscomm.stores.decision_log import InMemoryDecisionLog
from masscomm.stores.delayed_records import InMemoryDelayStore
from masscomm.stores.send_controls import InMemorySendControls
from tests.support.harness.chain import Chain


class Checker(Chain):
    """The use case with a directory in which users 1 to 3 of club 7 permit everything."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = InMemoryDirectory()
        self.delay_store = InMemoryDelayStore()
        self.log = InMemoryDecisionLog()
        self.controls = InMemorySendControls()
        self.use_case = self.environment(self.directory)
        self.put_users(range(1, 4))

    def environment(self, directory: InMemoryDirectory) -> CheckPreferences:
        return CheckPreferences(
            directory=directory,
            clock=self.clock,
            delay_store=self.delay_store,
            decision_log=self.log,
            controls=self.controls,
        )

    def put_users(self, user_ids: Iterable[int], **columns: Any) -> None:
        for user_id in user_ids:
            self.directory.put(User(**{"user_id": user_id, "club_id": 7} | columns), UserSettings(user_id=user_id))

    def check(self, *records: AvroRecord, topic: str = topics.SEND_MONOLITH, **place: Any) -> list[int]:
        """Process these records at offsets 0, 1, …; return the offsets to be redelivered."""
        entries = [self.encoded(record, topic, **({"offset": offset} | place)) for offset, record in enumerate(records)]
        return self.run(self.use_case, *entries)
