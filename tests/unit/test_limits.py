"""No accepted request is dead-lettered because of a limit."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from functions.preference_checker.check_preferences import CheckPreferences
from functions.send_handler.registration import Registration, begin_problem
from functions.send_handler.request_send import RequestSend
from functions.send_handler.send_request import SendRequest, parse_request
from masscomm.chain.chunks import fault_of_send
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain import limits, records
from masscomm.domain.categories import categories, category
from masscomm.http.problem import Problem
from masscomm.kafka import topics
from masscomm.kafka.avro import own_schema
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.outcome_progress import InMemoryOutcomeProgress
from masscomm.observability import logs
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.decision_log.in_memory import InMemoryDecisionLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.digests.in_memory import InMemoryDigests
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.chain import NOW, Chain, entry

VALID: dict[str, Any] = {"type": "news", "club_id": 7, "to_users": [1]}
BROAD = "\U0001f600"  # one character, four bytes in UTF-8, two units in UTF-16


DATA = limits.FIELDS_OF_SEND["data"]


DATA_KEYS, DATA_KEY = DATA.entries or 0, DATA.key_characters or 0


def longest(field: str) -> int:
    characters = limits.FIELDS_OF_SEND[field].characters
    assert characters is not None
    return characters


def around(limit: int) -> st.SearchStrategy[int]:
    return st.integers(limit - 2, limit + 2)


def texts(limit: int) -> st.SearchStrategy[str]:
    """Lengths around the limit, with one byte or four bytes a character."""
    return st.builds(lambda size, char: char * size, around(limit), st.sampled_from(["a", "é", BROAD, "\0", "\n"]))


def moments(limit_ms: int) -> st.SearchStrategy[str]:
    return around(limit_ms).map(lambda ms: datetime.fromtimestamp((NOW + ms) / 1000, UTC).isoformat())


def _data(keys: int, size: int, char: str) -> dict[str, str]:
    """Data with this many keys and about this many bytes."""
    names = [f"k{number}" for number in range(keys)]
    rest = size - sum(len(name) for name in names)
    data = dict.fromkeys(names, "")
    data["k0"] = char * (rest // len(char.encode()))
    return data


data = st.one_of(
    st.builds(_data, st.integers(1, 3), around(DATA.max_bytes), st.sampled_from(["x", "é", BROAD])),
    st.builds(_data, around(DATA_KEYS), st.just(10_000), st.just("x")),
    st.builds(lambda key: {key: "v"}, texts(DATA_KEY)),
)
identifiers = st.sampled_from([0, 1, limits.LARGEST_ID, limits.LARGEST_ID + 1])
requests = st.fixed_dictionaries(
    {
        "type": st.one_of(st.sampled_from([*categories()]), texts(128)),
        "club_id": st.one_of(st.just(7), identifiers),
        "to_users": st.one_of(st.just([1]), st.lists(identifiers, min_size=0, max_size=3)),
    },
    optional={
        "channels": st.lists(st.sampled_from(["push", "email", "fax"]), max_size=4),
        "template": texts(longest("template")),
        "data": data,
        "locale": st.one_of(st.just("pt-BR"), st.integers(1, 9).map(lambda n: "de" + "-abcdefgh" * n), texts(8)),
        "priority": st.sampled_from(["bulk", "critical"]),
        "expires_at": st.one_of(moments(0), moments(limits.MAX_REQUEST_AHEAD_MS), st.just("9999-12-31T23:59:59-14:00")),
        "send_at": st.one_of(moments(0), moments(limits.MAX_REQUEST_AHEAD_MS)),
        "send_at_local": st.sampled_from(["2023-11-15T09:00", "2023-11-14T10:13:21", "2024-11-12T23:59", "09:00"]),
        "collapse_key": texts(longest("collapse_key")),
        "reference": texts(longest("reference")),
        "digest": st.sampled_from(
            [
                {"template": "t", "window": "7d"},
                {"template": "t", "window": "8d"},
                {"template": "t", "at": "24:00"},
                {"template": "t", "at": "08:00", "window": "1h"},
                {"template": "t", "at": "08:00", "key": BROAD * (DATA_KEY + 1)},
            ]
        ),
        "per_minute": st.integers(0, limits.MAX_RECIPIENTS),
        "spread_over": st.sampled_from(["1m", "7d", "168h", "10081m"]),
        "push": st.one_of(
            st.builds(lambda text: {"data": {"k": text}}, texts(limits.MAX_PUSH_BYTES - 17)),
            st.sampled_from([{}, {"silent": True}, {"silent": True, "badge": 1}, {"badge": 2**31}]),
        ),
    },
)
# Every text has its maximum length, in the characters with most bytes; ids have most bytes in Avro.
LARGEST = VALID | {
    # A mandatory category has no digest.
    "type": max((name for name in categories() if not category(name).mandatory), key=len),
    "channels": ["push", "email"],
    "to_users": list(range(limits.LARGEST_ID - limits.CHUNK_SIZE + 1, limits.LARGEST_ID + 1)),
    "template": "t" * longest("template"),
    "data": _data(DATA_KEYS, DATA.max_bytes, "x"),
    "recipient_data": {str(limits.LARGEST_ID): _data(DATA_KEYS, DATA.max_bytes, "x")},
    "locale": "de" + "-abcdefgh" * 6 + "-abcdefg",
    "collapse_key": BROAD * longest("collapse_key"),
    "reference": BROAD * longest("reference"),
    "digest": {"template": "t" * longest("template"), "at": "08:00", "key": BROAD * DATA_KEY, "list": 100},
    "send_at_local": "2024-11-12T09:00:59",
    "per_minute": limits.FIELDS_OF_SEND["per_minute"].highest,
    "push": {"data": {"k": "x" * (limits.MAX_PUSH_BYTES - len('{"data":{"k":""}}'))}},
}


class Path(Chain):
    """send_handler, followed by preference_checker with a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register = InMemorySends(self.clock)
        self.handler = RequestSend(
            codec=self.codec,
            producer=self.producer,
            clock=self.clock,
            audit_log=InMemoryAuditLog(),
            registration=Registration(sends=self.register),
        )
        self.checker = CheckPreferences(
            outcome_progress=InMemoryOutcomeProgress(),
            directory=InMemoryDirectory(),
            clock=self.clock,
            delay_store=InMemoryDelayStore(),
            decision_log=InMemoryDecisionLog(),
            frequency_caps=InMemoryFrequencyCaps(),
            digests=InMemoryDigests(),
            sends=self.register,
        )

    def accepted(self, request: dict[str, Any]) -> bool:
        try:
            with logs.about():
                send = parse_request(request, self.clock)
                identity = self.handler.new_identity(send.send_id)
                if refused := begin_problem(send, identity.requested_at_ms, self.register):
                    raise refused
                self.handler.produce(send, identity)
        except Problem as problem:
            if problem.status != 400:
                raise
            return False
        return True

    def check(self) -> None:
        chunks = [(topic, value, headers) for topic, _, value, headers in self.producer.produced]
        assert chunks
        assert {topics.base_of(topic) for topic, _, _ in chunks} == {topics.SEND_API}
        for topic, value, headers in chunks:
            assert self.run(self.checker, entry(value, topic=topic, headers=headers)) == []


