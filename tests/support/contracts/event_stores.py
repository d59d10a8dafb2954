"""The tests that every store of event types, sources, subscriptions and ids of events must pass, in memory and real."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from masscomm.domain.events import EventType
from masscomm.domain.ids import event_message_id
from masscomm.domain.notification_rules import NotificationRule, Owner, RefusedEvents, RuleRefusal
from masscomm.domain.records import EventOccurred
from masscomm.domain.subscriptions import Subscription, SubscriptionKey, rules_of
from masscomm.domain.time_limits import BATCH_MARKS_KEPT_S, OWN_EVENTS_KEPT_S
from masscomm.domain.webhook_sources import (
    MAX_ACCEPTED,
    MAX_REFUSALS,
    AcceptedWebhook,
    Encoding,
    Refusal,
    RefusedWebhook,
    Scheme,
    Signature,
    SourceKey,
    WebhookSource,
)
from masscomm.domain.webhooks import EndpointKey
from masscomm.stores.batch_marks.port import BatchKey, BatchMark, BatchMarks
from masscomm.stores.delayed_records.port import DelayedRecord, Prepared
from masscomm.stores.event_ids.port import EventIds, EventKey
from masscomm.stores.event_types.port import EventTypes
from masscomm.stores.key_queues.port import KeyQueue, KeyQueues, Ordering
from masscomm.stores.sent_messages.port import Partition, RecordPosition, Sent, SentMessages
from masscomm.stores.subscriptions.port import Subscriptions, TooManySubscriptions
from masscomm.stores.webhook_sources.port import Refusals, WebhookSources

AT_MS = 1_700_000_000_000
AT_S = AT_MS // 1000
ENDPOINT, OTHER = EndpointKey(7, "ep_7_aaaaaaaaaaaaaaaaaaaa"), EndpointKey(8, "ep_8_aaaaaaaaaaaaaaaaaaaa")
GOAL = EventType(name="match.goal", description="A goal")
FINISHED = EventType(
    name="match.finished",
    description="A match has finished",
    example={"goals": [2, 1], "club": "Ö"},
    schema='{"type": "object"}',
    user_path="player.id",
)


def subscription(number: int = 1, endpoint: EndpointKey = ENDPOINT) -> Subscription:
    return Subscription(
        id=f"sub_{number:04d}",
        endpoint=endpoint,
        types=("match.*", "ticket.sold"),
        club_ids=(7, 8),
        units=("100", "200/3"),
        filter={"kind": ["league", 1, True, None]},
        fields=("player.id", "kind"),
    )


KEY = SubscriptionKey(ENDPOINT, "sub_0001")
OWN = EventOccurred(event_id="evt_1", type="send.completed", club_id=7, occurred_at=AT_MS, data='{"a":"ö"}')


class EventTypesContract:
    """Subclasses define the fixture `event_types`, an empty store."""

    def test_a_stored_type_is_found(self, event_types: EventTypes) -> None:
        assert event_types.find(["match.goal"]) == {}
        assert event_types.put(FINISHED)
        assert event_types.put(GOAL)
        both = {"match.finished": FINISHED, "match.goal": GOAL}
        assert event_types.find(["match.finished", "match.goal", "match.goal", "match.other"]) == both
        assert list(event_types.every()) == [FINISHED, GOAL]

    def test_a_type_replaces_the_earlier_one(self, event_types: EventTypes) -> None:
        event_types.put(FINISHED)
        plain = EventType(name=FINISHED.name, description="Ended")
        assert not event_types.put(plain)
        assert list(event_types.every()) == [plain]

    def test_a_deleted_type_is_not_found(self, event_types: EventTypes) -> None:
        event_types.put(GOAL)
        assert event_types.delete(GOAL.name)
        assert not event_types.delete(GOAL.name)
        assert event_types.find([GOAL.name]) == {}


class SubscriptionsContract:
    """Subclasses define the fixture `subscriptions`, an empty store."""

    def test_a_stored_subscription_is_found(self, subscriptions: Subscriptions) -> None:
        assert subscriptions.find(KEY) is None
        every_club = replace(subscription(2), club_ids=None, units=(), filter={})
        for each in (every_club, subscription(), subscription(3, OTHER)):
            subscriptions.put(each, AT_MS)
        assert subscriptions.find(KEY) == subscription()
        assert list(subscriptions.of_endpoint(ENDPOINT)) == [subscription(), every_club]

    def test_a_stored_rule_is_found(self, subscriptions: Subscriptions) -> None:
        notification = NotificationRule(
            type="news",
            owner=Owner(principal="0123456789abcdef", context={"club_ids": "7"}),
            channels=["push"],
            data={"goals": "goals.home"},
            audience={"all_users": True},
        )
        rules = rules_of(7)
        rule = replace(subscription(), id="sub_7_rules_aaaaaaaaaaaa", endpoint=rules, notification=notification)
        mark = subscriptions.put(rule, AT_MS)
        assert list(subscriptions.of_endpoint(rules)) == [rule]
        assert list(subscriptions.unpublished()) == [mark]
        assert SubscriptionKey.of_id(rule.id) == mark.key == SubscriptionKey(rules, rule.id)

    @pytest.mark.kills(guard="rules.refused_by_deleted")
    def test_refused_events_are_counted_by_reason(self, subscriptions: Subscriptions) -> None:
        def refused() -> Sequence[RefusedEvents]:
            found = subscriptions.find(KEY)
            assert found is not None
            assert list(subscriptions.of_endpoint(ENDPOINT)) == [found]
            return found.refused

        subscriptions.put(subscription(), AT_MS)
        no_scope = RefusedEvents(RuleRefusal.SCOPE, 2, AT_MS + 1, "send")
        no_unit = RefusedEvents(RuleRefusal.NO_UNIT, 1, AT_MS + 2)
        subscriptions.refuse(KEY, [no_scope, no_unit])
        assert refused() == (no_unit, no_scope)
        later = RefusedEvents(RuleRefusal.SCOPE, 3, AT_MS + 3, "send:content")
        subscriptions.refuse(KEY, [later])
        assert refused() == (later._replace(events=5), no_unit)
        subscriptions.put(subscription(), AT_MS)
        assert refused() == ()
        subscriptions.delete(KEY, AT_MS)
        subscriptions.refuse(KEY, [no_unit])
        assert subscriptions.find(KEY) is None

    def test_a_change_is_unpublished_until_it_is_published(self, subscriptions: Subscriptions) -> None:
        first = subscriptions.put(subscription(), AT_MS)
        assert (first.key, first.at_ms) == (KEY, AT_MS)
        assert list(subscriptions.unpublished()) == [first]
        subscriptions.published(first)
        assert list(subscriptions.unpublished()) == []

    @pytest.mark.kills(guard="subscriptions.later_change")
    def test_a_later_change_stays_unpublished(self, subscriptions: Subscriptions) -> None:
        first = subscriptions.put(subscription(), AT_MS)
        second = subscriptions.put(replace(subscription(), revision=2), AT_MS)
        subscriptions.published(first)
        assert list(subscriptions.unpublished()) == [second]

    def test_a_deletion_is_unpublished_too(self, subscriptions: Subscriptions) -> None:
        subscriptions.published(subscriptions.put(subscription(), AT_MS))
        deletion = subscriptions.delete(KEY, AT_MS + 1)
        assert subscriptions.find(KEY) is None
        assert list(subscriptions.unpublished()) == [deletion]
        assert subscriptions.delete(KEY, AT_MS + 2) is None
        assert list(subscriptions.unpublished()) == [deletion]

    def test_subscriptions_of_a_changed_endpoint_are_marked(self, subscriptions: Subscriptions) -> None:
        for each in (subscription(), subscription(2), subscription(3, OTHER)):
            subscriptions.published(subscriptions.put(each, AT_MS))
        marks = subscriptions.mark([KEY, SubscriptionKey.implicit(OTHER)], AT_MS + 1)
        assert [(mark.key, mark.at_ms) for mark in marks] == [
            (KEY, AT_MS + 1),
            (SubscriptionKey.implicit(OTHER), AT_MS + 1),
        ]
        assert sorted(subscriptions.unpublished(), key=lambda mark: mark.key) == list(marks)

    def test_an_endpoint_has_a_maximum_of_subscriptions(
        self, subscriptions: Subscriptions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each put reads the others, so the maximum of a hundred would take seconds."""
        maximum = 3
        monkeypatch.setattr(f"{type(subscriptions).__module__}.MAX_SUBSCRIPTIONS", maximum)
        for number in range(maximum):
            subscriptions.put(subscription(number), AT_MS)
        with pytest.raises(TooManySubscriptions):
            subscriptions.put(subscription(maximum), AT_MS)
        subscriptions.put(replace(subscription(), revision=2), AT_MS)


