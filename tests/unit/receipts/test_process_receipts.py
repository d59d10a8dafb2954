"""Each receipt counts once as an outcome; unresolved receipts are delayed, then dropped."""

import json
from typing import Any

import pytest

from functions.receipts.sent_messages import InMemorySentMessages, SentMessages
from masscomm.domain.notification_codes import REASONS
from masscomm.domain.records import NotificationOutcome, Result
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import Periods, id_of
from masscomm.domain.time_limits import RECEIPT_RETRY_DELAYS_S, SENT_MESSAGES_KEPT_S
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.observability import traces
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from masscomm.stores.frequency_caps.port import Change, PlacesKey, StoredPlaces
from tests.support.categories import put_version
from tests.support.contracts.sent_messages import SentMessagesContract, outcome
from tests.support.harness.chain import NOW, SEND_ID, entry
from tests.support.harness.receipts import Receipts
from tests.support.inputs import receipt_events
from tests.support.sms import sms_settings


class TestInMemoryMessages(SentMessagesContract):
    @pytest.fixture
    def messages(self) -> SentMessages:
        return InMemorySentMessages()


def _said(record: NotificationOutcome) -> tuple[list[int], list[int], str, str | None]:
    return record.positions, record.user_ids, record.results[0].status, record.results[0].reason


EVENTS = {
    "logs": lambda document: receipt_events.of_logs(json.dumps(document)),
    "sns": lambda document: receipt_events.of_sns(json.dumps(document)),
    "event_bridge": receipt_events.of_event_bridge,
}


@pytest.mark.parametrize("way", sorted(EVENTS))
def test_sent_becomes_delivered(way: str) -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"])
    assert receipts.receive(EVENTS[way](receipt_events.DELIVERED)) == []
    (record,) = receipts.outcomes()
    assert _said(record) == ([500], [101], "delivered", None)
    assert (record.send_id, record.chunk_index, record.club_id, record.type) == (SEND_ID, 2, 7, "news")
    assert (record.step, record.channel, record.requested_at) == ("receipt", "push", NOW - 1_000)
    assert (record.range_start, record.range_end, record.provider_message_ids) == (500, 501, [["m"]])


def test_each_receipt_of_an_event_is_produced() -> None:
    receipts = Receipts()
    receipts.sent_messages(["a"], ["b"])
    pushed = [json.dumps(receipt_events.PUSHED).replace('"m"', f'"{name}"') for name in "ab"]
    assert receipts.ingest(receipt_events.of_logs(*pushed, "poison")) == {"receipts": 3}
    assert receipts.reprocess() == []
    assert [record.user_ids for record in receipts.outcomes()] == [[101], [102]]
    assert [headers["masscomm.reason"] for headers in receipts.dead_letters()] == ["undecodable"]


@pytest.mark.guarantee("receipt.counts_once")
def test_repeated_receipt_in_any_form_has_one_id() -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"])
    for event in (
        receipt_events.of_logs(json.dumps(receipt_events.PUSH_FAILED)),
        receipt_events.of_logs(json.dumps(receipt_events.PUSH_FAILED)),
        receipt_events.of_sns(json.dumps(receipt_events.APPLICATION_EVENT)),
    ):
        assert receipts.receive(event) == []
    assert {_said(record)[2:] for record in receipts.outcomes()} == {("bounced", "device_inactive")}
    assert len({record.record_id for record in receipts.outcomes()}) == 1


def test_delivered_then_bounced_are_two_outcomes() -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"])
    receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.DELIVERED), json.dumps(receipt_events.BOUNCED)))
    assert [_said(record)[2:] for record in receipts.outcomes()] == [
        ("delivered", None),
        ("bounced", "bounced_permanent"),
    ]
    assert len({record.record_id for record in receipts.outcomes()}) == 2


def test_complaint_counts_as_delivered() -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"])
    receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.DELIVERED), json.dumps(receipt_events.COMPLAINED)))
    assert {_said(record)[2] for record in receipts.outcomes()} == {"delivered"}
    assert len({record.record_id for record in receipts.outcomes()}) == 1


def test_one_device_of_several_bounces_nothing() -> None:
    receipts = Receipts()
    receipts.sent_messages(["m", "other"])
    receipts.receive(receipt_events.of_logs(json.dumps(receipt_events.PUSH_FAILED)))
    assert receipts.outcomes() == []
    receipts.receive(receipt_events.of_logs(json.dumps(receipt_events.PUSHED)))
    assert [_said(record)[2] for record in receipts.outcomes()] == ["delivered"]


