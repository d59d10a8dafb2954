"""Calls each method of the client on a running stack, in an order in which each has something to act on."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import httpx
import pytest
from confluent_kafka import Producer

from functions.catalogue import read_catalogue
from local.devstack.config import GENERATION, StackConfig
from local.emulators.alarms import evaluated_rules
from masscomm.directory.device_states import INDEX as STATES
from masscomm.directory.disabled_devices import DisabledReason
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import INDEX, Suppression
from masscomm_client import ApiError, Client
from masscomm_client.types import EventFields, SmallSend
from tests.support.harness.webhook_receiver import Receiver, receiving
from tests.support.until import until

CLUB, USER, DEVICE = 1, 42, 420
_CONTENT: dict[str, Any] = {"type": "announcement", "club_id": CLUB, "data": {"title": "Called", "body": "It works."}}
# The methods of the client that are not requests of their own.
NO_REQUESTS = frozenset({"close"})


class Recorded:
    """A client that records the names of the methods that were called."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.called.add(name)
        return getattr(self._client, name)


def methods(kind: type) -> set[str]:
    """Return the names of the public methods of a client."""
    return {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")} - NO_REQUESTS


def call_each_method(client: Client, config: StackConfig) -> set[str]:
    """Call the methods, and check the responses. Returns the names of those that were called.

    The demo has seeded the user, the device, and the templates of the stack.
    """
    recorded = Recorded(client)
    api = cast("Client", recorded)
    _sends(api)
    _schedules(api)
    _users(api)
    _tenants(api)
    _categories(api)
    _dead_letters(api, config)
    _suppressions(api, config)
    _devices(api, config)
    with receiving() as receiver:
        _webhooks(api, receiver.url)
        _events(api, receiver)
    assert api.health()["lag"]
    _alarms(api)
    return recorded.called


def _alarms(api: Client) -> None:
    """The stack evaluates the deployment's alarms; test_local_alarms compares them with the deployment."""
    alarms = api.alarms()
    assert alarms["evaluated"]
    known = {rule.name for rule in evaluated_rules(read_catalogue(generation=GENERATION))}
    assert {row["name"] for row in alarms["rows"]} == known


def _sends(api: Client) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    foretold = api.dry_run(**_CONTENT, to_users=[USER])
    assert foretold["dry_run"]
    assert api.preview(**_CONTENT, user_id=USER, channels=["push"])["messages"][0]["channel"] == "push"
    assert "news" in {each["type"] for each in api.templates(club_id=CLUB)}
    assert api.count_audience(club_id=CLUB, audience={"all_users": True})["users"] > 1_000
    saved = api.save_audience("client.calls", {"all_users": True}, club_id=CLUB)
    assert api.audience("client.calls", club_id=CLUB) == saved
    assert api.count_audience(club_id=CLUB, audience={"saved": "client.calls"})["users"] > 1_000
    assert "client.calls" in {each["name"] for each in api.audiences(club_id=CLUB)["rows"]}
    assert api.delete_audience("client.calls", club_id=CLUB)["status"] == "deleted"

    sent = api.send(**_CONTENT, to_users=[USER], channels=["push"])
    ended: Any
    *_, ended = api.follow(sent["send_id"])
    assert (ended["status"], ended["requested"]) == ("ended", 1)
    assert api.get_send(sent["send_id"])["totals"] == ended["totals"]
    assert sent["send_id"] in {each["send_id"] for each in api.sends(club_id=CLUB, limit=200)}
    (recipient,) = api.recipients(sent["send_id"])
    name = recipient["links"]["self"].rpartition("/")[2]
    assert api.notification(name)["user_id"] == USER
    kept = api.message(sent["send_id"])["content"]
    assert kept is not None
    assert kept["data"] == _CONTENT["data"]
    assert api.overview(club_id=[CLUB])["counts_known"]
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    counted = api.metrics(
        granularity="hour", start=hour.isoformat(), end=(hour + timedelta(hours=1)).isoformat(), club_id=CLUB
    )
    assert sum(row["count_total"] for row in counted["rows"]) > 0
    took = api.latency(granularity="hour", start=hour.isoformat(), end=(hour + timedelta(hours=1)).isoformat())
    assert sum(row["count_total"] for row in took["whole"]) > 0

    batch = api.send_batch([_small_send(USER), _small_send(USER + 1)])
    assert [each["status"] for each in batch["results"]] == [202, 202]

    scheduled = api.send(**_CONTENT, to_users=[USER], send_at=ahead.isoformat())["send_id"]
    api.reschedule(scheduled, (ahead + timedelta(hours=1)).isoformat())
    api.pause(scheduled)
    assert api.get_send(scheduled)["status"] == "paused"
    api.resume(scheduled)
    assert api.cancel(scheduled)["published_before"] == 0
    assert api.get_send(scheduled)["status"] in {"cancelling", "cancelled"}
    cancelled: Any
    *_, cancelled = api.follow(scheduled)
    assert (cancelled["status"], cancelled["totals"]["cancelled"]) == ("cancelled", cancelled["requested"])
    assert cancelled["cancellation"] is not None
    assert [cancelled["cancellation"][name] for name in ("published_before", "published_since")] == [0, 0]


def _small_send(user_id: int) -> SmallSend:
    return cast("SmallSend", {**_CONTENT, "to_users": [user_id]})


def _schedules(api: Client) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT09:00")
    send = {**_CONTENT, "to_users": [USER]}
    request: Any = {"rule": "FREQ=DAILY", "time_zone": "UTC", "starts_at_local": tomorrow, "send": send}
    saved = api.save_schedule("client.calls", request, club_id=CLUB)
    assert saved["state"] == "active"
    assert "client.calls" in {each["name"] for each in api.schedules(club_id=CLUB)["rows"]}
    assert api.pause_schedule("client.calls", club_id=CLUB)["state"] == "paused"
    assert api.resume_schedule("client.calls", club_id=CLUB)["state"] == "active"
    assert api.schedule("client.calls", club_id=CLUB)["state"] == "active"
    assert api.delete_schedule("client.calls", club_id=CLUB)["status"] == "deleted"


def _tenants(api: Client) -> None:
    """A tenant of no user: the rules change no other send."""
    tenant = 4_711
    stored = api.set_tenant_preferences(tenant, channels={"push": False})
    assert stored["channels"] == {"push": False}
    assert api.tenant_preferences(tenant) == stored
    assert api.delete_tenant_preferences(tenant)["channels"] == {}


def _users(api: Client) -> None:
    assert {each["club_id"] for each in api.user_notifications(USER, club_id=CLUB, limit=10)} == {CLUB}
    assert api.user(USER)["club_id"] == CLUB
    before = api.preferences(USER)["categories"].get("match_reminder", True)
    changed = api.set_preferences(USER, categories={"match_reminder": False})
    assert not changed["categories"]["match_reminder"]
    api.set_preferences(USER, categories={"match_reminder": before})


def _categories(api: Client) -> None:
    """A version that the stack has already is not made again: the calls change no later send."""
    name = "called_category"
    stored = api.set_category(name, channels=["push"], titles={"en": "Called"})
    assert api.category(name) == stored
    assert {"type": name, **stored["versions"][0]} in api.categories()["rows"]


def _dead_letters(api: Client, config: StackConfig) -> None:
    """Two records that cannot be decoded: one is replayed, and becomes a letter of its own; the other is discarded."""
    mark = uuid4().hex.encode()
    producer = Producer({"bootstrap.servers": config.kafka_bootstrap})
    for _ in range(2):
        producer.produce("send.api", mark)
    assert producer.flush(30) == 0

    def letters() -> list[str]:
        found = api.dead_letters(status="open", topic="send.api")
        return [each["position"] for each in found if each["size"] == len(mark)]

    until("the records are dead letters", lambda: len(letters()) >= 2)
    replayed, discarded = letters()[:2]
    assert api.dead_letter(replayed)["letter"]["status"] == "open"
    api.replay_dead_letter(replayed)
    api.discard_dead_letter(discarded, "it is no record")
    states = [api.dead_letter(each)["letter"]["status"] for each in (replayed, discarded)]
    assert states == ["replayed", "discarded"]


def _suppressions(api: Client, config: StackConfig) -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1_000)
    made = Suppression(
        club_id=CLUB,
        address=f"{uuid4()}@example.org",
        reason=Reason.BOUNCED_PERMANENT,
        at_ms=now_ms,
        expires_ms=now_ms + 3_600_000,
    )
    _put(config, INDEX, made.id, made.source)
    (row,) = (each for each in api.suppressions(club_id=CLUB) if each["id"] == made.id)
    assert api.remove_suppression(row["id"])["status"] == "removed"


