"""A request that is accepted is never a dead letter for a limit."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from functions.preference_checker.check_preferences import CheckPreferences
from functions.send_handler.request_send import RequestSend, parse_request
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain import limits
from masscomm.http.problem import Problem
from masscomm.kafka import topics
from masscomm.observability import logs
from masscomm.stores.decision_log import InMemoryDecisionLog
from masscomm.stores.delayed_records import InMemoryDelayStore
from tests.support.harness.chain import NOW, Chain, entry

VALID: dict[str, Any] = {"type": "news", "club_id": 7, "to_users": [1]}
BROAD = "\U0001f600"  # one character, four bytes in UTF-8, two units in UTF-16


def around(limit: int) -> st.SearchStrategy[int]:
    return st.integers(limit - 2, limit + 2)


def texts(limit: int) -> st.SearchStrategy[str]:
    """Lengths around the limit, of one byte or four a character."""
    return st.builds(lambda size, char: char * size, around(limit), st.sampled_from(["a", "é", BROAD, "\0", "\n"]))


def moments(limit_ms: int) -> st.SearchStrategy[str]:
    return around(limit_ms).map(lambda ms: datetime.fromtimestamp((NOW + ms) / 1000, UTC).isoformat())


def _data(keys: int, size: int, char: str) -> dict[str, str]:
    """That many keys, and about that many bytes in all."""
    names = [f"k{number}" for number in range(keys)]
    rest = size - sum(len(name) for name in names)
    data = dict.fromkeys(names, "")
    data["k0"] = char * (rest // len(char.encode()))
    return data


data = st.one_of(
    st.builds(_data, st.integers(1, 3), around(limits.MAX_DATA_BYTES), st.sampled_from(["x", "é", BROAD])),
    st.builds(_data, around(limits.MAX_DATA_KEYS), st.just(10_000), st.just("x")),
    st.builds(lambda key: {key: "v"}, texts(limits.MAX_DATA_KEY)),
)
identifiers = st.sampled_from([0, 1, limits.LARGEST_ID, limits.LARGEST_ID + 1])
requests = st.fixed_dictionaries(
    {
        "type": st.one_of(st.just("news"), texts(128)),
        "club_id": st.one_of(st.just(7), identifiers),
        "to_users": st.one_of(st.just([1]), st.lists(identifiers, min_size=0, max_size=3)),
    },
    optional={
        "channels": st.lists(st.sampled_from(["push", "email", "fax"]), max_size=4),
        "template": texts(limits.MAX_TEMPLATE),
        "data": data,
        "locale": st.one_of(st.just("pt-BR"), st.integers(1, 9).map(lambda n: "de" + "-abcdefgh" * n), texts(8)),
        "priority": st.sampled_from(["bulk", "critical"]),
        "expires_at": st.one_of(moments(0), moments(limits.MAX_REQUEST_AHEAD_MS), st.just("9999-12-31T23:59:59-14:00")),
        "send_at": st.one_of(moments(0), moments(limits.MAX_REQUEST_AHEAD_MS)),
        "collapse_key": texts(limits.MAX_COLLAPSE_KEY),
        "reference": texts(limits.MAX_REFERENCE),
    },
)
# Every text at its longest, in the characters with most bytes; ids with most bytes in Avro.
LARGEST = VALID | {
    "type": "t" * 128,
    "channels": ["push", "email"],
    "to_users": list(range(limits.LARGEST_ID - limits.CHUNK_SIZE + 1, limits.LARGEST_ID + 1)),
    "template": "t" * limits.MAX_TEMPLATE,
    "data": _data(limits.MAX_DATA_KEYS, limits.MAX_DATA_BYTES, "x"),
    "locale": "de" + "-abcdefgh" * 6 + "-abcdefg",
    "collapse_key": BROAD * limits.MAX_COLLAPSE_KEY,
    "reference": BROAD * limits.MAX_REFERENCE,
    "send_at": datetime.fromtimestamp((NOW + limits.MAX_REQUEST_AHEAD_MS) / 1000, UTC).isoformat(),
}


class Path(Chain):
    """send_handler, and preference_checker behind it with a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.handler = RequestSend(codec=self.codec, producer=self.producer, clock=self.clock)
        self.checker = CheckPreferences(
            directory=InMemoryDirectory(),
            clock=self.clock,
            delay_store=InMemoryDelayStore(),
            decision_log=InMemoryDecisionLog(),
        )

    def accepted(self, request: dict[str, Any]) -> bool:
        try:
            with logs.about():
                self.handler.request(parse_request(json.dumps(request)))
        except Problem as problem:
            if problem.status != 400:
                raise
            return False
        return True

    def check(self) -> None:
        """Give preference_checker every chunk that was produced."""
        chunks = [(topic, value, headers) for topic, _, value, headers in self.producer.produced]
        assert chunks
        assert {topics.base_of(topic) for topic, _, _ in chunks} == {topics.SEND_API}
        for topic, value, headers in chunks:
            assert self.run(self.checker, entry(value, topic=topic, headers=headers)) == []


@pytest.mark.guarantee("sends_api.accepted_send_meets_limits")
@pytest.mark.kills(guard="limits.copied_fields")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(requests)
@example(LARGEST)
@example(VALID | {"data": _data(1, limits.MAX_DATA_BYTES, "x"), "reference": "r"})
@example(VALID | {"locale": "de" + "-abcdefgh" * 12_000})
def test_accepted_send_is_never_dead_lettered(request: dict[str, Any]) -> None:
    path = Path()
    if path.accepted(request):
        path.check()
        assert path.dead_letters() == []


def test_the_largest_request_is_accepted() -> None:
    path = Path()
    assert path.accepted(LARGEST)
    path.check()
    assert path.dead_letters() == []


@pytest.mark.parametrize("hours", [-23, 23])
def test_a_send_at_that_is_accepted_is_within_every_clock(hours: int) -> None:
    """The checker's clock may differ from send_handler's by nearly a day."""
    path = Path()
    assert path.accepted(LARGEST)
    path.clock.advance(hours * 3600)
    path.check()
    assert path.dead_letters() == []
