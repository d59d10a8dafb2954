"""Webhook endpoints over HTTP: a caller manages those of its clubs."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from functions.operations_handler import handler as operations_handler
from functions.operations_handler.routes.webhooks import WebhooksRoute
from masscomm.aws.sealed_secrets import SecretBox
from masscomm.chain.publish_subscriptions import PublishSubscriptions
from masscomm.chain.waiting_messages import WaitingMessages
from masscomm.clock import FixedClock
from masscomm.domain.events import EventType
from masscomm.domain.ids import event_message_id
from masscomm.domain.own_events import OWN_EVENTS
from masscomm.domain.records import SubscriptionChanged
from masscomm.domain.subscriptions import Subscription, SubscriptionKey
from masscomm.domain.time_limits import IDEMPOTENCY_KEPT_S, WEBHOOK_DEAD_LETTERS_KEPT_S, WEBHOOK_SECRET_OVERLAP_S
from masscomm.domain.webhook_signatures import secret_of
from masscomm.domain.webhooks import MAX_ENDPOINTS, DeliveryStatus, EndpointKey
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.kafka import topics
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.event_ids.in_memory import InMemoryEventIds
from masscomm.stores.event_types.in_memory import InMemoryEventTypes
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.subscriptions.in_memory import InMemorySubscriptions
from masscomm.stores.webhook_dead_letters.port import WebhookDeadLetter
from tests.support.contracts.webhook_results import HOUR, NOON, attempt
from tests.support.fakes.data_keys import InMemoryDataKeys
from tests.support.harness.events import WebhookSender, occurred
from tests.support.harness.webhooks import Webhooks
from tests.support.servers.customer_account import ACCOUNT, BUS, QUEUE, ROLE

SEVEN, EIGHT = Clubs(frozenset({7})), Clubs(frozenset({8}))
URL = "https://hooks.example.org/a?token=hidden"


class Setting:
    """The routes over stores in memory."""

    def __init__(self) -> None:
        self.webhooks = Webhooks()
        self.webhooks.endpoints.stored.clear()
        self.clock: FixedClock = self.webhooks.clock
        self.audit_log = InMemoryAuditLog()
        self.audit = operations_handler.audits(self.audit_log, self.clock)("k7")
        self.sender = WebhookSender()
        self.sender.clock, self.sender.endpoints = self.clock, self.webhooks.endpoints
        self.subscriptions, self.log = InMemorySubscriptions(), InMemoryMetricsStore()
        self.event_ids, self.event_types = InMemoryEventIds(), InMemoryEventTypes()
        self.route = WebhooksRoute(
            endpoints=self.webhooks.endpoints,
            event_ids=self.event_ids,
            event_types=self.event_types,
            log=self.log,
            dead_letters=self.sender.given_up,
            waiting=WaitingMessages(store=self.sender.delayed, codec=self.sender.codec, clock=self.clock),
            publishing=PublishSubscriptions(
                store=self.subscriptions,
                endpoints=self.webhooks.endpoints,
                codec=self.sender.codec,
                producer=self.sender.producer,
                clock=self.clock,
            ),
            box=SecretBox(InMemoryDataKeys()),
            keys=self.webhooks.keys,
            clock=self.clock,
        )

    def create(self, clubs: Clubs = SEVEN, **fields: Any) -> Any:
        return self.create_under(None, clubs, **fields)[0]

    def create_under(self, key: str | None, clubs: Clubs = SEVEN, **fields: Any) -> tuple[Any, bool]:
        given = {"club_id": 7, "url": URL} | fields
        return self.route.create(json.dumps(given), clubs, "k7", self.audit, key)

    def change(self, id_: str, clubs: Clubs = SEVEN, **fields: Any) -> Any:
        return self.route.change(id_, json.dumps(fields), clubs, self.audit)

    def test(self, id_: str, key: str | None = None) -> Any:
        return self.route.test(id_, None, SEVEN, self.audit, key)[0]

    def rotate(self, id_: str, key: str | None = None) -> tuple[Any, bool]:
        return self.route.rotate(id_, None, SEVEN, "k7", self.audit, key)

    def waiting(self) -> list[tuple[str, str]]:
        """Return (event type, webhook-id) of each message that is sent within a minute."""
        return [
            (event.type, event_message_id(event.club_id, event.event_id, record.endpoints[0]))
            for record in self.sender.waiting()
            for event in record.events
        ]

    def published(self) -> list[Subscription | None]:
        """Return each published subscription; None for a deletion."""
        produced = [value for topic, _, value in self.sender.produced() if topic == topics.SUBSCRIPTION]
        decode = self.sender.codec.decode
        return [
            None
            if value is None
            else Subscription.of_record(SubscriptionChanged.from_avro(decode("SubscriptionChanged", value)))
            for value in produced
        ]

    def actions(self) -> list[str]:
        return [entry.action for entry in self.audit_log.entries]


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_a_created_endpoint_is_listed_without_its_secret(setting: Setting) -> None:
    created = setting.create(event_types=["send.completed"], description="shop")
    endpoint = created["endpoint"]
    key = EndpointKey.of_id(endpoint["id"])
    assert key is not None
    secret = secret_of(setting.webhooks.keys.now(), key_id="1", endpoint_id=key.id, version=1)
    assert created["secret"] == secret
    page = setting.route.answer({}, SEVEN)
    assert page["rows"] == [endpoint]
    assert setting.route.show(endpoint["id"], SEVEN) == endpoint
    everything = json.dumps(page) + repr(setting.webhooks.endpoints.stored) + repr(setting.audit_log.entries)
    assert secret not in everything
    assert "hidden" not in repr(setting.audit_log.entries)
    (entry,) = setting.audit_log.entries
    assert (entry.action, entry.club_id, entry.principal) == ("webhook.created", 7, "k7")
    assert (entry.subject, entry.detail) == (endpoint["id"], "hooks.example.org")


def test_a_queue_or_a_bus_is_an_endpoint_with_a_role(setting: Setting) -> None:
    created = setting.create(url=QUEUE, role_arn=ROLE)["endpoint"]
    assert (created["url"], created["role_arn"], created["external_id"]) == (QUEUE, ROLE, created["id"])
    assert setting.audit_log.entries[-1].detail == QUEUE
    changed = setting.change(created["id"], url=BUS)
    assert (changed["url"], changed["role_arn"]) == (BUS, ROLE)
    server = setting.change(created["id"], url=URL, role_arn=None)
    assert (server["role_arn"], server["external_id"]) == (None, None)
    alone: list[dict[str, Any]] = [{"url": QUEUE}, {"role_arn": ROLE}]
    for fields in alone:
        with pytest.raises(Problem):
            setting.change(created["id"], **fields)


@pytest.mark.parametrize(
    ("url", "role_arn", "code"),
    [
        (QUEUE, None, "role_form"),
        (QUEUE, ROLE.replace("masscomm-", ""), "role_form"),
        pytest.param(
            QUEUE,
            ROLE.replace(ACCOUNT, "444455556666"),
            "role_form",
            marks=pytest.mark.kills(guard="aws_targets.role_of_the_account"),
        ),
        (QUEUE, 7, "role_form"),
        (URL, ROLE, "role_without_target"),
        ("arn:aws:sns:eu-central-1:111122223333:orders", ROLE, "url_not_https"),
    ],
)
def test_a_target_needs_a_role_of_its_account(setting: Setting, url: str, role_arn: Any, code: str) -> None:
    with pytest.raises(Problem) as raised:
        setting.create(url=url, role_arn=role_arn)
    assert raised.value.status == 400
    assert code in {each.message.code for each in raised.value.errors}


def test_the_settings_for_events_have_defaults_and_change(setting: Setting) -> None:
    id_ = setting.create(max_count=500, rate_per_s=100, contact_user_id=42)["endpoint"]["id"]
    settings = ("max_count", "max_bytes", "max_wait_s", "max_concurrency", "rate_per_s", "contact_user_id")
    created: Any = setting.route.show(id_, SEVEN)
    assert [created[name] for name in settings] == [500, 256_000, 1, 8, 100, 42]
    others: Any = {"max_wait_s": 60, "max_concurrency": 32, "rate_per_s": None, "contact_user_id": None}
    changed = setting.change(id_, max_bytes=1_000_000, **others)
    assert [changed[name] for name in settings] == [500, 1_000_000, 60, 32, None, None]


@pytest.mark.parametrize(
    ("field", "value", "limits"),
    [
        ("max_count", 0, "1 to 1,000"),
        ("max_count", 1_001, "1 to 1,000"),
        ("max_count", True, "1 to 1,000"),
        ("max_bytes", 999, "1,000 to 1,000,000"),
        ("max_bytes", None, "1,000 to 1,000,000"),
        ("max_wait_s", 3_601, "1 to 3,600"),
        ("max_concurrency", "8", "1 to 32"),
        ("max_concurrency", 33, "1 to 32"),
        ("rate_per_s", 0, "1 to 10,000"),
        ("rate_per_s", 1.5, "1 to 10,000"),
        ("contact_user_id", 0, "1 to 9,223,372,036,854,775,807"),
    ],
)
def test_a_setting_beyond_its_limits_is_refused(setting: Setting, field: str, value: Any, limits: str) -> None:
    for call in (partial(setting.create), partial(setting.change, "x")):
        with pytest.raises(Problem) as raised:
            call(**{field: value})
        assert raised.value.status == 400
        ((name, text),) = [(each.field, str(each.message)) for each in raised.value.errors]
        assert (name, text) == (field, f"a whole number from {limits}".replace(",", ""))


@pytest.mark.kills(guard="webhooks.order_of_gathered")
def test_an_endpoint_is_ordered_from_a_request_on(setting: Setting) -> None:
    """It then gathers no messages in the delay store."""

    def since() -> int | None:
        (stored,) = setting.webhooks.endpoints.stored.values()
        return stored.ordered_since_ms

    id_, now_ms = setting.create(ordered=True)["endpoint"]["id"], setting.clock.now_ms()
    setting.clock.advance(1)
    assert (setting.change(id_, ordered=True)["ordered"], since()) == (True, now_ms)
    refused: list[dict[str, Any]] = [{"ordered": "yes"}, {"max_wait_s": 60}]
    for fields in refused:
        with pytest.raises(Problem) as raised:
            setting.change(id_, **fields)
        assert raised.value.status == 400
    assert not setting.change(id_, ordered=False, max_wait_s=60)["ordered"]
    assert setting.change(id_, ordered=True, max_wait_s=1)["ordered"]
    assert since() == now_ms + 1_000
    with pytest.raises(Problem):
        setting.create(ordered=True, max_wait_s=60)


@pytest.mark.parametrize("max_wait_s", [2, 59])
def test_a_wait_that_no_sweep_can_keep_is_refused(setting: Setting, max_wait_s: int) -> None:
    with pytest.raises(Problem) as raised:
        setting.create(max_wait_s=max_wait_s)
    assert [str(each.message) for each in raised.value.errors] == ["must be 1 or 60-3600"]


@pytest.mark.parametrize("fields", [{"url": "https://other.example.org/"}, {"enabled": False}])
def test_a_changed_endpoint_has_not_failed(setting: Setting, fields: dict[str, Any]) -> None:
    key = EndpointKey.of_id(setting.create()["endpoint"]["id"])
    assert key is not None
    stored = setting.webhooks.endpoints.stored
    stored[key] = replace(stored[key], failing_since_ms=1, probe_at_ms=2, failed_probes=3, is_slow=True)
    setting.change(key.id, **fields)
    changed = stored[key]
    assert (changed.failing_since_ms, changed.probe_at_ms, changed.failed_probes) == (None, None, None)
    assert not changed.is_slow


def subscribed(setting: Setting, id_: str) -> None:
    """Store and publish a subscription of an endpoint."""
    key = EndpointKey.of_id(id_)
    assert key is not None
    subscription = Subscription(id="sub_1", endpoint=key, types=("*",), club_ids=(7,))
    setting.subscriptions.published(setting.subscriptions.put(subscription, setting.clock.now_ms()))


def test_the_event_types_of_an_endpoint_are_a_subscription(setting: Setting) -> None:
    created = setting.create(event_types=["send.completed", "webhook.test"])["endpoint"]
    now_ms = setting.clock.now_ms()
    (first,) = setting.published()
    assert first is not None
    assert (first.types, first.club_ids, first.since_ms) == (("send.completed",), (7,), now_ms)
    setting.clock.advance(5)
    changes: list[dict[str, Any]] = [{"event_types": []}, {"enabled": False}, {"enabled": True}]
    for fields in changes:
        setting.change(created["id"], **fields)
    setting.route.delete(created["id"], SEVEN, setting.audit)
    every, disabled, enabled, deleted = setting.published()[1:]
    assert every is not None
    assert enabled is not None
    assert (every.types, every.since_ms, enabled.since_ms) == (("send.*",), now_ms, now_ms + 5_000)
    assert disabled == replace(every, revision=3)
    assert deleted is None
    assert list(setting.subscriptions.unpublished()) == []


def test_a_change_of_max_count_publishes_each_subscription(setting: Setting) -> None:
    """They are published again, so that event_matcher learns that the endpoint is batched."""
    id_ = setting.create()["endpoint"]["id"]
    subscribed(setting, id_)
    setting.sender.forget()
    setting.change(id_, max_count=100)
    assert [(each is not None and each.batched) for each in setting.published()] == [True, True]


def test_a_change_is_published_later_without_kafka(setting: Setting) -> None:
    setting.sender.producer.fail = lambda *_: Retry("no broker answers")
    id_ = setting.create()["endpoint"]["id"]
    assert setting.route.show(id_, SEVEN)["enabled"]
    (mark,) = setting.subscriptions.unpublished()
    assert mark.key.endpoint.id == id_


@pytest.mark.kills(guard="tenancy.created_webhook")
def test_an_endpoint_of_another_club_is_not_created(setting: Setting) -> None:
    with pytest.raises(Problem) as raised:
        setting.create(EIGHT)
    assert raised.value.status == 403
    assert setting.webhooks.endpoints.stored == {}


@pytest.mark.kills(guard="tenancy.webhook")
def test_an_endpoint_of_another_club_is_as_unknown_ones(setting: Setting) -> None:
    theirs = setting.create()["endpoint"]["id"]
    delivery = setting.test(theirs)["id"]
    setting.audit_log.entries.clear()
    for id_ in (theirs, "ep_8_aaaaaaaaaaaaaaaaaaaa", "ep_08_aaaaaaaaaaaaaaaaaaaa", "ep_8_a", "x", f"{theirs} "):
        for call in (
            lambda id_: setting.route.show(id_, EIGHT),
            lambda id_: setting.change(id_, EIGHT, enabled=False),
            lambda id_: setting.route.delete(id_, EIGHT, setting.audit),
            lambda id_: setting.route.rotate(id_, None, EIGHT, "k7", setting.audit),
            lambda id_: setting.route.test(id_, None, EIGHT, setting.audit),
            lambda id_: setting.route.list_deliveries(id_, {}, EIGHT),
            lambda id_: setting.route.resend(id_, delivery, None, EIGHT, setting.audit),
        ):
            with pytest.raises(Problem) as raised:
                call(id_)
            assert (raised.value.status, raised.value.detail) == (404, "The endpoint is unknown.")
    assert setting.audit_log.entries == []
    assert setting.route.show(theirs, SEVEN)["enabled"]


@pytest.mark.kills(guard="tenancy.webhooks")
def test_a_caller_lists_the_endpoints_of_its_clubs(setting: Setting) -> None:
    setting.create()
    assert setting.route.answer({}, EIGHT)["rows"] == []
    with pytest.raises(Problem) as raised:
        setting.route.answer({"club_id": ["7"]}, EIGHT)
    assert raised.value.status == 403
    with pytest.raises(Problem, match="club_id"):
        setting.route.answer({}, ALL_CLUBS)
    assert len(setting.route.answer({"club_id": ["7", "8"]}, ALL_CLUBS)["rows"]) == 1


def test_pages_of_endpoints_continue_by_cursor(setting: Setting) -> None:
    clubs = Clubs(frozenset(range(1, 31)))
    for club_id in (3, 29):
        setting.create(clubs, club_id=club_id)
    first = setting.route.answer({}, clubs)
    assert [row["club_id"] for row in first["rows"]] == [3]
    assert first["truncated"]
    second = setting.route.answer({"cursor": [first["next_cursor"] or ""]}, clubs)
    assert [row["club_id"] for row in second["rows"]] == [29]
    assert (second["truncated"], second["next_cursor"]) == (False, None)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"url": "http://hooks.example.org/"}, ["url"]),
        ({"url": 7}, ["url"]),
        ({"club_id": "7"}, ["club_id"]),
        ({"club_id": True}, ["club_id"]),
        ({"event_types": ["send.none"]}, ["event_types"]),
        ({"event_types": "send.completed"}, ["event_types"]),
        ({"event_types": [["x"]]}, ["event_types"]),
        ({"description": "x" * 201}, ["description"]),
        ({"description": "a\nb", "secret": "x", "url": ""}, ["secret", "url", "description"]),
    ],
)
def test_wrong_fields_are_all_named(setting: Setting, fields: dict[str, Any], names: list[str]) -> None:
    with pytest.raises(Problem) as raised:
        setting.create(**fields)
    assert (raised.value.status, [error.field for error in raised.value.errors]) == (400, names)
    assert setting.webhooks.endpoints.stored == {}


def test_a_missing_url_is_named(setting: Setting) -> None:
    with pytest.raises(Problem, match="url"):
        setting.route.create('{"club_id": 7}', SEVEN, "k7", setting.audit)


def test_a_club_has_a_maximum_of_endpoints(setting: Setting) -> None:
    for _ in range(MAX_ENDPOINTS):
        setting.create()
    with pytest.raises(Problem, match="delete one") as raised:
        setting.create()
    assert raised.value.status == 409


def test_an_endpoint_is_changed_and_disabled(setting: Setting) -> None:
    id_ = setting.create()["endpoint"]["id"]
    changed = setting.change(id_, url="https://hooks.example.org/v2", event_types=["send.paused", "send.paused"])
    assert (changed["url"], changed["event_types"]) == ("https://hooks.example.org/v2", ["send.paused"])
    assert not setting.change(id_, enabled=False)["enabled"]
    with pytest.raises(Problem, match="disabled") as raised:
        setting.route.test(id_, None, SEVEN, setting.audit)
    assert raised.value.status == 409
    with pytest.raises(Problem, match="disabled"):
        setting.route.resend(id_, "x", None, SEVEN, setting.audit)
    assert setting.change(id_, enabled=True)["enabled"]
    assert setting.actions() == ["webhook.created", *["webhook.changed"] * 3]
    with pytest.raises(Problem, match="enabled"):
        setting.change(id_, enabled="yes")


def test_another_url_has_no_earlier_failures(setting: Setting) -> None:
    """An endpoint that failed for days has as many days for its new server."""
    id_ = setting.create()["endpoint"]["id"]
    key = EndpointKey.of_id(id_)
    assert key is not None
    setting.webhooks.endpoints.stored[key] = replace(setting.webhooks.endpoints.stored[key], failing_since_ms=1)
    assert setting.change(id_, description="shop")["failing_since"] is not None
    assert setting.change(id_, url="https://hooks.example.org/v2")["failing_since"] is None


def test_a_rotated_secret_replaces_the_previous_one(setting: Setting) -> None:
    created = setting.create()
    id_ = created["endpoint"]["id"]
    rotated, _ = setting.route.rotate(id_, "{}", SEVEN, "k7", setting.audit)
    assert rotated["secret"] != created["secret"]
    assert rotated["endpoint"]["previous_secret_until"] is not None
    assert setting.actions() == ["webhook.created", "webhook.rotated"]


@pytest.mark.kills(guard="subscriptions.marked_before_deletion")
def test_a_killed_deletion_has_marked_the_subscriptions(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep deletes them once the endpoint is deleted."""
    id_ = setting.create()["endpoint"]["id"]
    subscribed(setting, id_)
    delete = setting.webhooks.endpoints.delete

    def killed(key: EndpointKey) -> bool:
        delete(key)
        raise KeyboardInterrupt

    monkeypatch.setattr(setting.webhooks.endpoints, "delete", killed)
    with pytest.raises(KeyboardInterrupt):
        setting.route.delete(id_, SEVEN, setting.audit)
    assert "sub_1" in [mark.key.id for mark in setting.subscriptions.unpublished()]