class EventIdsContract:
    """Subclasses define the fixture `event_ids`, an empty store."""

    def test_a_recorded_id_is_known_in_its_club(self, event_ids: EventIds) -> None:
        first, second, of_other = EventKey(7, "a"), EventKey(7, "b"), EventKey(8, "a")
        event_ids.record({first: "one", second: "two"}, AT_S)
        assert event_ids.known([first, second, of_other], AT_S) == {first: "one", second: "two"}

    def test_many_ids_are_recorded_together(self, event_ids: EventIds) -> None:
        keys = [EventKey(7, str(number)) for number in range(100)]
        event_ids.record(dict.fromkeys(keys, "d"), AT_S)
        assert len(event_ids.known(keys, AT_S)) == 100

    @pytest.mark.kills(guard="events.expired_id")
    def test_an_id_of_yesterday_is_not_known(self, event_ids: EventIds) -> None:
        event_ids.record({EventKey(7, "a"): "one"}, AT_S)
        assert event_ids.known([EventKey(7, "a")], AT_S + 86_399) == {EventKey(7, "a"): "one"}
        assert event_ids.known([EventKey(7, "a")], AT_S + 86_400) == {}

    def test_an_own_event_is_kept_apart_from_others(self, event_ids: EventIds) -> None:
        key = EventKey.of(OWN)
        event_ids.record({key: "of a caller"}, AT_S)
        assert event_ids.kept([key], AT_S) == {}
        event_ids.keep([OWN, replace(OWN, event_id="b")], AT_S)
        assert event_ids.kept([key, EventKey(8, OWN.event_id)], AT_S + OWN_EVENTS_KEPT_S - 1) == {key: OWN}
        assert event_ids.known([key], AT_S) == {key: "of a caller"}
        assert event_ids.kept([key], AT_S + OWN_EVENTS_KEPT_S) == {}


