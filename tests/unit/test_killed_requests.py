"""A kill after any call of a request to a store or to Kafka, then a repetition, ends in one consistent state."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from masscomm.domain.records import SendRequested
from masscomm.domain.sends import Source
from masscomm.kafka import topics
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.preference_checker import Checker
from tests.support.harness.send_api import SendApi, use_cases
from tests.support.killer import Killed, Killer

ID = "0b8e2f0e-7a1c-4c1e-9d53-2f3f0f9a6c11"
LATER = {"send_at": "2023-11-15T00:00:00Z"}
LARGE = list(range(1, 5_002))
# The requests of one send.
SHAPES: dict[str, list[dict[str, Any]]] = {
    "small": [{"to_users": [1, 2]}],
    "chosen": [{"send_id": ID, "to_users": [1, 2]}],
    "scheduled": [{"to_users": [1, 2], **LATER}],
    "large": [{"send_id": ID, "to_users": LARGE}],
    "parts": [{"send_id": ID, "part_index": index, "part_count": 2, "to_users": [index + 1]} for index in (1, 0)],
}


class Killable(SendApi):
    """The function with a kill in one of its calls, and the function that consumes its records."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.checker = Checker()
        self.checker.put_users(range(1, 6))
        self.checker.use_case = self.checker.environment(self.checker.directory)
        self.register = self.checker.register = InMemorySends(self.clock)
        self.checker.use_case = self.checker.environment(self.checker.directory)
        self.connect(None)

    def connect(self, killer: Killer | None) -> None:
        around: Callable[[Any], Any] = (lambda target: target) if killer is None else killer.around
        producer = self.producer
        self.producer = around(producer)
        self.use_cases = use_cases(
            self, around(self.keys), around(self.audit_log), around(self.register), self.directory
        )
        self.producer = producer

    def consume(self, records: list[SendRequested]) -> None:
        assert self.checker.check(*records, topic=topics.SEND_API) == []


def positions(shape: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, bool, bool]]:
    """Yield each call of the requests of a shape, whether its answer is lost, and whether the records are consumed
    before the repetition.
    """
    api = Killable(monkeypatch)
    counter = Killer(0, after=False)
    api.connect(counter)
    for body in SHAPES[shape]:
        assert api.post_with(json.dumps(body)[:200], **body)[0] == 202
    assert counter.calls > 4
    yield from (
        (call, after, consumed)
        for call in range(1, counter.calls + 1)
        for after in (False, True)
        for consumed in (False, True)
    )


@pytest.mark.guarantee("send_ids.repeated_send_is_one")
@pytest.mark.parametrize("shape", SHAPES)
def test_killed_request_and_its_repetition_are_one_send(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for call, after, consumed in positions(shape, monkeypatch):
        api = Killable(monkeypatch)
        api.connect(Killer(call, after=after))
        requests = SHAPES[shape]
        for body in requests:
            key = json.dumps(body)[:200]
            try:
                api.post_with(key, **body)
            except Killed:
                api.clock.advance(30)  # Lambda has ended the attempt.
                api.connect(None)
                if consumed:
                    api.consume(api.sends())
        answers = [api.post_with(json.dumps(body)[:200], **body) for body in requests]
        where = f"call {call}, {'after' if after else 'before'} its effect, {consumed=}"
        assert [answer[0] for answer in answers] == [202] * len(requests), where
        api.consume(api.sends())
        check(api, answers[0][1]["send_id"], [user for body in requests for user in body["to_users"]], where)


def check(api: Killable, send_id: str, users: list[int], where: str) -> None:
    by_chunk: dict[int, SendRequested] = {}
    for record in api.sends():
        assert by_chunk.setdefault(record.chunk_index, record) == record, where
    assert sorted(user for record in by_chunk.values() for user in record.to_users) == sorted(users), where
    assert set(api.register.sends) == {send_id}, where
    assert set(api.register.messages) == {send_id}, where
    send = api.register.sends[send_id]
    assert (send.source, send.users, send.is_test) == (Source.REST, len(users), False), where
    assert [part.is_produced for part in api.register.parts.values()] in ([], [True], [True, True]), where
    assert api.checker.dead_letters() == [], where
    chain = api.checker
    followed: list[Any] = [*chain.builds(), *chain.rechecks(), *chain.outcomes(), *chain.delayed_parts()]
    assert {user for each in followed for user in each.user_ids} == set(users), where
