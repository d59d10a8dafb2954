"""event_matcher turns events into sends, by rules and with the permissions of their owners."""

import json
import re
from typing import Any

import pytest

from functions.event_matcher.notify import MAX_RULES_STORED
from masscomm.domain.limits import CHOSEN_SEND_ID_PATTERN, CHUNK_SIZE
from masscomm.domain.notification_rules import RefusedEvents, RuleRefusal
from masscomm.domain.records import AudienceRequested, EventOccurred, SendRequested
from masscomm.domain.subscriptions import SubscriptionKey, rules_of
from masscomm.domain.time_limits import RULE_OWNERS_CACHED_S
from masscomm.domain.users import UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from tests.support.categories import put_version
from tests.support.harness.chain import NOW
from tests.support.harness.events import OWNER, EventMatcher, occurred, rule, subscribed
from tests.support.harness.whole_chain import ThreeSteps


def fans(*users: Any, event_id: str = "e1", **fields: Any) -> EventOccurred:
    return occurred(event_id, data=json.dumps({"fans": list(users), "minute": 90, "by": {"name": "Ada"}}), **fields)


def refused(matcher: EventMatcher, rule_id: str = "sub_1") -> list[tuple[str, int, str]]:
    """Return (reason, number of events, detail) of the refusals that the rule shows."""
    found = matcher.stored.find(SubscriptionKey(rules_of(7), rule_id))
    assert found is not None
    return [(each.reason, each.events, each.detail) for each in found.refused]


@pytest.fixture
def matcher() -> EventMatcher:
    made = EventMatcher()
    made.own()
    return made


def test_a_matching_event_becomes_a_send(matcher: EventMatcher) -> None:
    data = {"minute": "minute", "scorer": "by.name", "none": "by.age"}
    matcher.subscribe(rule(data=data, channels=["push"], template="goal", push={"badge": 1}), subscribed(2))
    assert matcher.match(fans(3, 4, 3), fans(5, event_id="e2", club_id=8)) == []
    (send,) = matcher.sends()
    assert send == SendRequested(
        type="announcement",
        club_id=7,
        timestamp=NOW,
        to_users=[3, 4],
        send_id=send.send_id,
        channels=["push"],
        template="goal",
        data={"minute": "90", "scorer": "Ada"},
        push='{"badge":1}',
        reference="e1",
        principal=OWNER,
    )
    assert [event for _, event, _ in matcher.messages()] == ["e1"]


@pytest.mark.guarantee("events.one_send_of_an_event_and_a_rule")
@pytest.mark.kills(guard="rules.derived_send_id")
def test_a_repeated_event_is_the_same_send(matcher: EventMatcher) -> None:
    matcher.subscribe(rule(1), rule(2))
    matcher.match(fans(3))
    matcher.match(fans(3), first=7)
    first, other, *repeated = [each.send_id for each in matcher.sends()]
    assert first != other
    assert repeated == [first, other]
    assert not any(re.fullmatch(CHOSEN_SEND_ID_PATTERN, str(each)) for each in (first, other))


def test_an_event_becomes_a_push(matcher: EventMatcher) -> None:
    """The chain accepts the send, and a redelivered event notifies nobody again."""
    matcher.subscribe(rule(data={"title": "by.name", "body": "minute"}, channels=["push"]))
    matcher.match(fans(3))
    chain = ThreeSteps()
    chain.directory.put(UserSettings(user_id=3))
    (send,) = matcher.sends()
    for _ in range(2):
        assert chain.drive(send, topics.SEND_API) == []
    assert len(chain.push.published) == 1


@pytest.mark.kills(guard="rules.no_loops")
def test_own_events_make_no_send(matcher: EventMatcher) -> None:
    matcher.subscribe(rule(types=("*",)))
    own = [f"{first}.done" for first in ("send", "notification", "webhook", "device")]
    for name in own:
        assert matcher.subscriptions.current().rules(fans(3, type=name)) == []
    assert len(matcher.subscriptions.current().rules(fans(3))) == 1


