"""The audience_expander function, with directory, store and Kafka in memory."""

import json
from collections.abc import Mapping
from typing import Any

from functions.audience_expander.expand_audience import ExpandAudience
from functions.audience_expander.recurring_sends import RecurringSends
from masscomm.clock import Clock
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.ids import chunk_id
from masscomm.domain.records import AudienceRequested, SendRequested
from masscomm.domain.sends import Expansion, SendKey
from masscomm.domain.users import User
from masscomm.kafka import topics
from masscomm.observability import logs
from masscomm.stores.api_keys.in_memory import InMemoryApiKeys
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.key_usage.in_memory import InMemoryKeyUsage
from masscomm.stores.saved_audiences.in_memory import InMemorySavedAudiences
from masscomm.stores.schedules.in_memory import InMemorySchedules
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.chain import NOW, SEND_ID, Chain, entry

GERMAN: dict[str, Any] = {"where": {"field": "locale", "is": "de"}}
EVERYBODY: dict[str, Any] = {"all_users": True}
KEY = SendKey(7, SEND_ID)


def recurring_sends(clock: Clock, **stores: Any) -> RecurringSends:
    """Return the use case of schedules, with stores in memory for those that are not given."""
    in_memory: dict[str, Any] = {
        "schedules": InMemorySchedules(),
        "keys": InMemoryApiKeys(),
        "saved_audiences": InMemorySavedAudiences(),
        "sends": InMemorySends(clock),
        "usage": InMemoryKeyUsage(),
        "delay_store": InMemoryDelayStore(),
    }
    return RecurringSends(**(in_memory | stores), clock=clock, logger=logs.logger("test"))


class Expander(Chain):
    """The function and one partition of its topic.

    Attributes:
        consumed: The number of records of the partition that are consumed.
    """

    def __init__(self, users: int = 11, share_chunks: int = 100) -> None:
        super().__init__()
        self.directory = InMemoryDirectory(page_size=3)
        self.register = InMemorySends(self.clock)
        for user_id in range(1, users + 1):
            self.directory.put(User(user_id=user_id, club_id=7, locale="de" if user_id % 2 else "en"))
        self.directory.put(User(user_id=500, club_id=8, locale="de"))
        self.usage = InMemoryKeyUsage()
        self.delayed = InMemoryDelayStore()
        self.consumed = 0
        self.use_case = ExpandAudience(
            directory=self.directory,
            sends=self.register,
            usage=self.usage,
            delay_store=self.delayed,
            recurring=recurring_sends(self.clock),
            clock=self.clock,
            logger=logs.logger("test"),
            share_chunks=share_chunks,
        )

    def expand(self, audience: Any = GERMAN, *, seconds: float = 60.0, **fields: Any) -> list[int]:
        """Process a send to an audience. Return the offsets to be redelivered."""
        return self.run(self.use_case, self.encoded(_request(audience, **fields), topics.AUDIENCE), seconds=seconds)

    def send_audience(self, audience: Any = EVERYBODY, **fields: Any) -> None:
        """Add a send to an audience to the partition."""
        value = self.codec.encode(topics.AUDIENCE, "AudienceRequested", _request(audience, **fields).to_avro())
        self.producer.produce(topics.AUDIENCE, b"key", value, [], lambda _: None)
        self.producer.flush(1)

    def consume(self) -> bool:
        """Process the next record of the partition, and commit its offset unless it failed. Return whether it was the
        last one.
        """
        record = entry(self.values(topics.AUDIENCE)[self.consumed], topic=topics.AUDIENCE, offset=self.consumed)
        self.consumed += not self.run(self.use_case, record)
        return self.consumed == len(self.values(topics.AUDIENCE))

    def consume_all(self) -> None:
        """Process the records of the partition until none remains."""
        while not self.consume():
            pass

    def requests(self) -> list[AudienceRequested]:
        """Return all records of the partition."""
        return self._decoded(AudienceRequested, topics.AUDIENCE)

    def ended(self) -> Expansion:
        """Return the end of the expansion of the send KEY."""
        ended = self.register.sends[SEND_ID].expansion
        assert ended is not None
        return ended

    def sends(self) -> list[SendRequested]:
        return self._decoded(SendRequested, topics.SEND_API)

    def users_by_chunk(self) -> dict[str | None, list[int]]:
        """Return chunk id → users. Fails if two records of one chunk differ."""
        found: dict[str | None, list[int]] = {}
        for send in self.sends():
            assert found.setdefault(chunk_id(SEND_ID, send.chunk_index), send.to_users) == send.to_users
        return found


def _request(
    audience: Any,
    *,
    key: SendKey = KEY,
    chunk_size: int = 2,
    recipients_a_day: int | None = None,
    share: int = 0,
    expand_at: int | None = None,
    of_later: Mapping[str, Any] | None = None,
    **fields: Any,
) -> AudienceRequested:
    """Return a send to an audience, with further fields of a later version in the send."""
    send = SendRequested(
        **{
            "type": "news",
            "club_id": key.club_id,
            "timestamp": NOW,
            "to_users": [],
            "send_id": key.send_id,
            **fields,
        }
    )
    return AudienceRequested(
        send_id=key.send_id,
        club_id=key.club_id,
        timestamp=NOW,
        chunk_size=chunk_size,
        audience=json.dumps(audience),
        send=json.dumps({**send.to_avro(), **(of_later or {})}),
        key_id=None if recipients_a_day is None else "k",
        recipients_a_day=recipients_a_day,
        share=share,
        expand_at=expand_at,
    )