class SentMessagesContract:
    """Subclasses define the fixture `sent_messages`, an empty store."""

    def test_a_partition_has_its_last_record(self, sent_messages: SentMessages) -> None:
        one, other = Partition("webhook", 3), Partition("webhook.slow", 3)
        assert sent_messages.find(one) == Sent()
        large = {RecordPosition(2**40 + number, AT_MS + number): set(range(499, -1, -2)) for number in range(1_000)}
        settled = {RecordPosition(5, AT_MS): {0}, RecordPosition(6, -1): {1, 499}, **large}
        prepared = [
            DelayedRecord(
                id=f"r{number}",
                due_ms=AT_MS + number,
                topic="webhook.slow",
                value=b"",
                delay_reason="webhook",
                record_key=key,
                prepared=Prepared(f"copy {number}", 1 + number),
            )
            for number, key in enumerate((None, "17"))
        ]
        sent = Sent(settled=settled, waiting={RecordPosition(5, AT_MS): {1, 2}}, prepared=tuple(prepared))
        sent_messages.record({one: Sent(settled={RecordPosition(4, AT_MS): {7}})}, AT_S)
        sent_messages.record({one: sent}, AT_S)
        found = sent_messages.find(one)
        assert found == sent
        assert [each.prepared for each in found.prepared] == [each.prepared for each in prepared]
        assert sent_messages.find(other) == sent_messages.find(Partition("webhook", 4)) == Sent()

    def test_several_partitions_are_recorded_together(self, sent_messages: SentMessages) -> None:
        sent = {
            Partition("webhook", number): Sent(settled={RecordPosition(number, AT_MS): {number}}) for number in range(9)
        }
        sent_messages.record(sent, AT_S)
        assert {partition: sent_messages.find(partition) for partition in sent} == sent