def _devices(api: Client, config: StackConfig) -> None:
    """A device whose endpoint accepts nothing is enabled: the device registrar registers its token again."""
    reason = DisabledReason.TAKES_NOTHING
    url = f"{config.opensearch_url}/{STATES}/_update/{DEVICE}"
    change = {"doc": {"enabled": False, "reason": reason}}
    httpx.post(url, json=change, params={"refresh": "true"}).raise_for_status()
    assert any(each["reason"] == reason for each in api.device_counts(club_id=CLUB)["rows"])
    assert DEVICE in _disabled(api)
    assert api.enable_device(DEVICE)["status"] == "requested"
    until("the device is enabled", lambda: DEVICE not in _disabled(api))


def _disabled(api: Client) -> Iterator[int]:
    return (each["device_id"] for each in api.devices(club_id=CLUB, reason="takes_nothing"))


def _webhooks(api: Client, url: str) -> None:
    created = api.create_webhook(club_id=CLUB, url=url)
    id_ = created["endpoint"]["id"]
    assert id_ in {each["id"] for each in api.webhooks(club_id=CLUB)}
    assert api.change_webhook(id_, description="called")["description"] == "called"
    assert api.webhook(id_)["description"] == "called"
    tested = api.test_webhook(id_)
    with pytest.raises(ApiError):  # It does not subscribe to the type.
        api.test_webhook_type(id_, "match.finished")
    # No event was attempted yet.
    assert list(api.webhook_deliveries(id_)) == []
    assert list(api.webhook_log(id_, status=["retried"])) == []
    hours: dict[str, Any] = {"granularity": "hour", "start": "2026-11-21T12:00:00Z", "end": "2026-11-21T13:00:00Z"}
    assert list(api.webhook_metrics(id_, **hours)) == []
    assert list(api.webhook_dead_letters(id_, type="match.finished")) == []
    assert api.replay_webhook_dead_letters(id_, type="match.finished")["replayed"] == 0
    assert api.acknowledge_webhook_dead_letters(id_, "2026-11-21T12:00:00Z")["acknowledged"] == 0
    assert api.resend_webhook(id_, tested["id"])["id"] == tested["id"]
    assert api.rotate_webhook(id_)["secret"] != created["secret"]
    assert api.delete_webhook(id_)["status"] == "deleted"
    with pytest.raises(ApiError) as raised:
        api.webhook(id_)
    assert raised.value.status == 404


