"""CloudEvents 1.0 in the structured form: events come in, and leave to endpoints that want it."""

import json
from typing import Any

import pytest

from masscomm.domain.cloud_events import MAX_ID, event_id_of
from masscomm.domain.events import MAX_EVENT_ID, webhook_body
from masscomm.domain.webhooks import BodyFormat
from tests.support.harness.chain import NOW
from tests.support.harness.events import WebhookSender, occurred
from tests.support.harness.events_api import EventsApi, in_memory_api
from tests.support.harness.webhooks import KEY, answer, url_of

ONE, SEVERAL = "application/cloudevents+json", "application/cloudevents-batch+json"
EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "4711",
    "source": "/shop/1",
    "type": "match.finished",
    "subject": "match-1",
    "time": "2026-11-21T12:00:00.5Z",
    "datacontenttype": "application/json; charset=utf-8",
    "clubid": 1,
    "unit": "100/7",
    "data": {"goals": [2, 1]},
}
ID = event_id_of("/shop/1", "4711")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> EventsApi:
    return in_memory_api(monkeypatch)


@pytest.mark.parametrize(("content_type", "body"), [(f"{ONE}; charset=UTF-8", EVENT), (SEVERAL.upper(), [EVENT])])
def test_a_cloud_event_is_produced_as_an_event(api: EventsApi, content_type: str, body: Any) -> None:
    status, accepted = api.report_as(content_type, body)
    assert (status, accepted["events"]) == (202, [{"event_id": ID, "club_id": 1, "status": "accepted"}])
    (event,) = api.events()
    assert (event.event_id, event.type, event.club_id) == (ID, "match.finished", 1)
    assert (event.unit, event.key, event.occurred_at) == ("100/7", "match-1", 1_795_262_400_500)
    assert json.loads(event.data) == EVENT["data"]
    assert api.report_as(content_type, body)[1]["events"][0]["status"] == "repeated"


@pytest.mark.kills(guard="cloud_events.source_in_id")
def test_ids_of_two_sources_are_two_events(api: EventsApi) -> None:
    other = EVENT | {"source": "/shop/2", "data": {"goals": []}}
    assert api.report_as(SEVERAL, [EVENT, other])[0] == 202
    assert len({each.event_id for each in api.events()}) == 2


def test_the_longest_id_makes_the_longest_event_id() -> None:
    assert len(event_id_of("/", "x" * MAX_ID)) == MAX_EVENT_ID


def test_attributes_may_be_null_or_unused(api: EventsApi) -> None:
    fields = {"clubid": "1", "subject": None, "unit": None, "time": None, "traceparent": "00-1", "dataschema": "/s"}
    assert api.report_as(ONE, EVENT | fields)[0] == 202
    (event,) = api.events()
    assert (event.club_id, event.unit, event.key) == (1, None, None)


@pytest.mark.kills(guard="cloud_events.version")
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"specversion": None}, "specversion"),
        ({"id": ""}, "id"),
        ({"id": "x" * (MAX_ID + 1)}, "id"),
        ({"id": 4711}, "id"),
        ({"id": "ö"}, "id"),
        ({"source": ""}, "source"),
        ({"source": ["/shop"]}, "source"),
        ({"type": "Match.Finished"}, "type"),
        ({"type": "match.unknown"}, "type"),
        ({"subject": ""}, "subject"),
        ({"subject": 1}, "subject"),
        ({"time": 1_795_262_400}, "time"),
        ({"time": "2026-11-21"}, "time"),
        ({"datacontenttype": "application/xml"}, "datacontenttype"),
        ({"datacontenttype": 1}, "datacontenttype"),
        ({"clubid": None}, "clubid"),
        ({"clubid": 1.0}, "clubid"),
        ({"clubid": "01"}, "clubid"),
        ({"clubid": 0}, "clubid"),
        ({"unit": "100//7"}, "unit"),
        ({"unit": 100}, "unit"),
        ({"data": {}}, "data"),
        ({"data": [1]}, "data"),
        ({"data": None}, "data"),
        ({"data_base64": "e30="}, "data_base64"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_an_attribute_that_does_not_fit_is_refused(api: EventsApi, fields: Any, field: str) -> None:
    for content_type, body, place in ((ONE, EVENT | fields, field), (SEVERAL, [EVENT | fields], f"[0].{field}")):
        status, problem = api.report_as(content_type, body)
        assert (status, [each["field"] for each in problem["errors"]]) == (400, [place])
    assert api.events() == []


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[1]",
        '{"specversion":"1.0","specversion":"1.0"}',
        json.dumps(EVENT).replace("[2, 1]", "[1e999]"),
        json.dumps(EVENT).replace("[2, 1]", str(2**63)),
        json.dumps(EVENT).replace("[2, 1]", "[" * 200 + "]" * 200),
        json.dumps(EVENT).replace("4711", "\\ud800"),
    ],
)
def test_hostile_bodies_are_refused(api: EventsApi, body: str) -> None:
    for content_type, text in ((ONE, body), (SEVERAL, body if body.startswith("[") else f"[{body}]")):
        assert api.report_as(content_type, text)[0] == 400
    assert api.events() == []


@pytest.mark.parametrize("body", [[], [EVENT] * 101, {"events": [EVENT]}, "1"])
def test_a_batch_has_one_to_a_hundred_events(api: EventsApi, body: Any) -> None:
    assert api.report_as(SEVERAL, body)[0] == 400


def test_a_club_of_others_is_refused_by_its_attribute(api: EventsApi) -> None:
    status, problem = api.report_as(ONE, EVENT | {"clubid": 2})
    assert (status, problem["errors"][0]["field"]) == (403, "clubid")


def test_an_endpoint_receives_cloud_events() -> None:
    sender = WebhookSender()
    sender.endpoint(format=BodyFormat.CLOUD_EVENTS)
    sender.http.answers[url_of(KEY)] = [answer(500)]
    sender.send(sender.request([occurred(unit="100/7", key="order", data='{"minute":9.50}')]))
    ((_, headers, body),) = sender.http.requests
    assert headers["content-type"] == ONE
    assert b'"data":{"minute":9.50}' in body
    assert json.loads(body) == {
        "specversion": "1.0",
        "id": "e1",
        "source": "urn:masscomm:club:7",
        "type": "match.goal",
        "time": "2023-11-14T22:13:20Z",
        "datacontenttype": "application/json",
        "clubid": "7",
        "subject": "order",
        "unit": "100/7",
        "data": {"minute": 9.5},
    }


def test_a_received_cloud_event_is_accepted_again(api: EventsApi) -> None:
    event = occurred(type="match.finished", club_id=1, occurred_at=NOW, data='{"goals": []}')
    body = webhook_body(event, KEY.id, "2023-11-14T22:13:20Z", BodyFormat.CLOUD_EVENTS)
    assert api.report_as(ONE, body)[0] == 202
    (accepted,) = api.events()
    assert (accepted.type, accepted.club_id, accepted.occurred_at) == (event.type, event.club_id, event.occurred_at)
