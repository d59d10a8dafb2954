"""Schedules in memory: the routes of send_handler, the delay store, and audience_expander with its topic."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from functions.audience_expander.expand_audience import ExpandAudience
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.records import AudienceRequested
from masscomm.domain.users import User
from masscomm.http.scopes import Scope, scopes_text
from masscomm.kafka import topics
from masscomm.observability import logs
from masscomm.stores.api_keys.in_memory import InMemoryApiKeys
from masscomm.stores.api_keys.port import ApiKey
from masscomm.stores.delayed_records.port import DelayedRecord
from tests.support.harness.audience_expander import recurring_sends
from tests.support.harness.chain import entry
from tests.support.harness.send_api import Answered, SendApi, use_cases
from tests.support.killer import Killer

CLUB = 7
NAME = "weekly"
MINUTE_MS, DAY_MS = 60_000, 86_400_000
# Each day at 09:00 in Zurich; the present is 2023-11-14T22:13:20Z.
BODY: dict[str, Any] = {
    "rule": "FREQ=DAILY;BYHOUR=9;BYMINUTE=0",
    "time_zone": "Europe/Zurich",
    "starts_at_local": "2023-11-01T00:00",
    "send": {"type": "news", "club_id": CLUB, "to_users": [1, 2], "data": {"title": "Hello", "body": "News."}},
}
FIRST_MS = 1_700_035_200_000
FIRST_LOCAL = "2023-11-15T09:00"


def owner(key_id: str = "0123456789abcdef", **values: Any) -> ApiKey:
    """Return an API key that may send to the club."""
    fields: dict[str, Any] = {"name": "k", "clubs": str(CLUB), "created_at": 0}
    scopes = scopes_text([Scope.SEND, Scope.SEND_CONTENT, Scope.READ, Scope.USERS_READ])
    return ApiKey(**{"digest": key_id * 4, "scopes": scopes, **fields, **values})


class Recurring(SendApi):
    """The functions that make recurring sends, with a club of five users."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.api_keys = InMemoryApiKeys()
        self.api_keys.put(owner())
        self.members = InMemoryDirectory(page_size=3)
        for user_id in range(1, 6):
            self.members.put(User(user_id=user_id, club_id=CLUB))
        self.memory = self.producer
        self.connect(None)

    def connect(self, killer: Killer | None) -> None:
        """Connect the functions with their stores and Kafka, with a kill in one of the calls."""
        around: Callable[[Any], Any] = (lambda target: target) if killer is None else killer.around
        self.producer = around(self.memory)
        self.driver = self._driver()
        stores = {"sends": around(self.register), "usage": self.usage, "delay_store": around(self.delayed)}
        self.expander = ExpandAudience(
            directory=self.members,
            recurring=recurring_sends(
                self.clock,
                schedules=around(self.schedules),
                keys=self.api_keys,
                saved_audiences=self.saved_audiences,
                **stores,
            ),
            clock=self.clock,
            logger=logs.logger("test"),
            **stores,
        )
        requested = use_cases(
            self,
            self.keys,
            self.audit_log,
            self.register,
            saved=self.saved_audiences,
            schedules=around(self.schedules),
            delayed=around(self.delayed),
        )
        self.use_cases = requested

    def ask(
        self,
        method: str,
        path: str = "",
        body: Any = None,
        *,
        key: ApiKey | None = None,
        name: str = NAME,
        **query: str,
    ) -> Answered:
        """Return the answer to a request about a schedule."""
        key = key or owner()
        return self.call(
            None if body is None else json.dumps(body),
            method=method,
            path=f"/v1/schedules/{name}{path}",
            authorizer=key.context | {"principalId": key.key_id},
            query={"club_id": str(CLUB)} | query,
        )

    def put(self, key: ApiKey | None = None, send: Any = None, **fields: Any) -> dict[str, Any]:
        """Save the schedule of BODY with changed fields; return it."""
        body = BODY | fields
        status, answer, _ = self.ask("PUT", body={**body, "send": BODY["send"] if send is None else send}, key=key)
        assert status == 200, answer
        return answer

    def show(self) -> dict[str, Any]:
        status, answer, _ = self.ask("GET")
        assert status == 200, answer
        return answer

    def history(self) -> list[tuple[str, str, str | None]]:
        """Return local time, state and reason of the occurrences, the earliest first."""
        return [(each["local_time"], each["state"], each["reason"]) for each in reversed(self.show()["history"])]

    def until(self, moment_ms: int) -> None:
        """Advance the clock to a time."""
        self.clock.advance((moment_ms - self.clock.now_ms()) / 1000)

    def waiting(self) -> list[DelayedRecord]:
        return [self.delayed.items[key] for key in sorted(self.delayed.items)]

    def release(self) -> None:
        """Release the due records as the scheduler does: each is processed until it succeeds, then removed."""
        for record in self.waiting():
            if record.due_ms <= self.clock.now_ms():
                self.process(record)
                self.delayed.items.pop(record.key or ("", ""), None)

    def process(self, record: DelayedRecord) -> None:
        released = entry(record.value, topic=topics.AUDIENCE, timestamp=self.clock.now_ms())
        assert self.run(self.expander, released) == []

    def expand(self) -> None:
        """Expand the audiences of the sends that were made."""
        for offset, value in enumerate(self.values(topics.AUDIENCE)):
            found = entry(value, topic=topics.AUDIENCE, offset=offset, timestamp=self.clock.now_ms())
            assert self.run(self.expander, found) == []

    def audiences(self) -> list[AudienceRequested]:
        return self._decoded(AudienceRequested, topics.AUDIENCE)