def _events(api: Client, receiver: Receiver) -> None:
    """An event reaches an endpoint that subscribes to its type."""
    name, event_id = "match.called", uuid4().hex
    described = api.set_event_type(name, description="A method was called", example={})
    assert api.event_type(name) == described
    assert described in api.event_types()["rows"]
    endpoint = api.create_webhook(club_id=CLUB, url=receiver.url)["endpoint"]["id"]
    made = api.create_subscription(endpoint_id=endpoint, types=[name], club_ids=[CLUB])
    assert api.subscription(made["id"]) == made
    assert api.subscriptions(endpoint_id=endpoint)["rows"] == [made]
    event: EventFields = {"event_id": event_id, "type": name, "club_id": CLUB, "data": {}}
    assert api.matching_subscriptions(**event)["rows"] == [made]
    assert [each["status"] for each in api.report_events([event, event])["events"]] == ["accepted", "repeated"]
    until("the event arrives", lambda: event_id in [each.event.get("event_id") for each in receiver.received])
    mapping = {"type": {"value": name}, "club_id": {"path": "club"}}
    source = api.create_source(club_id=CLUB, scheme="github", secret="a secret of a sender", mapping=mapping)
    assert source in api.sources(club_id=CLUB)["rows"]
    changed = api.set_source(source["id"], club_id=CLUB, scheme="github", mapping=mapping, description="d")
    assert api.source(source["id"]) == {**changed, "accepted": [], "refused": 0, "refusals": []}
    assert api.delete_source(source["id"])["status"] == "deleted"
    assert api.delete_subscription(made["id"])["status"] == "deleted"
    assert api.delete_event_type(name)["status"] == "deleted"
    api.delete_webhook(endpoint)


def _put(config: StackConfig, index: str, id_: str, source: dict[str, Any]) -> None:
    url = f"{config.opensearch_url}/{index}/_doc/{id_}"
    httpx.put(url, json=source, params={"refresh": "true"}).raise_for_status()