@pytest.mark.guarantee("sends_api.accepted_send_meets_limits")
@pytest.mark.kills(guard="limits.copied_fields")
@settings(max_examples=300, suppress_health_check=[HealthCheck.data_too_large])
@given(requests)
@example(LARGEST)
@example(VALID | {"data": _data(1, DATA.max_bytes, "x"), "reference": "r"})
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
def test_accepted_send_at_is_valid_for_a_skewed_clock(hours: int) -> None:
    """The checker's clock may differ from send_handler's by nearly a day."""
    path = Path()
    latest = datetime.fromtimestamp((NOW + limits.MAX_REQUEST_AHEAD_MS) / 1000, UTC).isoformat()
    assert path.accepted(LARGEST | {"send_at_local": None, "send_at": latest})
    path.clock.advance(hours * 3600)
    path.check()
    assert path.dead_letters() == []


def test_each_field_of_a_send_has_a_limit() -> None:
    fields = {field["name"] for field in own_schema("SendRequested")["fields"] if field["type"] != "boolean"}
    assert fields == set(limits.FIELDS_OF_SEND)
    unbounded = limits.FieldLimit()
    assert [name for name, limit in limits.FIELDS_OF_SEND.items() if limit == unbounded] == []
    texts = [each.name for each in dataclasses.fields(records.ContentFields) if "str" in str(each.type)]
    assert [name for name in texts if not limits.FIELDS_OF_SEND[name].max_bytes] == [], "MAX_COPIED_BYTES needs them"


def test_largest_request_has_every_field() -> None:
    """A new field belongs to LARGEST, or this module does not check that its longest value fits into a record."""
    assert SendRequest.model_fields.keys() == LARGEST.keys() | {
        "audience",
        "audience_at",
        "spread_over",
        "priority",
        "expires_at",
        "send_at",
        "send_id",
        "part_index",
        "part_count",
    }
    not_in_records = {"audience", "audience_at", "part_index", "part_count", "spread_over"}
    assert SendRequest.model_fields.keys() - not_in_records <= limits.FIELDS_OF_SEND.keys()


def test_a_request_has_the_limit_of_each_text() -> None:
    properties = SendRequest.model_json_schema()["properties"]
    for name in ("type", "template", "locale", "collapse_key", "reference"):
        bounded = [properties[name], *properties[name].get("anyOf", [])]
        assert longest(name) in [each.get("maxLength") for each in bounded], name


@pytest.mark.parametrize("field", records.COPIED_TEXTS)
def test_each_copied_text_counts_towards_their_limit(field: str) -> None:
    """A text that did not count would pass preference_checker, and its derived records would not fit."""
    if "str" not in str(records.ContentFields.__dataclass_fields__[field].type):
        return
    text = "x" * (records.MAX_COPIED_BYTES + 1)
    fields = VALID | {"timestamp": NOW, field: {"k": text} if field == "data" else text}
    send = records.SendRequested(**fields)
    record = KafkaRecord(topic="send.api", partition=0, offset=0, timestamp_ms=NOW, key=b"", value=b"")
    fault = fault_of_send(send, record, NOW)
    assert fault is not None
    assert fault.reason == "too_large"
