"""events_api: events are accepted once in a day, and subscriptions reach their topic."""

import json
from dataclasses import replace
from typing import Any

import pytest

from masscomm.decisions.event_matching import SubscriptionIndex
from masscomm.domain.notification_rules import NotificationRule, Owner, RefusedEvents, RuleRefusal
from masscomm.domain.subscriptions import Subscription, SubscriptionKey
from masscomm.domain.time_limits import SUBSCRIPTIONS_SWEPT_AFTER_S
from masscomm.errors import Retry
from masscomm.http.scopes import ALL_SCOPES, scopes_of_roles
from masscomm.kafka import topics
from tests.support.harness.events import occurred
from tests.support.harness.events_api import EventsApi, endpoint_key, in_memory_api, subscription_id

EVENT: dict[str, Any] = {"event_id": "e1", "type": "match.finished", "club_id": 1, "data": {"goals": [2, 1]}}
SUBSCRIPTION: dict[str, Any] = {"endpoint_id": endpoint_key().id, "types": ["match.*"]}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> EventsApi:
    return in_memory_api(monkeypatch)


def statuses(answered: tuple[int, Any]) -> list[str]:
    return [each["status"] for each in answered[1]["events"]]


@pytest.mark.guarantee("events.reported_once_a_day")
def test_an_event_is_produced_once_in_a_day(api: EventsApi) -> None:
    assert statuses(api.report(EVENT, EVENT)) == ["accepted", "repeated"]
    assert statuses(api.report(EVENT, EVENT | {"event_id": "e2"})) == ["repeated", "accepted"]
    api.clock.sleep(86_400)
    assert statuses(api.report(EVENT)) == ["accepted"]
    assert [each.event_id for each in api.events()] == ["e1", "e2", "e1"]
    assert json.loads(api.events()[0].data) == EVENT["data"]


@pytest.mark.kills(guard="events.partition_of_a_key")
def test_the_events_of_a_key_share_a_partition(api: EventsApi) -> None:
    api.report(EVENT | {"key": "o1"}, EVENT | {"event_id": "e2", "key": "o1"}, EVENT | {"event_id": "e3"})
    club = EVENT["club_id"]
    keys = [key for topic, key, *_ in api.producer.produced if topic == topics.EVENT]
    assert keys == [f"{club}/o1".encode(), f"{club}/o1".encode(), b"e3"]


@pytest.mark.kills(guard="events.other_event_of_an_id")
def test_another_event_under_the_same_id_is_refused(api: EventsApi) -> None:
    other = EVENT | {"data": {"goals": [0, 0]}}
    api.report(EVENT)
    for events in ([other], [EVENT | {"event_id": "e2"}, other | {"event_id": "e2"}]):
        status, problem = api.report(*events)
        assert (status, problem["errors"][0]["code"]) == (422, "event_id_of_other")
    assert len(api.events()) == 1


@pytest.mark.kills(guard="events.recorded_after_kafka")
def test_events_are_refused_while_kafka_is_away(api: EventsApi) -> None:
    """A client that repeats its request loses nothing: only events that Kafka has are recorded."""
    api.producer.fail = lambda _topic, value: Retry("away") if b"e2" in (value or b"") else None
    assert api.report(EVENT, EVENT | {"event_id": "e2"})[0] == 503
    api.producer.fail = lambda *_: None
    assert statuses(api.report(EVENT, EVENT | {"event_id": "e2"})) == ["repeated", "accepted"]
    assert [each.event_id for each in api.events()] == ["e1", "e2"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": "match.unknown"}, "events[1].type"),
        ({"data": {}}, "events[1].data"),
        ({"data": {"goals": ["x" * 66_000]}}, "events[1].data"),
        ({"unit": "100//7"}, "events[1].unit"),
        ({"unit": 100}, "events[1].unit"),
        ({"occurred_at": 1_700_000_000}, "events[1].occurred_at"),
        ({"event_id": ""}, "events[1].event_id"),
        ({"event_id": None}, "events[1].event_id"),
        ({"colour": "red"}, "events[1].colour"),
    ],
)
def test_one_invalid_event_refuses_the_request(api: EventsApi, fields: Any, field: str) -> None:
    status, problem = api.report(EVENT, {**EVENT, "event_id": "e2", **fields})
    assert (status, [each["field"] for each in problem["errors"]]) == (400, [field])
    assert api.events() == []