@pytest.mark.kills(guard="subscriptions.marked_after_deletion")
def test_a_subscription_created_meanwhile_is_deleted(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    id_ = setting.create()["endpoint"]["id"]
    delete = setting.webhooks.endpoints.delete

    def after_another_request(key: EndpointKey) -> bool:
        subscribed(setting, id_)
        return delete(key)

    monkeypatch.setattr(setting.webhooks.endpoints, "delete", after_another_request)
    setting.route.delete(id_, SEVEN, setting.audit)
    assert setting.subscriptions.stored == {}
    assert list(setting.subscriptions.unpublished()) == []
    assert setting.published()[-2:] == [None, None]


def test_a_deleted_endpoint_is_unknown(setting: Setting) -> None:
    id_ = setting.create()["endpoint"]["id"]
    assert setting.route.delete(id_, SEVEN, setting.audit) == {"id": id_, "status": "deleted"}
    with pytest.raises(Problem, match="unknown"):
        setting.route.show(id_, SEVEN)
    assert setting.actions() == ["webhook.created", "webhook.deleted"]


def test_a_test_event_is_sent_and_sent_again(setting: Setting) -> None:
    id_ = setting.create()["endpoint"]["id"]
    delivery = setting.test(id_)
    assert (delivery["event_type"], delivery["status"]) == ("webhook.test", "pending")
    assert setting.waiting() == [("webhook.test", delivery["event_id"])]
    (record,) = setting.sender.waiting()
    assert json.loads(record.events[0].data) == {"club_id": 7, "endpoint_id": id_}
    setting.sender.delayed.items.clear()
    again, _ = setting.route.resend(id_, delivery["id"], None, SEVEN, setting.audit)
    assert again["status"] is DeliveryStatus.PENDING
    assert setting.waiting() == [("webhook.test", delivery["event_id"])]
    assert setting.actions() == ["webhook.created", "webhook.tested", "webhook.resent"]


def test_a_test_event_probes_a_failing_endpoint_now(setting: Setting) -> None:
    id_ = setting.create()["endpoint"]["id"]
    key = EndpointKey.of_id(id_)
    assert key is not None
    stored, now_ms = setting.webhooks.endpoints.stored, setting.clock.now_ms()
    stored[key] = replace(stored[key], failing_since_ms=1, probe_at_ms=now_ms + 3_600_000, failed_probes=3)
    setting.test(id_)
    assert stored[key].probe_at_ms == now_ms


@pytest.mark.kills(guard="tenancy.deliveries")
def test_deliveries_are_those_of_the_log(setting: Setting) -> None:
    id_ = setting.create()["endpoint"]["id"]
    rows = [
        attempt("a", status="retried", http_status=None, error="no answer"),
        attempt("a", attempt=2, at=NOON + HOUR),
        attempt("b", at=NOON + HOUR / 2, status="given_up", http_status=410),
        attempt("c", club_id=8),
    ]
    setting.log.webhook_rows = [replace(row, endpoint_id=id_) for row in rows]
    first = setting.route.list_deliveries(id_, {"limit": ["1"]}, SEVEN)
    rest = setting.route.list_deliveries(id_, {"limit": ["1"], "cursor": [first["next_cursor"] or ""]}, SEVEN)
    found = [*first["rows"], *rest["rows"]]
    assert [(row["event_id"], row["status"], row["attempts"]) for row in found] == [
        ("a", "succeeded", 2),
        ("b", "failed", 1),
    ]
    assert found[0]["at"] == "2026-11-21T12:00:00Z"
    assert [(each["status"], each["error"]) for each in found[0]["last_attempts"]] == [(200, None), (None, "no answer")]
    assert (first["truncated"], rest["truncated"], rest["next_cursor"]) == (True, False, None)


def test_a_dead_letter_is_sent_again_by_its_event(setting: Setting) -> None:
    id_ = setting.create()["endpoint"]["id"]
    key = EndpointKey.of_id(id_)
    assert key is not None
    now_ms = setting.clock.now_ms()
    letter = WebhookDeadLetter(
        endpoint=key,
        message_id=event_message_id(7, "match-1", id_),
        event=occurred("match-1"),
        produced_at_ms=now_ms,
        at_ms=now_ms,
        reason="all attempts failed",
        attempts=8,
    )
    setting.sender.given_up.put([letter])
    with pytest.raises(Problem, match="delivery is unknown"):
        setting.route.resend(id_, "match-1", None, SEVEN, setting.audit)
    at = datetime.fromtimestamp(letter.at_ms / 1000, UTC)
    row = attempt(letter.message_id, endpoint_id=id_, at=at, status="given_up", http_status=410)
    setting.log.webhook_rows = [row]
    for replayed in (False, True):
        resent = setting.route.resend(id_, "match-1", None, SEVEN, setting.audit, "key")
        assert (resent[0]["event_id"], resent[1]) == (letter.message_id, replayed)
        assert setting.waiting() == [("match.goal", letter.message_id)]
    setting.clock.advance(WEBHOOK_DEAD_LETTERS_KEPT_S)
    with pytest.raises(Problem, match="delivery is unknown"):
        setting.route.resend(id_, "match-1", None, SEVEN, setting.audit)


@pytest.mark.parametrize("delivery", ["x", "1700000000000-evt_" + "0" * 32, "\x00", "1" * 2_000])
def test_an_unknown_delivery_is_not_sent_again(setting: Setting, delivery: str) -> None:
    id_ = setting.create()["endpoint"]["id"]
    with pytest.raises(Problem, match="delivery is unknown") as raised:
        setting.route.resend(id_, delivery, None, SEVEN, setting.audit)
    assert raised.value.status == 404


@pytest.mark.kills(guard="webhooks.other_request")
def test_a_repeated_creation_has_the_same_endpoint(setting: Setting) -> None:
    first, replayed = setting.create_under("k", event_types=["send.completed"])
    assert not replayed
    again = setting.route.create(
        json.dumps({"event_types": ["send.completed"], "url": URL, "club_id": 7}), SEVEN, "k7", setting.audit, "k"
    )
    assert again == (first, True)
    with pytest.raises(Problem, match="another request") as raised:
        setting.create_under("k", description="other")
    assert raised.value.status == 422
    assert setting.create_under("other")[0]["endpoint"]["id"] != first["endpoint"]["id"]
    assert setting.create_under("k", EIGHT, club_id=8)[1] is False
    assert setting.actions() == ["webhook.created"] * 3


@pytest.mark.kills(guard="webhooks.other_principal")
def test_creation_repeated_by_another_principal_is_refused(setting: Setting) -> None:
    """The response would have the secret, which only its maker sees."""
    setting.create_under("k")
    with pytest.raises(Problem, match="another request") as raised:
        setting.route.create(json.dumps({"club_id": 7, "url": URL}), SEVEN, "k8", setting.audit, "k")
    assert raised.value.status == 422
    assert setting.create_under("k")[1]


def test_creation_is_repeated_at_the_maximum_of_endpoints(setting: Setting) -> None:
    for number in range(MAX_ENDPOINTS):
        setting.create_under(f"k{number}")
    assert setting.create_under("k0")[1]


def test_a_key_is_free_after_a_day(setting: Setting) -> None:
    first, _ = setting.create_under("k")
    setting.clock.advance(IDEMPOTENCY_KEPT_S)
    second, replayed = setting.create_under("k", description="other")
    assert not replayed
    assert second["endpoint"]["id"] != first["endpoint"]["id"]
    assert setting.create_under("k", description="other") == (second, True)


def test_a_late_repetition_restores_no_endpoint(setting: Setting) -> None:
    """The endpoint is deleted; later requests have another secret."""
    first, _ = setting.create_under("k")
    setting.route.delete(first["endpoint"]["id"], SEVEN, setting.audit)
    with pytest.raises(Problem, match="is deleted") as raised:
        setting.create_under("k")
    assert raised.value.status == 409
    assert setting.webhooks.endpoints.stored == {}
    setting.clock.advance(IDEMPOTENCY_KEPT_S)
    second, _ = setting.create_under("k")
    assert (second["endpoint"]["id"], second["secret"]) != (first["endpoint"]["id"], first["secret"])


@pytest.mark.kills(guard="webhooks.rotated_once")
def test_a_repeated_rotation_makes_no_third_secret(setting: Setting) -> None:
    """The first response is lost: the configured secret continues to sign."""
    created = setting.create()
    id_ = created["endpoint"]["id"]
    first = setting.rotate(id_, "a")
    again = setting.rotate(id_, "a")
    assert (first[1], again) == (False, (first[0], True))
    (stored,) = setting.webhooks.endpoints.stored.values()
    assert [version for _, version in stored.secret_versions(setting.clock.now_ms())] == [2, 1]
    assert setting.actions() == ["webhook.created", "webhook.rotated"]


def test_a_late_repetition_of_a_rotation_changes_nothing(setting: Setting) -> None:
    """Another rotation has followed; the response has the secret that the request made."""
    id_ = setting.create()["endpoint"]["id"]
    first, second = setting.rotate(id_, "a")[0], setting.rotate(id_, "b")[0]
    assert setting.rotate(id_, "a") == ({**second, "secret": first["secret"]}, True)
    assert setting.rotate(id_, "b") == (second, True)
    setting.clock.advance(WEBHOOK_SECRET_OVERLAP_S)
    assert setting.rotate(id_, "b")[1] is False


@pytest.mark.kills(guard="webhooks.rotation_of_another_principal")
def test_rotation_repeated_by_another_principal_is_refused(setting: Setting) -> None:
    """A third secret would end the one that the receiver has, so the request is refused like a repeated creation."""
    id_ = setting.create()["endpoint"]["id"]
    first, _ = setting.rotate(id_, "a")
    with pytest.raises(Problem, match="another request") as raised:
        setting.route.rotate(id_, None, SEVEN, "k8", setting.audit, "a")
    assert raised.value.status == 422
    assert setting.rotate(id_, "a") == (first, True)


@pytest.mark.kills(guard="webhooks.tested_once")
def test_a_repeated_test_event_is_sent_once(setting: Setting) -> None:
    id_ = setting.create()["endpoint"]["id"]
    first = setting.test(id_, "a")
    setting.clock.advance(2)
    assert setting.route.test(id_, None, SEVEN, setting.audit, "a") == (first, True)
    assert len(setting.waiting()) == 1
    assert setting.test(id_, "b")["id"] != first["id"]
    assert setting.actions() == ["webhook.created", *["webhook.tested"] * 2]


@pytest.mark.kills(guard="webhooks.resent_once")
def test_a_repeated_resend_is_attempted_once(setting: Setting) -> None:
    id_ = setting.create()["endpoint"]["id"]
    delivery, other = setting.test(id_)["id"], setting.test(id_)["id"]
    for replayed in (False, True):
        setting.sender.delayed.items.clear()
        assert setting.route.resend(id_, delivery, None, SEVEN, setting.audit, "a")[1] is replayed
    assert setting.waiting() == []
    with pytest.raises(Problem, match="another request") as raised:
        setting.route.resend(id_, other, None, SEVEN, setting.audit, "a")
    assert raised.value.status == 422


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "[fd00:ec2::254]"),
        *("127.1", "2130706433", "0x7f000001", "0177.0.0.1", "8.8.8", "example.0x1"),
    ],
)
def test_an_address_that_is_not_public_is_refused(setting: Setting, host: str) -> None:
    with pytest.raises(Problem, match="url") as raised:
        setting.create(url=f"https://{host}/hook")
    assert raised.value.status == 400
    assert setting.webhooks.endpoints.stored == {}