def _of(name: str, document: dict[str, Any]) -> str:
    return json.dumps(document).replace('"m"', f'"{name}"')


@pytest.mark.guarantee("receipt.bounced_when_all_devices_refused")
@pytest.mark.parametrize("at_once", [True, False])
def test_notification_refused_by_every_device_has_bounced(at_once: bool) -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"], ["a", "b", "c"])
    said = [
        _of("a", receipt_events.PUSH_FAILED),
        _of("b", receipt_events.APPLICATION_EVENT),
        _of("c", receipt_events.PUSH_FAILED),
    ]
    if at_once:
        assert receipts.receive(receipt_events.of_logs(*said)) == []
    else:
        for document in said:
            assert receipts.outcomes() == []
            assert receipts.receive(receipt_events.of_sns(document)) == []
    assert receipts.outcomes()
    assert all(_said(each) == ([501], [102], "bounced", "device_inactive") for each in receipts.outcomes())
    assert len({each.record_id for each in receipts.outcomes()}) == 1


def test_notification_refused_twice_by_one_device_is_not_bounced() -> None:
    receipts = Receipts()
    receipts.sent_messages(["a", "b"])
    assert (
        receipts.receive(
            receipt_events.of_logs(_of("a", receipt_events.PUSH_FAILED), _of("a", receipt_events.PUSH_FAILED))
        )
        == []
    )
    assert receipts.receive(receipt_events.of_sns(_of("a", receipt_events.APPLICATION_EVENT))) == []
    assert receipts.outcomes() == []


def test_least_final_of_several_bounce_reasons_is_emitted() -> None:
    receipts = Receipts()
    receipts.sent_messages(["a", "b"])
    busy = receipt_events.APPLICATION_EVENT | {"FailureType": "DependencyUnavailable"}
    assert receipts.receive(receipt_events.of_sns(_of("a", busy))) == []
    assert receipts.receive(receipt_events.of_sns(_of("b", receipt_events.APPLICATION_EVENT))) == []
    assert [_said(record)[2:] for record in receipts.outcomes()][-1:] == [("bounced", "bounced_transient")]


def test_notification_taken_by_one_device_is_delivered() -> None:
    receipts = Receipts()
    receipts.sent_messages(["a", "b"])
    assert (
        receipts.receive(receipt_events.of_logs(_of("a", receipt_events.PUSH_FAILED), _of("b", receipt_events.PUSHED)))
        == []
    )
    assert [_said(record)[2] for record in receipts.outcomes()] == ["delivered"]


@pytest.mark.parametrize(
    ("event", "arn"),
    [
        (receipt_events.of_logs(json.dumps(receipt_events.PUSH_FAILED)), receipt_events.APNS),
        (receipt_events.of_sns(json.dumps(receipt_events.APPLICATION_EVENT)), receipt_events.GCM),
    ],
)
def test_dead_token_has_a_device_status(event: dict[str, Any], arn: str) -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"])
    receipts.messages.endpoints[arn] = 11
    receipts.receive(event)
    (status,) = receipts.statuses()
    assert (status.device_id, status.user_id, status.club_id, status.endpoint_arn) == (11, 101, 7, arn)
    assert (status.status, status.send_id, status.platform) == ("inactive", SEND_ID, "gcm" if "GCM" in arn else "apns")
    assert status.timestamp <= NOW


def test_receipt_records_continue_the_callers_trace() -> None:
    brought = traces.Trace("ab" * 16, "cd" * 8, state="vendor=1")
    receipts = Receipts()
    receipts.sent_messages(["m"], headers=brought.headers)
    receipts.messages.endpoints[receipt_events.APNS] = 11
    receipts.receive(receipt_events.of_logs(json.dumps(receipt_events.PUSH_FAILED)))
    carried = [headers for topic, _, _, headers in receipts.producer.produced if topic != topics.RECEIPT]
    assert [traces.of_headers(headers) for headers in carried] == [brought, brought]
    assert {topics.OUTCOME, topics.DEVICE_STATUS} < {topic for topic, *_ in receipts.producer.produced}


def test_receipt_without_a_trace_has_that_of_its_send() -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"])
    receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.DELIVERED)))
    (headers,) = [headers for topic, _, _, headers in receipts.producer.produced if topic == topics.OUTCOME]
    found = traces.of_headers(headers)
    assert found is not None
    assert found.trace_id == traces.begun_by(SEND_ID).trace_id