@pytest.mark.guarantee("events.own_tenants_only")
@pytest.mark.kills(guard="tenancy.reported_events")
def test_events_of_another_club_are_refused(api: EventsApi) -> None:
    assert api.report(EVENT, clubs="2")[0] == 403
    assert api.events() == []


@pytest.mark.parametrize("events", [[], [EVENT] * 101, "e1"])
def test_a_request_has_one_to_a_hundred_events(api: EventsApi, events: Any) -> None:
    assert api.request("POST", "/v1/events", {"events": events})[0] == 400


@pytest.mark.kills(guard="tenancy.event_types")
def test_a_tenant_cannot_change_types(api: EventsApi) -> None:
    described = {"description": "A goal", "example": {}}
    assert api.request("PUT", "/v1/event-types/match.goal", described)[0] == 403
    assert api.request("DELETE", "/v1/event-types/match.finished")[0] == 403
    assert api.request("GET", "/v1/event-types/match.finished")[0] == 200


def test_a_subscription_reaches_its_topic(api: EventsApi) -> None:
    status, created = api.request(
        "POST", "/v1/subscriptions", SUBSCRIPTION | {"units": ["100/7"], "fields": ["b.c", "a"]}
    )
    assert (status, created["club_ids"], created["fields"]) == (201, [1], ["b.c", "a"])
    assert api.request("DELETE", f"/v1/subscriptions/{created['id']}")[0] == 200
    (key, record), deletion = api.published()
    assert (key, deletion) == (created["id"], (created["id"], None))
    assert record is not None
    assert (record.endpoint_id, record.units) == (SUBSCRIPTION["endpoint_id"], ["100/7"])
    assert record.fields == ["b.c", "a"]
    assert list(api.cases.publishing.store.unpublished()) == []


def test_a_repeated_request_stores_one_subscription(api: EventsApi) -> None:
    first = api.request("POST", "/v1/subscriptions", SUBSCRIPTION)
    assert api.request("POST", "/v1/subscriptions", SUBSCRIPTION) == first
    assert api.request("POST", "/v1/subscriptions", SUBSCRIPTION | {"types": ["*"]})[1]["id"] != first[1]["id"]
    assert len(api.cases.publishing.store.of_endpoint(endpoint_key())) == 3


@pytest.mark.guarantee("events.subscription_is_published")
def test_a_sweep_publishes_changes_after_a_crash(api: EventsApi) -> None:
    api.producer.fail = lambda *_: Retry("away")
    assert api.request("POST", "/v1/subscriptions", SUBSCRIPTION)[0] == 503
    api.producer.fail = lambda *_: None
    assert api.cases.publishing.publish_missing(lambda: 60) == 0
    api.clock.sleep(SUBSCRIPTIONS_SWEPT_AFTER_S)
    assert api.cases.publishing.publish_missing(lambda: 60) == 1
    assert api.cases.publishing.publish_missing(lambda: 60) == 0
    assert len(api.published()) == 1


@pytest.mark.kills(guard="subscriptions.batched_endpoint")
def test_a_subscription_is_published_as_its_endpoint_is(api: EventsApi) -> None:
    store: Any = api.cases.publishing.store
    endpoints: Any = api.cases.publishing.endpoints
    for max_count in (100, 1):
        endpoint = endpoints.find(endpoint_key())
        endpoints.replace(replace(endpoint, max_count=max_count, revision=endpoint.revision + 1))
        store.mark([SubscriptionKey(endpoint_key(), subscription_id())], api.clock.now_ms())
        api.clock.sleep(SUBSCRIPTIONS_SWEPT_AFTER_S)
        assert api.cases.publishing.publish_missing(lambda: 60) == 1
    assert [record.batched for _, record in api.published() if record is not None] == [True, False]


@pytest.mark.guarantee("events.subscriptions_of_a_deleted_endpoint")
@pytest.mark.kills(guard="subscriptions.deleted_endpoint")
def test_subscriptions_of_a_deleted_endpoint_are_deleted(api: EventsApi) -> None:
    store: Any = api.cases.publishing.store
    endpoints: Any = api.cases.publishing.endpoints
    store.mark([SubscriptionKey(endpoint_key(), subscription_id())], api.clock.now_ms())
    endpoints.delete(endpoint_key())
    api.clock.sleep(SUBSCRIPTIONS_SWEPT_AFTER_S)
    assert api.cases.publishing.publish_missing(lambda: 60) == 1
    assert api.published() == [(subscription_id(), None)]
    assert (store.stored, store.marks) == ({}, {})


