"""The audience_expander function, with directory, store and Kafka in memory."""

import json
from typing import Any

from functions.audience_expander.expand_audience import ExpandAudience
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.ids import chunk_id
from masscomm.domain.records import AudienceRequested, SendRequested
from masscomm.domain.users import User
from masscomm.kafka import topics
from masscomm.observability import logs
from masscomm.stores.expansions import InMemoryExpansions
from masscomm.stores.key_usage import InMemoryKeyUsage
from tests.support.harness.chain import NOW, SEND_ID, Chain

GERMAN: dict[str, Any] = {"where": {"field": "locale", "is": "de"}}


class Expander(Chain):
    def __init__(self, users: int = 11) -> None:
        super().__init__()
        self.directory = InMemoryDirectory(page_size=3)
        self.expansions = InMemoryExpansions()
        for user_id in range(1, users + 1):
            self.directory.put(User(user_id=user_id, club_id=7, locale="de" if user_id % 2 else "en"))
        self.directory.put(User(user_id=500, club_id=8, locale="de"))
        self.usage = InMemoryKeyUsage()
        self.use_case = ExpandAudience(
            directory=self.directory,
            expansions=self.expansions,
            usage=self.usage,
            clock=self.clock,
            logger=logs.logger("test"),
        )

    def expand(
        self,
        audience: Any = GERMAN,
        *,
        chunk_size: int = 2,
        seconds: float = 60.0,
        recipients_a_day: int | None = None,
        **fields: Any,
    ) -> list[int]:
        """Process a send to an audience. Return the offsets to be redelivered."""
        send = SendRequested(
            **{"type": "news", "club_id": 7, "timestamp": NOW, "to_users": [], "send_id": SEND_ID, **fields}
        )
        record = AudienceRequested(
            send_id=SEND_ID,
            club_id=7,
            timestamp=NOW,
            chunk_size=chunk_size,
            audience=json.dumps(audience),
            send=json.dumps(send.to_avro()),
            key_id=None if recipients_a_day is None else "k",
            recipients_a_day=recipients_a_day,
        )
        return self.run(self.use_case, self.encoded(record, topics.AUDIENCE), seconds=seconds)

    def sends(self) -> list[SendRequested]:
        return self._decoded(SendRequested, topics.SEND_API)

    def users_by_chunk(self) -> dict[str | None, list[int]]:
        """Return chunk id → users. Fails if two records of one chunk differ."""
        found: dict[str | None, list[int]] = {}
        for send in self.sends():
            assert found.setdefault(chunk_id(SEND_ID, send.chunk_index), send.to_users) == send.to_users
        return found