@pytest.mark.parametrize(
    ("document", "reason", "days"),
    [
        (receipt_events.BOUNCED, Reason.BOUNCED_PERMANENT, 30),
        (receipt_events.COMPLAINED, Reason.COMPLAINED, 40),
        (receipt_events.COMPLAINED_BEFORE, Reason.COMPLAINED, 40),
    ],
)
def test_a_dead_address_is_suppressed_for_its_club(document: dict[str, Any], reason: Reason, days: int) -> None:
    receipts = Receipts(periods=Periods(bounced_days=30, complained_days=40))
    receipts.sent_messages(["m"], channel="email")
    receipts.messages.emails[101] = "Recipient@EXAMPLE.com"
    assert receipts.receive(receipt_events.of_event_bridge(document)) == []
    ((name, found),) = receipts.messages.suppressions.items()
    assert (name, found["reason"]) == (id_of(7, receipt_events.ADDRESS), reason)
    assert found["expires_at"] == found["at"] + days * 86_400_000


@pytest.mark.guarantee("own_documents.published_before_the_answer")
@pytest.mark.kills(guard="receipts.published")
def test_suppression_is_published_before_it_is_done() -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"], channel="email")
    receipts.messages.emails[101] = receipt_events.ADDRESS
    receipts.publisher.failing = Retry("Kafka is down")
    assert receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.BOUNCED))) != []
    receipts.publisher.failing = None
    assert receipts.reprocess() == []
    assert receipts.publisher.published == [("suppressions", id_of(7, receipt_events.ADDRESS))]


def test_bounce_does_not_shorten_a_complaints_suppression() -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"], channel="email")
    receipts.messages.emails[101] = receipt_events.ADDRESS
    receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.COMPLAINED), json.dumps(receipt_events.BOUNCED)))
    assert [each["reason"] for each in receipts.messages.suppressions.values()] == [Reason.COMPLAINED]


@pytest.mark.guarantee("suppression.only_the_recipients_address")
@pytest.mark.kills(guard="receipts.own_address")
@pytest.mark.parametrize(
    ("sent", "email"),
    [
        ({"channel": "email"}, "another@example.com"),
        ({"channel": "email"}, None),
        ({"channel": "push"}, receipt_events.ADDRESS),
    ],
    ids=["another address", "no address", "a push"],
)
def test_an_address_that_was_not_sent_to_is_not_suppressed(sent: dict[str, Any], email: str | None) -> None:
    """An address is not suppressed just because the receipt names it as a recipient of the message."""
    receipts = Receipts()
    receipts.sent_messages(["m"], **sent)
    if email is not None:
        receipts.messages.emails[101] = email
    assert receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.BOUNCED))) == []
    assert receipts.messages.suppressions == {}
    assert [_said(record)[2] for record in receipts.outcomes()] == ["bounced"]


def test_an_unknown_messages_address_waits_and_is_suppressed() -> None:
    receipts = Receipts()
    receipts.messages.emails[101] = receipt_events.ADDRESS
    receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.BOUNCED)))
    assert receipts.messages.suppressions == {}
    (delayed,) = receipts.delay_store.items.values()
    receipts.sent_messages(["m"], channel="email")
    assert receipts.run(receipts.process, entry(delayed.value, topic=topics.RECEIPT)) == []
    assert len(receipts.messages.suppressions) == 1


@pytest.mark.parametrize("document", receipt_events.OF_NO_ARRIVAL)
def test_receipt_without_an_arrival_produces_nothing(document: dict[str, Any]) -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"])
    assert receipts.receive(receipt_events.of_sns(json.dumps(document), receipt_events.SES_IS_THERE)) == []
    assert (receipts.outcomes(), receipts.dead_letters(), receipts.delay_store.items) == ([], [], {})


def test_receipt_before_its_outcome_is_delayed() -> None:
    receipts = Receipts()
    receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.DELIVERED)))
    assert receipts.outcomes() == []
    (delayed,) = receipts.delay_store.items.values()
    assert (delayed.topic, delayed.due_ms) == (topics.RECEIPT, NOW + RECEIPT_RETRY_DELAYS_S[0] * 1000)
    receipts.sent_messages(["m"])
    assert receipts.run(receipts.process, entry(delayed.value, topic=topics.RECEIPT)) == []
    assert [_said(record)[2] for record in receipts.outcomes()] == ["delivered"]


def test_receipt_before_its_outcome_in_one_batch_is_processed() -> None:
    receipts = Receipts()
    receipts.ingest(receipt_events.of_sns(json.dumps(receipt_events.DELIVERED)))
    (value,) = receipts.values(topics.RECEIPT)
    sent_messages = receipts.encoded(outcome("44444444-4444-5444-8444-444444444444", [["m"]]), topics.OUTCOME, offset=1)
    assert receipts.run(receipts.process, entry(value, topic=topics.RECEIPT), sent_messages) == []
    assert [_said(record)[2] for record in receipts.outcomes()] == ["delivered"]