@pytest.mark.kills(guard="subscriptions.changed_while_published")
def test_the_last_record_is_the_stored_state(api: EventsApi) -> None:
    """Another request deletes the subscription while this one publishes it: its record may follow the deletion's."""
    store: Any = api.cases.publishing.store
    key = SubscriptionKey(endpoint_key(), subscription_id())
    change = store.put(replace(store.find(key), revision=2), api.clock.now_ms())
    others = iter([key])

    def deleted(*_: object) -> None:
        for other in others:
            store.delete(other, api.clock.now_ms())

    api.producer.fail = deleted
    api.cases.publishing.publish(change)
    assert [record is None for _, record in api.published()] == [False, True]


@pytest.mark.guarantee("events.own_tenants_only")
@pytest.mark.kills(guard="tenancy.subscribed_clubs")
def test_a_subscription_to_another_club_is_refused(api: EventsApi) -> None:
    assert api.request("POST", "/v1/subscriptions", SUBSCRIPTION | {"club_ids": [1, 2]})[0] == 403
    status, created = api.request("POST", "/v1/subscriptions", SUBSCRIPTION | {"club_ids": [1, 2]}, clubs="1,2")
    assert (status, created["club_ids"]) == (201, [1, 2])
    # Another caller sees its own clubs alone.
    assert api.request("GET", f"/v1/subscriptions/{created['id']}")[1]["club_ids"] == [1]


@pytest.mark.kills(guard="tenancy.subscription")
def test_subscriptions_of_another_club_read_as_unknown(api: EventsApi) -> None:
    for method in ("GET", "DELETE"):
        assert api.request(method, f"/v1/subscriptions/{subscription_id()}", clubs="2")[0] == 404


@pytest.mark.kills(guard="tenancy.webhook")
def test_an_endpoint_of_another_club_reads_as_unknown(api: EventsApi) -> None:
    assert api.request("POST", "/v1/subscriptions", SUBSCRIPTION, clubs="2")[0] == 404


@pytest.mark.parametrize(
    "fields",
    [
        {"types": []},
        {"types": ["match*"]},
        {"types": ["*.goal"]},
        {"units": ["/"]},
        {"club_ids": []},
        {"club_ids": ["1"]},
        {"filter": {"kind": []}},
        {"filter": {"kind": [["league"]]}},
        {"filter": {"a..b": ["league"]}},
        {"fields": "kind"},
        {"fields": [""]},
        {"fields": ["kind."]},
        {"fields": [1]},
        {"fields": ["x" * 201]},
        {"fields": [str(each) for each in range(51)]},
        {"types": ["*"], "club_ids": list(range(1, 100)), "units": [str(each) for each in range(50)]},
    ],
)
def test_an_unusable_subscription_is_refused(api: EventsApi, fields: Any) -> None:
    clubs = ",".join(map(str, range(1, 100)))
    assert api.request("POST", "/v1/subscriptions", SUBSCRIPTION | fields, clubs=clubs)[0] == 400
    assert api.published() == []


RULE: dict[str, Any] = {"types": ["match.*"], "notification": {"type": "announcement", "users_path": "fans"}}


def test_a_rule_is_stored_published_and_listed(api: EventsApi) -> None:
    more = {"channels": ["push"], "data": {"goals": "goals"}, "locale": "de", "push": {"sound": "goal"}}
    notification = RULE["notification"] | more
    status, body = api.request("POST", "/v1/subscriptions", RULE | {"notification": notification})
    assert (status, body["endpoint_id"], body["club_ids"], body["owner"]) == (201, None, [1], "k")
    assert body["notification"] == notification
    assert api.request("POST", "/v1/subscriptions", RULE | {"notification": notification})[1]["id"] == body["id"]
    assert api.request("POST", "/v1/subscriptions", RULE)[1]["id"] != body["id"]
    (_, record), *_ = api.published()
    assert record is not None
    assert Subscription.of_record(record).notification == NotificationRule(
        **notification, owner=Owner(principal="k", context={"club_ids": "1", "scopes": " ".join(ALL_SCOPES)})
    )
    assert len(api.request("GET", "/v1/subscriptions")[1]["rows"]) == 2
    assert api.request("GET", f"/v1/subscriptions/{body['id']}")[1] == body
    key = SubscriptionKey.of_id(body["id"])
    assert key is not None
    api.cases.subscriptions.store.refuse(key, [RefusedEvents(RuleRefusal.SCOPE, 2, 1_700_000_000_000, "send")])
    refused = [{"reason": "scope", "detail": "send", "events": 2, "last_at": "2023-11-14T22:13:20Z"}]
    assert api.request("GET", f"/v1/subscriptions/{body['id']}")[1] == body | {"refused": refused}
    assert api.request("DELETE", f"/v1/subscriptions/{body['id']}")[0] == 200
    assert api.published()[-1] == (body["id"], None)