@pytest.mark.kills(guard="webhooks.test_of_a_subscribed_type")
@pytest.mark.parametrize(
    ("fields", "data"), [((), {"goals": [2, 1], "home": "a"}), (("goals",), {"goals": [2, 1]}), (("none",), {})]
)
def test_an_example_of_a_subscribed_type_is_sent(setting: Setting, fields: tuple[str, ...], data: Any) -> None:
    endpoint = setting.create()["endpoint"]["id"]
    key = EndpointKey.of_id(endpoint)
    assert key is not None
    setting.event_types.put(EventType(name="match.finished", description="d", example={"goals": [2, 1], "home": "a"}))

    def send(type_: str) -> Any:
        return setting.route.test(endpoint, None, SEVEN, setting.audit, "k", event_type=type_)

    with pytest.raises(Problem) as unsubscribed:
        send("match.finished")
    subscription = Subscription(
        id=SubscriptionKey.new_id(key, {}), endpoint=key, types=("match.*",), club_ids=(8,), units=("1",), fields=fields
    )
    setting.subscriptions.put(subscription, setting.clock.now_ms())
    with pytest.raises(Problem) as unknown:
        send("match.other")
    assert (unsubscribed.value.status, unknown.value.status) == (409, 404)
    delivery, is_replayed = send("match.finished")
    assert (delivery["event_type"], is_replayed) == ("match.finished", False)
    assert send("match.finished") == (delivery, True)
    (waiting,) = setting.sender.waiting()
    (event,) = waiting.events
    assert (event.type, event.club_id, json.loads(event.data)) == ("match.finished", 7, data)


@pytest.mark.parametrize(
    ("fields", "event_type"), [({}, "send.completed"), ({"event_types": ["send.failed"]}, "send.failed")]
)
def test_an_own_event_of_an_endpoint_is_sent_as_a_test(setting: Setting, fields: Any, event_type: str) -> None:
    endpoint = setting.create(**fields)["endpoint"]["id"]
    with pytest.raises(Problem) as unsubscribed:
        setting.route.test(endpoint, None, SEVEN, setting.audit, "k", event_type="notification.sent")
    assert unsubscribed.value.status == 409
    setting.route.test(endpoint, None, SEVEN, setting.audit, "k", event_type=event_type)
    (event,) = setting.sender.waiting()[0].events
    assert json.loads(event.data) == OWN_EVENTS[event_type].example