@pytest.mark.parametrize("retry_delays_s", [RECEIPT_RETRY_DELAYS_S, (2, 0.5)])
def test_receipt_of_unknown_message_is_dropped_after_its_waits(retry_delays_s: tuple[float, ...]) -> None:
    receipts = Receipts(retry_delays_s)
    receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.DELIVERED)))
    for tried, wait_s in enumerate(retry_delays_s, start=1):
        assert len(receipts.delay_store.items) == 1
        _, delayed = receipts.delay_store.items.popitem()
        assert delayed.due_ms - receipts.clock.now_ms() == wait_s * 1000
        receipts.clock.advance(wait_s)
        assert receipts.run(receipts.process, entry(delayed.value, topic=topics.RECEIPT, offset=tried)) == []
    assert (receipts.delay_store.items, receipts.outcomes(), receipts.dead_letters()) == ({}, [], [])


def test_only_outcomes_of_delivery_are_remembered() -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"], step="receipt")
    assert receipts.messages.find(["m"]) == {}


@pytest.mark.guarantee("opensearch_down.receipts_wait")
def test_opensearch_down_redelivers_all_receipts() -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"])
    receipts.messages.failing = Retry("down")
    assert receipts.receive(
        receipt_events.of_sns(json.dumps(receipt_events.BOUNCED), json.dumps(receipt_events.DELIVERED))
    ) == [0, 1]
    assert receipts.outcomes() == []
    receipts.messages.failing = None
    assert receipts.reprocess() == []
    assert len(receipts.outcomes()) == 2


def test_event_retried_by_aws_has_the_same_receipt_ids() -> None:
    receipts = Receipts()
    event = receipt_events.of_logs(json.dumps(receipt_events.PUSHED), json.dumps(receipt_events.PUSH_FAILED))
    receipts.producer.fail = lambda *_: Retry("down") if not receipts.producer.produced else None
    with pytest.raises(Retry):
        receipts.ingest(event)
    receipts.producer.fail = lambda *_: None
    receipts.ingest(event)
    keys = [key for topic, key, *_ in receipts.producer.produced if topic == topics.RECEIPT]
    assert len(set(keys)) == 2


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"awslogs": {}},
        {"awslogs": {"data": "not base64!"}},
        {"awslogs": {"data": "bm90IGd6aXA="}},
        {"awslogs": None},
        {"Records": [{}]},
        {"Records": [{"Sns": {"Message": None}}]},
        {"Records": 7},
        {"source": "aws.ses"},
    ],
)
def test_event_without_receipts_is_a_dead_letter(event: dict[str, Any]) -> None:
    receipts = Receipts()
    assert receipts.receive(event) == []
    (headers,) = receipts.dead_letters()
    assert headers["masscomm.reason"] == "undecodable"
    assert receipts.values(topics.DEAD_LETTER) == receipts.values(topics.RECEIPT)


def test_cloudwatchs_test_event_is_ignored() -> None:
    receipts = Receipts()
    checking = receipt_events.of_logs("CWL CONTROL MESSAGE: Checking health of destination", kind="CONTROL_MESSAGE")
    assert receipts.ingest(checking) == {"receipts": 0}


def test_a_receipts_time_is_never_in_our_future() -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"])
    ahead = json.dumps(receipt_events.BOUNCED).replace("2017-08-05T00:41", "2999-08-05T00:41")
    receipts.receive(receipt_events.of_sns(ahead))
    assert receipts.outcomes()[0].timestamp == NOW


@pytest.mark.kills(guard="receipts.too_old")
def test_a_receipts_time_is_not_before_its_message() -> None:
    """The metrics count no outcome of an earlier year, and messages are known for a week."""
    receipts = Receipts()
    receipts.sent_messages(["m"])
    receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.BOUNCED)))
    assert receipts.outcomes()[0].timestamp == NOW - SENT_MESSAGES_KEPT_S * 1000


@pytest.mark.kills(guard="receipts.unit_of_time")
def test_receipt_of_1970_is_dead_lettered() -> None:
    """Metrics quarantine an outcome of 1970, so the bounce would be in no count."""
    receipts = Receipts()
    receipts.sent_messages(["m"])
    receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.BOUNCED).replace("2017-08-05", "1970-01-18")))
    assert receipts.outcomes() == []
    (letter,) = receipts.dead_letters()
    assert "receipt must be in milliseconds since 1970" in letter["masscomm.error"]