@pytest.mark.kills(guard="tenancy.rules_of_several_clubs")
def test_a_rule_of_several_clubs_is_one_of_every_club(api: EventsApi) -> None:
    several = RULE | {"club_ids": [2, 1]}
    status, problem = api.request("POST", "/v1/subscriptions", several, clubs="1,2")
    assert (status, problem["errors"][0]["field"]) == (400, "club_ids")
    status, made = api.request("POST", "/v1/subscriptions", several, clubs="*")
    assert (status, made["club_ids"]) == (201, [1, 2])
    path = f"/v1/subscriptions/{made['id']}"
    assert [api.request("GET", path, clubs=clubs)[0] for clubs in ("*", "1", "1,2")] == [200, 404, 404]
    (_, record) = api.published()[-1]
    assert record is not None
    index = SubscriptionIndex([Subscription.of_record(record)])
    matched = [bool(index.rules(occurred(type="match.finished", club_id=club))) for club in (1, 2, 3)]
    assert matched == [True, True, False]


@pytest.mark.kills(guard="tenancy.listed_rules")
def test_rules_are_those_of_the_callers_clubs(api: EventsApi) -> None:
    own = api.request("POST", "/v1/subscriptions", RULE)[1]
    of_all = api.request("POST", "/v1/subscriptions", RULE, clubs="*")[1]
    assert of_all["club_ids"] is None
    rows = {
        (clubs, club): [
            each["id"] for each in api.request("GET", "/v1/subscriptions", clubs=clubs, query=query)[1]["rows"]
        ]
        for clubs, club, query in (
            ("1", None, None),
            ("*", None, None),
            ("*", 1, {"club_id": "1"}),
            ("2", None, None),
        )
    }
    assert rows == {("1", None): [own["id"]], ("*", None): [of_all["id"]], ("*", 1): [own["id"]], ("2", None): []}
    assert api.request("GET", "/v1/subscriptions", clubs="2", query={"club_id": "1"})[0] == 403
    for id_ in (own["id"], of_all["id"]):
        assert api.request("GET", f"/v1/subscriptions/{id_}", clubs="2")[0] == 404


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"notification": {"type": "announcement"}}, "notification"),
        ({"notification": RULE["notification"] | {"unit_attribute": "locale"}}, "notification"),
        ({"notification": {"type": "unheard", "users_path": "fans"}}, "notification.type"),
        ({"notification": RULE["notification"] | {"channels": ["smoke"]}}, "notification.channels"),
        ({"notification": RULE["notification"] | {"channels": [7]}}, "notification.channels"),
        ({"notification": RULE["notification"] | {"channels": [{"channel": "push"}]}}, "notification.channels"),
        ({"notification": RULE["notification"] | {"template": "no template"}}, "notification.template"),
        ({"notification": RULE["notification"] | {"locale": "?"}}, "notification.locale"),
        ({"notification": RULE["notification"] | {"data": {"a": 1}}}, "notification.data"),
        ({"notification": RULE["notification"] | {"colour": "red"}}, "notification.colour"),
        ({"notification": RULE["notification"] | {"push": {"badge": -1}}}, "notification.push.badge"),
        ({"notification": RULE["notification"] | {"push": "loud"}}, "notification.push"),
        ({"notification": RULE["notification"] | {"users_path": ""}}, "notification.users_path"),
        ({"notification": {"type": "announcement", "unit_attribute": "shoe"}}, "notification.unit_attribute"),
        ({"notification": {"type": "announcement", "audience": {}}}, "notification.audience.where"),
        ({"notification": []}, "notification"),
        ({"endpoint_id": endpoint_key().id}, "endpoint_id"),
        ({"fields": ["goals"]}, "fields"),
        ({"club_ids": [1, 2]}, "club_ids"),
        pytest.param({"types": ["match.*", "send.*"]}, "types", marks=pytest.mark.kills(guard="rules.own_types")),
    ],
)
def test_an_unusable_rule_is_refused(api: EventsApi, fields: Any, field: str) -> None:
    status, problem = api.request("POST", "/v1/subscriptions", RULE | fields, clubs="1,2")
    assert (status, problem["errors"][0]["field"]) == (400, field)
    assert api.published() == []


