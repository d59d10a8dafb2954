"""event_matcher keeps the subscriptions of a compacted topic in memory."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from masscomm.chain.subscription_topic import SubscriptionTopic
from masscomm.clock import FixedClock
from masscomm.domain.records import SubscriptionChanged
from masscomm.domain.subscriptions import Subscription
from masscomm.domain.time_limits import SUBSCRIPTIONS_FOLLOWED_S
from masscomm.kafka import topics
from masscomm.kafka.topic_reading import TopicReader
from tests.support.harness.events import EventMatcher, ScriptedReader, occurred, rule, subscribed


def record(source: SubscriptionTopic, subscription: Subscription) -> tuple[bytes | None, bytes | None]:
    value = source.codec.encode(topics.SUBSCRIPTION, SubscriptionChanged.__name__, subscription.to_record().to_avro())
    return subscription.id.encode(), value


@pytest.fixture
def reader() -> ScriptedReader:
    return ScriptedReader([])


@pytest.fixture
def source(reader: ScriptedReader) -> SubscriptionTopic:
    topic = cast(TopicReader, reader)
    return SubscriptionTopic(bootstrap="", codec=EventMatcher().codec, clock=FixedClock(), _reader=topic)


def test_later_changes_are_added_to_those_in_memory(source: SubscriptionTopic, reader: ScriptedReader) -> None:
    first, second = subscribed(1), subscribed(2)
    reader.records = [record(source, first)]
    assert len(source.current()) == 1
    reader.records += [record(source, second), (first.id.encode(), None)]
    assert len(source.current()) == 1
    reader.records.append((second.id.encode(), None))
    assert source.current().match(occurred()) == {}


@pytest.mark.kills(guard="subscriptions.idle_matcher")
def test_idle_matcher_learns_of_an_older_deletion(source: SubscriptionTopic, reader: ScriptedReader) -> None:
    """Kafka removes the record of a deletion after a day. A function that slept meanwhile must not miss it."""
    gone, left = subscribed(1), subscribed(2)
    reader.records = [record(source, gone), record(source, left)]
    assert len(source.current()) == 2
    reader.records = [record(source, left), record(source, left)]
    cast(FixedClock, source.clock).advance(SUBSCRIPTIONS_FOLLOWED_S + 1)
    assert len(source.current()) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"owner": None},
        {"owner": {"principal": "k", "context": []}},
        {"owner": {"principal": "k", "context": {"scopes": ["send"]}}},
        {"type": 7},
        {"channels": "push"},
        {"data": {"goals": 7}},
        {"users_path": ["fans"]},
        {"unit_attribute": "team"},
        {"users_path": None},
    ],
)
def test_malformed_rule_is_left_out(source: SubscriptionTopic, reader: ScriptedReader, changed: dict[str, Any]) -> None:
    kept, malformed = rule(1), rule(2).to_record()
    fields = json.loads(malformed.notification or "") | changed
    value = source.codec.encode(
        topics.SUBSCRIPTION, "SubscriptionChanged", replace(malformed, notification=json.dumps(fields)).to_avro()
    )
    reader.records = [(b"sub_2", value), record(source, kept)]
    assert [each.id for each in source.current().rules(occurred())] == [kept.id]
