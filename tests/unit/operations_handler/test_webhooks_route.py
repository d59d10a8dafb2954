"""Webhook endpoints over HTTP: a caller manages those of its clubs."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from functions.operations_handler import handler as operations_handler
from functions.operations_handler.routes.webhooks import WebhooksRoute
from masscomm.clock import FixedClock
from masscomm.domain.subscriptions import Subscription
from masscomm.domain.time_limits import IDEMPOTENCY_KEPT_S, WEBHOOK_SECRET_OVERLAP_S
from masscomm.domain.webhook_signatures import secret_of
from masscomm.domain.webhooks import MAX_ENDPOINTS, DeliveryStatus, EndpointKey
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.subscriptions.in_memory import InMemorySubscriptions
from tests.support.harness.webhooks import Webhooks

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
        self.subscriptions = InMemorySubscriptions()
        self.route = WebhooksRoute(
            endpoints=self.webhooks.endpoints,
            deliveries=self.webhooks.deliveries,
            subscriptions=self.subscriptions,
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


def test_the_settings_for_events_have_defaults_and_change(setting: Setting) -> None:
    id_ = setting.create(max_count=500, rate_per_s=100)["endpoint"]["id"]
    settings = ("max_count", "max_bytes", "max_concurrency", "rate_per_s")
    created: Any = setting.route.show(id_, SEVEN)
    assert [created[name] for name in settings] == [500, 256_000, 8, 100]
    changed = setting.change(id_, max_bytes=1_000_000, max_concurrency=32, rate_per_s=None)
    assert [changed[name] for name in settings] == [500, 1_000_000, 32, None]


@pytest.mark.parametrize(
    ("field", "value", "limits"),
    [
        ("max_count", 0, "1 to 1,000"),
        ("max_count", 1_001, "1 to 1,000"),
        ("max_count", True, "1 to 1,000"),
        ("max_bytes", 999, "1,000 to 1,000,000"),
        ("max_bytes", None, "1,000 to 1,000,000"),
        ("max_concurrency", "8", "1 to 32"),
        ("max_concurrency", 33, "1 to 32"),
        ("rate_per_s", 0, "1 to 10,000"),
        ("rate_per_s", 1.5, "1 to 10,000"),
    ],
)
def test_a_setting_beyond_its_limits_is_refused(setting: Setting, field: str, value: Any, limits: str) -> None:
    for call in (partial(setting.create), partial(setting.change, "x")):
        with pytest.raises(Problem) as raised:
            call(**{field: value})
        assert raised.value.status == 400
        ((name, text),) = [(each.field, str(each.message)) for each in raised.value.errors]
        assert (name, text) == (field, f"a whole number from {limits}".replace(",", ""))


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


def test_a_change_of_max_count_marks_the_subscriptions(setting: Setting) -> None:
    """They are published again, so that event_matcher learns that the endpoint is batched."""
    key = EndpointKey.of_id(setting.create()["endpoint"]["id"])
    assert key is not None
    subscription = Subscription(id="sub_1", endpoint=key, types=("*",), club_ids=(7,))
    setting.subscriptions.published(setting.subscriptions.put(subscription, setting.clock.now_ms()))
    setting.change(key.id, description="shop")
    assert list(setting.subscriptions.unpublished()) == []
    setting.change(key.id, max_count=100)
    assert [mark.key.id for mark in setting.subscriptions.unpublished()] == ["sub_1"]


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


def test_a_deleted_endpoint_is_unknown(setting: Setting) -> None:
    id_ = setting.create()["endpoint"]["id"]
    assert setting.route.delete(id_, SEVEN, setting.audit) == {"id": id_, "status": "deleted"}
    with pytest.raises(Problem, match="unknown"):
        setting.route.show(id_, SEVEN)
    assert setting.actions() == ["webhook.created", "webhook.deleted"]


def test_a_test_event_is_delivered_and_sent_again(setting: Setting) -> None:
    id_ = setting.create()["endpoint"]["id"]
    delivery = setting.test(id_)
    assert (delivery["event_type"], delivery["status"]) == ("webhook.test", "pending")
    setting.webhooks.sweep()
    (row,) = setting.route.list_deliveries(id_, {}, SEVEN)["rows"]
    assert (row["status"], row["attempts"], row["last_attempts"][0]["status"]) == ("succeeded", 1, 200)
    again, _ = setting.route.resend(id_, delivery["id"], None, SEVEN, setting.audit)
    assert again["status"] is DeliveryStatus.PENDING
    setting.webhooks.sweep()
    first, second = setting.webhooks.http.requests
    assert first[1]["webhook-id"] == second[1]["webhook-id"] == delivery["event_id"]
    body = json.loads(first[2])
    assert (body["type"], body["data"]) == ("webhook.test", {"club_id": 7, "endpoint_id": id_})
    assert setting.actions() == ["webhook.created", "webhook.tested", "webhook.resent"]


def test_pages_of_deliveries_continue_by_cursor(setting: Setting) -> None:
    id_ = setting.create()["endpoint"]["id"]
    for _ in range(3):
        setting.test(id_)
        setting.clock.advance(1)
    first = setting.route.list_deliveries(id_, {"limit": ["2"]}, SEVEN)
    rest = setting.route.list_deliveries(id_, {"limit": ["2"], "cursor": [first["next_cursor"] or ""]}, SEVEN)
    times = [row["at"] for row in (*first["rows"], *rest["rows"])]
    assert times == sorted(times, reverse=True)
    assert (len(times), rest["truncated"]) == (3, False)


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
    setting.webhooks.sweep()
    assert len(setting.webhooks.http.requests) == 1
    assert setting.test(id_, "b")["id"] != first["id"]
    assert setting.actions() == ["webhook.created", *["webhook.tested"] * 2]


@pytest.mark.kills(guard="webhooks.resent_once")
def test_a_repeated_resend_is_attempted_once(setting: Setting) -> None:
    id_ = setting.create()["endpoint"]["id"]
    delivery = setting.test(id_)["id"]
    for replayed in (False, True):
        setting.webhooks.sweep()
        assert setting.route.resend(id_, delivery, None, SEVEN, setting.audit, "a")[1] is replayed
    setting.webhooks.sweep()
    assert len(setting.webhooks.http.requests) == 2


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