def test_rule_with_fallbacks_is_refused(api: EventsApi) -> None:
    channels = ["push", {"channel": "email", "if": "not_sent", "after": "10m"}]
    body = RULE | {"notification": RULE["notification"] | {"channels": channels}}
    status, problem = api.request("POST", "/v1/subscriptions", body, clubs="1,2")
    (error,) = problem["errors"]
    assert (status, error["field"], error["code"]) == (400, "notification.channels", "fallback_of_rule")


@pytest.mark.parametrize(
    ("notification", "scope"),
    [
        ({}, "send"),
        ({"data": {"title": "a", "body": "b"}}, "send:content"),
        ({"push": {"image": "https://club.example/goal.jpg"}}, "send:content"),
        ({"type": "one_time_password"}, "send:mandatory"),
        ({"users_path": None, "audience": {"all_users": True, "except_users": [4]}}, "users:read"),
    ],
)
def test_a_rule_needs_the_scopes_of_its_sends(api: EventsApi, notification: Any, scope: str) -> None:
    merged = {name: value for name, value in (RULE["notification"] | notification).items() if value is not None}
    scopes = " ".join(ALL_SCOPES - {scope})
    status, problem = api.request("POST", "/v1/subscriptions", RULE | {"notification": merged}, scopes=scopes)
    assert (status, scope in json.dumps(problem)) == (403, True)
    assert api.request("POST", "/v1/subscriptions", RULE | {"notification": merged})[0] == 201


MATCHES = "/v1/subscriptions/matches"


def matching(api: EventsApi, clubs: str = "1", **fields: Any) -> list[str]:
    """Return the ids of the subscriptions that match an event."""
    status, body = api.request("POST", MATCHES, EVENT | fields, clubs=clubs)
    assert status == 200, body
    return [each["id"] for each in body["rows"]]


@pytest.mark.kills(guard="tenancy.matching_rules")
def test_subscriptions_that_match_an_event_are_listed(api: EventsApi) -> None:
    everything = api.request("POST", "/v1/subscriptions", SUBSCRIPTION | {"filter": {"kind": ["cup"]}})[1]["id"]
    rule = api.request("POST", "/v1/subscriptions", RULE)[1]["id"]
    of_all = api.request("POST", "/v1/subscriptions", RULE, clubs="*")[1]["id"]
    published = api.published()
    assert matching(api) == [rule]
    assert matching(api, unit="100/7") == [subscription_id(), rule]
    assert matching(api, data=EVENT["data"] | {"kind": "cup"}) == [everything, rule]
    assert matching(api, clubs="*") == [rule, of_all]
    assert (api.events(), api.published()) == ([], published)
    # Nothing is recorded: the event is reported afterwards.
    assert statuses(api.report(EVENT)) == ["accepted"]


def test_an_event_that_could_not_be_reported_matches_nothing(api: EventsApi) -> None:
    for fields, field in (({"type": "match.unheard"}, "type"), ({"data": {}}, "data"), ({"unit": "a//b"}, "unit")):
        status, problem = api.request("POST", MATCHES, EVENT | fields)
        assert (status, problem["errors"][0]["field"]) == (400, field)
    status, problem = api.request("POST", MATCHES, EVENT, clubs="2")
    assert (status, problem["errors"][0]["field"]) == (403, "club_id")


def test_a_developer_has_subscriptions_and_sends_nothing(api: EventsApi) -> None:
    """A rule would send with the developer's rights, and a reported event by the rules of others."""
    scopes = " ".join(scopes_of_roles(["developer"]))
    assert api.request("POST", "/v1/subscriptions", SUBSCRIPTION, scopes=scopes)[0] == 201
    assert api.request("POST", MATCHES, EVENT, scopes=scopes)[0] == 200
    refused = [
        api.request("POST", "/v1/subscriptions", RULE, scopes=scopes),
        api.request("POST", "/v1/events", {"events": [EVENT]}, scopes=scopes),
        api.request("POST", MATCHES, EVENT | {"club_id": 2}, scopes=scopes),
        api.request("PUT", "/v1/event-types/match.goal", {"description": "A goal", "example": {}}, scopes=scopes),
    ]
    assert [status for status, _ in refused] == [403] * 4
    assert api.events() == []