@pytest.mark.parametrize(
    ("owner", "reason", "detail"),
    [
        pytest.param({"clubs": "8"}, "owner", "", marks=pytest.mark.kills(guard="rules.clubs_of_the_owner")),
        pytest.param({"scopes": "read"}, "scope", "send", marks=pytest.mark.kills(guard="rules.scopes_of_the_owner")),
        ({"scopes": "send"}, "scope", "send:content"),
        pytest.param({"expires_at": NOW // 1000}, "owner", "", marks=pytest.mark.kills(guard="rules.revoked_owner")),
        ({"mode": "test"}, "test_key", ""),
        ({"owner": "f" * 16}, "owner", ""),
    ],
)
def test_an_owner_that_may_not_send_sends_nothing(
    owner: dict[str, Any], reason: str, detail: str, capsys: pytest.CaptureFixture[str]
) -> None:
    matcher = EventMatcher()
    matcher.own(**owner)
    matcher.subscribe(rule(data={"title": "by.name", "body": "minute"}), subscribed(2))
    assert matcher.match(fans(3)) == []
    assert matcher.sends() == []
    assert refused(matcher) == [(reason, 1, detail)]
    assert f'"reason":"{reason}"' in capsys.readouterr().out
    assert len(matcher.messages()) == 1


@pytest.mark.kills(guard="rules.unknown_category")
def test_a_rule_of_a_removed_category_sends_nothing(matcher: EventMatcher) -> None:
    matcher.subscribe(rule(type="unheard"))
    assert matcher.match(fans(3)) == []
    assert matcher.sends() == []
    assert refused(matcher) == [("category", 1, "")]


@pytest.mark.kills(guard="rules.critical_audience")
@pytest.mark.parametrize(("recipients", "sends"), [({"audience": {"all_users": True}}, 0), ({}, 1)])
def test_a_critical_category_is_not_sent_to_an_audience(
    matcher: EventMatcher, stored_categories: InMemoryCategories, recipients: dict[str, Any], sends: int
) -> None:
    put_version(stored_categories, "alarms", {"channels": ["push"], "critical": True})
    known_categories().read()
    matcher.own(scopes="send send:critical")
    matcher.subscribe(rule(type="alarms", **recipients))
    assert matcher.match(fans(3)) == []
    assert len(matcher.sends()) == sends
    assert len(refused(matcher)) == 1 - sends


@pytest.mark.kills(guard="rules.refusals_of_outages")
def test_refusals_are_stored_after_an_outage(matcher: EventMatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other destinations of their events do not wait for it."""
    matcher.subscribe(rule(), rule(2, type="unheard"), subscribed(3))

    def fail(*_: Any) -> None:
        raise Retry("down")

    with monkeypatch.context() as patch:
        patch.setattr(matcher.stored, "refuse", fail)
        assert matcher.match(fans(), fans(3, event_id="e2"), fans("x", event_id="e3")) == []
    assert (refused(matcher), len(matcher.messages())) == ([], 3)
    matcher.clock.advance(5)
    assert matcher.match(fans(event_id="e4"), first=3) == []
    assert refused(matcher) == [("no_recipients", 3, "")]
    assert refused(matcher, "sub_2") == [("category", 4, "")]
    found = matcher.stored.find(SubscriptionKey(rules_of(7), "sub_1"))
    assert found is not None
    assert found.refused == (RefusedEvents(RuleRefusal.NO_RECIPIENTS, 3, NOW + 5_000),)


@pytest.mark.kills(guard="rules.bounded_refusals")
def test_a_batch_stores_the_refusals_of_some_rules(matcher: EventMatcher) -> None:
    """The others follow with the next batches: events of other rules do not wait for a request for each."""
    numbers = range(MAX_RULES_STORED + 1)
    matcher.subscribe(*(rule(number, type="unheard") for number in numbers))
    stored = []
    for first, event in enumerate((fans(1), occurred("e2", club_id=8))):
        matcher.match(event, first=first)
        stored.append(sum(bool(refused(matcher, f"sub_{number}")) for number in numbers))
    assert stored == [MAX_RULES_STORED, MAX_RULES_STORED + 1]


def test_a_revoked_key_sends_nothing_a_minute_later(matcher: EventMatcher) -> None:
    matcher.subscribe(rule())
    matcher.match(fans(3))
    matcher.keys.end(matcher.own().digest, NOW // 1000)
    matcher.clock.advance(RULE_OWNERS_CACHED_S)
    matcher.match(fans(3, event_id="e2"))
    assert [each.reference for each in matcher.sends()] == ["e1"]


@pytest.mark.parametrize(
    ("data", "fields", "reason"),
    [
        pytest.param({}, {}, "no_recipients", marks=pytest.mark.kills(guard="rules.recipients_in_data")),
        ({"fans": []}, {}, "no_recipients"),
        ({"fans": ["3"]}, {}, "no_recipients"),
        ({"fans": [True]}, {}, "no_recipients"),
        ({"fans": list(range(1, CHUNK_SIZE + 2))}, {}, "too_many_recipients"),
        ({"fans": 3, "a": "x" * 60_000}, {"data": {"a": "a", "b": "a"}}, "variables_too_large"),
        pytest.param(
            {}, {"unit_attribute": "team"}, "no_unit", marks=pytest.mark.kills(guard="rules.event_without_unit")
        ),
    ],
)
def test_an_event_without_usable_values_makes_no_send(
    matcher: EventMatcher, data: Any, fields: dict[str, Any], reason: str
) -> None:
    matcher.subscribe(rule(**fields))
    assert matcher.match(occurred(data=json.dumps(data)), fans(4, event_id="e2", unit="100")) == []
    assert "e1" not in {each.reference for each in matcher.sends()}
    assert refused(matcher) == [(reason, 1, "")]


@pytest.mark.kills(guard="rules.limit_of_the_owner")
def test_sends_end_with_the_recipients_of_a_day(matcher: EventMatcher) -> None:
    matcher.own(recipients_a_day=5)
    matcher.subscribe(rule())
    events = [fans(1, 2, event_id="e1"), fans(3, 4, event_id="e2"), fans(5, 6, event_id="e3")]
    assert matcher.match(*events) == []
    assert matcher.match(*events) == []
    assert {each.reference for each in matcher.sends()} == {"e1", "e2"}
    assert refused(matcher) == [("recipients_a_day", 4, "5")]
    matcher.clock.advance(86_400)
    matcher.match(fans(7, event_id="e4"))
    assert matcher.sends()[-1].reference == "e4"


def test_a_redelivered_batch_is_counted_once(matcher: EventMatcher) -> None:
    matcher.own(recipients_a_day=5)
    matcher.subscribe(rule())
    for _ in range(3):
        matcher.match(fans(1, 2, event_id="e1"), fans(3, 4, event_id="e2"))
    assert len(matcher.sends()) == 6
    assert list(matcher.usage.used.values()) == [4]


@pytest.mark.parametrize("dependency", ["usage", "keys"])
def test_events_of_rules_wait_while_a_store_is_down(
    matcher: EventMatcher, dependency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher.own(recipients_a_day=5)
    matcher.subscribe(rule(), subscribed(2, club_ids=(8,)))

    def fail(*_: Any, **__: Any) -> None:
        raise Retry("down")

    with monkeypatch.context() as patch:
        patch.setattr(getattr(matcher, dependency), "take" if dependency == "usage" else "find_by_id", fail)
        assert matcher.match(fans(3), occurred("e2", club_id=8)) == [0]
    assert matcher.match(fans(3)) == []
    assert [each.reference for each in matcher.sends()] == ["e1"]


@pytest.mark.parametrize(
    ("fields", "audience"),
    [
        ({"audience": {"all_users": True}}, {"all_users": True}),
        ({"unit_attribute": "team"}, {"where": {"field": "attributes.team", "is": "100/7"}}),
    ],
)
def test_an_audience_is_expanded_within_the_owners_limit(
    matcher: EventMatcher, fields: dict[str, Any], audience: Any
) -> None:
    matcher.own(recipients_a_day=5, counted_under="maker")
    matcher.subscribe(rule(**fields))
    assert matcher.match(occurred(unit="100/7")) == []
    (request,) = matcher._decoded(AudienceRequested, topics.AUDIENCE)
    assert json.loads(request.audience) == audience
    assert (request.club_id, request.key_id, request.recipients_a_day) == (7, "maker", 5)
    assert json.loads(request.send)["send_id"] == request.send_id
    assert matcher.sends() == []