class KeyQueuesContract:
    """Subclasses define the fixture `queues`, an empty store."""

    def test_a_queue_is_stored_in_the_place_of_the_read_one(self, queues: KeyQueues) -> None:
        of = Ordering(ENDPOINT, AT_MS)
        assert queues.find(of) == {}
        one = KeyQueue(tuple(event_message_id(7, f"e{number}", ENDPOINT.id) for number in range(5_000)), AT_MS + 5)
        two = KeyQueue(one.ids[1:], AT_MS + 6)
        assert queues.replace(of, "a", None, one, AT_S)
        assert queues.replace(of, "b", None, two, AT_S)
        assert queues.find(of) == {"a": one, "b": two}
        assert queues.find(Ordering(ENDPOINT, AT_MS + 1)) == queues.find(Ordering(OTHER, AT_MS)) == {}
        assert queues.replace(of, "a", one, two, AT_S)
        assert queues.replace(of, "b", two, None, AT_S)
        assert queues.find(of) == {"a": two}

    def test_a_changed_queue_is_not_replaced(self, queues: KeyQueues) -> None:
        of, ids = Ordering(ENDPOINT, AT_MS), (event_message_id(7, "e1", ENDPOINT.id),)
        stored = KeyQueue(ids, 5)
        assert queues.replace(of, "a", None, stored, AT_S)
        others = (None, KeyQueue(ids, 6), KeyQueue((*ids, event_message_id(7, "e2", ENDPOINT.id)), 5))
        for old in others:
            for new in (None, KeyQueue(ids, 7)):
                if old != new:
                    assert not queues.replace(of, "a", old, new, AT_S)
        assert queues.find(of) == {"a": stored}
        # A request whose response was lost is repeated.
        assert queues.replace(of, "a", None, stored, AT_S)
        assert queues.replace(of, "a", stored, None, AT_S)
        assert queues.replace(of, "a", stored, None, AT_S)


SHOP = WebhookSource(
    key=SourceKey(7, f"src_7_{'a' * 26}"),
    description="The shop Ö",
    signature=Signature(
        scheme=Scheme.HMAC, header="x-shop-hmac", encoding=Encoding.BASE64, prefix="v0:", id_header="x-shop-id"
    ),
    club_ids=(7, 8),
    mapping={"type": {"value": "order.paid"}, "club_id": {"path": "shop.club"}},
    sealed=b"\x00\xffsealed",
    previous_sealed=b"before",
    previous_until_ms=AT_MS,
    created_at_ms=AT_MS,
)
EVERY_CLUB = WebhookSource(
    key=SourceKey(7, f"src_7_{'b' * 26}"),
    signature=Signature(scheme=Scheme.STRIPE),
    club_ids=None,
    mapping={},
    sealed=b"s",
    created_at_ms=AT_MS,
)


def refused(number: int) -> RefusedWebhook:
    return RefusedWebhook(at_ms=AT_MS + number, message_id=f"m{number}", reason=Refusal.UNMAPPED, detail="club_id Ö")


def accepted(number: int) -> AcceptedWebhook:
    return AcceptedWebhook(AT_MS + number, f"Ö-{number}", "match.finished", 7)


class WebhookSourcesContract:
    """Subclasses define the fixture `sources`, an empty store."""

    def test_a_stored_source_is_found(self, sources: WebhookSources) -> None:
        for each in (EVERY_CLUB, SHOP):
            sources.put(each)
        both = {each.key: each for each in (SHOP, EVERY_CLUB)}
        assert sources.find([*both, SourceKey(8, f"src_8_{'a' * 26}")]) == both
        assert list(sources.of_club(7)) == [SHOP, EVERY_CLUB]
        assert list(sources.of_club(8)) == []

    def test_a_source_replaces_the_earlier_one(self, sources: WebhookSources) -> None:
        sources.put(SHOP)
        changed = replace(SHOP, previous_sealed=None, previous_until_ms=None)
        sources.put(changed)
        assert list(sources.of_club(7)) == [changed]

    def test_a_deleted_source_is_not_found(self, sources: WebhookSources) -> None:
        sources.put(SHOP)
        assert sources.delete(SHOP.key)
        assert not sources.delete(SHOP.key)
        assert sources.find([SHOP.key]) == {}

    def test_the_last_refusals_are_listed(self, sources: WebhookSources) -> None:
        assert sources.refusals(SHOP.key, AT_S) == Refusals(0, [])
        sources.refuse(SHOP.key, [refused(number) for number in range(MAX_REFUSALS + 10)])
        sources.refuse(SHOP.key, [refused(1_000)])
        found = sources.refusals(SHOP.key, AT_S)
        assert found.total == MAX_REFUSALS + 11
        assert list(found.last) == [refused(n) for n in (1_000, *range(MAX_REFUSALS + 9, 10, -1))]
        assert sources.refusals(EVERY_CLUB.key, AT_S).total == 0

    def test_the_last_accepted_webhooks_are_listed(self, sources: WebhookSources) -> None:
        assert list(sources.last_accepted(SHOP.key, AT_S)) == []
        sources.accept(SHOP.key, [accepted(number) for number in range(MAX_ACCEPTED - 1)])
        sources.accept(SHOP.key, [accepted(20), accepted(30)])
        found = sources.last_accepted(SHOP.key, AT_S)
        assert list(found) == [accepted(n) for n in (30, 20, *range(MAX_ACCEPTED - 2, 0, -1))]
        assert list(sources.last_accepted(EVERY_CLUB.key, AT_S)) == []

    @pytest.mark.kills(guard="sources.expired_accepted")
    def test_an_old_accepted_webhook_is_not_listed(self, sources: WebhookSources) -> None:
        sources.accept(SHOP.key, [accepted(0)])
        assert list(sources.last_accepted(SHOP.key, AT_S + 14 * 86_400 - 1)) == [accepted(0)]
        assert list(sources.last_accepted(SHOP.key, AT_S + 14 * 86_400)) == []

    @pytest.mark.kills(guard="sources.expired_refusal")
    def test_an_old_refusal_is_not_listed(self, sources: WebhookSources) -> None:
        sources.refuse(SHOP.key, [refused(0)])
        assert sources.refusals(SHOP.key, AT_S + 14 * 86_400 - 1).total == 1
        assert sources.refusals(SHOP.key, AT_S + 14 * 86_400) == Refusals(0, [])