def test_the_metrics_have_a_number_for_every_reason_of_a_receipt() -> None:
    reasons = {Reason.BOUNCED_PERMANENT, Reason.BOUNCED_TRANSIENT, Reason.DEVICE_INACTIVE, Reason.PROVIDER_REJECTED}
    assert {reason.value for reason in reasons} <= set(REASONS)


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        ("TEXT_DELIVERED", "delivered", None),
        ("TEXT_SUCCESSFUL", "delivered", None),
        ("TEXT_INVALID", "bounced", "bounced_permanent"),
        ("TEXT_CARRIER_BLOCKED", "bounced", "bounced_transient"),
        ("TEXT_TTL_EXPIRED", "bounced", "bounced_transient"),
        ("TEXT_SPAM", "bounced", "provider_rejected"),
    ],
)
def test_event_of_an_sms_is_its_status(kind: str, status: str, reason: str | None) -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"], channel="sms")
    assert receipts.receive(receipt_events.of_sms(kind)) == []
    assert [_said(record)[2:] for record in receipts.outcomes()] == [(status, reason)]
    assert receipts.messages.suppressions == {}


@pytest.mark.parametrize("kind", ["TEXT_QUEUED", "TEXT_PENDING", "TEXT_SENT", "TEXT_UNKNOWN"])
def test_event_before_the_end_of_an_sms_is_ignored(kind: str) -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"], channel="sms")
    assert receipts.receive(receipt_events.of_sms(kind)) == []
    assert receipts.outcomes() == []
    assert receipts.dead_letters() == []


def test_unknown_event_of_sms_is_dead_lettered() -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"], channel="sms")
    receipts.receive(receipt_events.of_sms("TEXT_TELEPATHY"))
    (letter,) = receipts.dead_letters()
    assert "TEXT_TELEPATHY" in letter["masscomm.error"]


@pytest.mark.kills(guard="receipts.dead_number")
@pytest.mark.parametrize(
    ("kind", "phone", "is_suppressed"),
    [
        ("TEXT_INVALID", "0151 23456789", True),
        ("TEXT_INVALID", "0151 99999999", False),  # The user has another number now.
        ("TEXT_UNREACHABLE", "0151 23456789", False),
    ],
)
def test_dead_number_is_suppressed_for_its_club(kind: str, phone: str, *, is_suppressed: bool) -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"], channel="sms")
    receipts.messages.phones[101] = phone
    with sms_settings():
        receipts.receive(receipt_events.of_sms(kind, destinationPhoneNumber=receipt_events.NUMBER))
    assert set(receipts.messages.suppressions) == ({id_of(7, receipt_events.NUMBER)} if is_suppressed else set())


@pytest.mark.guarantee("frequency_caps.unsent")
@pytest.mark.kills(guard="frequency_caps.unsent")
def test_unsent_notification_gives_its_place_back(stored_categories: InMemoryCategories) -> None:
    fields = {"channels": ["push"], "caps": [{"limit": 1, "window": "24h"}]}
    put_version(stored_categories, "news", fields, NOW - 3_600_000)
    known_categories().read()
    receipts, keys = Receipts(), [PlacesKey(7, user_id, "86400000#*#category:news") for user_id in (101, 102)]
    receipts.frequency_caps.write([[Change(key, StoredPlaces(), {f"{SEND_ID}#push": NOW}, 1)] for key in keys], NOW)
    results = [Result(status="sent", count=1), Result(status="cancelled", reason="cancelled", count=1)]
    receipts.sent_messages(["m"], [], results=results, result_index=[0, 1])
    assert [len(each.taken) for each in receipts.frequency_caps.read(keys).values()] == [1, 0]


def test_outcomes_wait_while_places_cannot_be_given_back(stored_categories: InMemoryCategories) -> None:
    fields = {"channels": ["push"], "caps": [{"limit": 1, "window": "24h"}]}
    put_version(stored_categories, "news", fields, NOW - 3_600_000)
    known_categories().read()
    receipts = Receipts()
    receipts.frequency_caps.failing = Retry("no answer")
    record = outcome("44444444-4444-5444-8444-444444444444", [[]], results=[Result(status="cancelled", count=1)])
    assert receipts.run(receipts.process, receipts.encoded(record, topics.OUTCOME)) == [0]
    sent = outcome("55555555-5555-5555-8555-555555555555", [["m"]])
    assert receipts.run(receipts.process, receipts.encoded(sent, topics.OUTCOME)) == []