BATCH = BatchKey("build", 3, 41, AT_MS)


class BatchMarksContract:
    """Subclasses define the fixture `batch_marks`, an empty store."""

    def test_a_batch_begins_without_a_mark(self, batch_marks: BatchMarks) -> None:
        assert batch_marks.begin(BATCH, AT_S) == BatchMark()
        for other in (BATCH._replace(offset=42), BATCH._replace(partition=4), BATCH._replace(timestamp_ms=AT_MS + 1)):
            assert batch_marks.begin(other, AT_S) == BatchMark()

    def test_an_invocation_without_an_end_has_crashed(self, batch_marks: BatchMarks) -> None:
        batch_marks.begin(BATCH, AT_S)
        assert batch_marks.begin(BATCH, AT_S) == BatchMark(invocations=2, crashed=True)

    def test_progress_survives_a_crash(self, batch_marks: BatchMarks) -> None:
        mark = batch_marks.begin(BATCH, AT_S)
        progress = {"done": {"build-3@41", "build-3@42"}, "begun": {"build-3@43"}, "crashes": {"build-3@44": 2}}
        batch_marks.record(BATCH, replace(mark, **progress), ended=False)  # type: ignore[arg-type]
        found = batch_marks.begin(BATCH, AT_S)
        assert (found.invocations, found.crashed) == (2, True)
        assert {"done": set(found.done), "begun": set(found.begun), "crashes": found.crashes} == progress

    def test_an_invocation_that_ended_has_not_crashed(self, batch_marks: BatchMarks) -> None:
        mark = batch_marks.begin(BATCH, AT_S)
        batch_marks.record(BATCH, replace(mark, begun={"build-3@41"}), ended=False)
        batch_marks.record(BATCH, replace(mark, done={"build-3@41"}), ended=True)
        found = batch_marks.begin(BATCH, AT_S)
        assert (found.invocations, found.crashed, set(found.done), set(found.begun)) == (
            2,
            False,
            {"build-3@41"},
            set(),
        )
        assert batch_marks.begin(BATCH, AT_S).crashed

    def test_an_expired_mark_is_absent(self, batch_marks: BatchMarks) -> None:
        mark = batch_marks.begin(BATCH, AT_S)
        batch_marks.record(BATCH, replace(mark, done={"build-3@41"}), ended=True)
        assert batch_marks.begin(BATCH, AT_S + BATCH_MARKS_KEPT_S) == BatchMark()
        assert batch_marks.begin(BATCH, AT_S + BATCH_MARKS_KEPT_S + 1) == BatchMark(invocations=2, crashed=True)

    def test_a_mark_has_each_record_of_the_largest_batch(self, batch_marks: BatchMarks) -> None:
        done = {f"webhook.batched-{offset % 6}@{10**9 + offset}" for offset in range(10_000)}
        batch_marks.record(BATCH, replace(batch_marks.begin(BATCH, AT_S), done=done), ended=True)
        assert set(batch_marks.begin(BATCH, AT_S).done) == done
