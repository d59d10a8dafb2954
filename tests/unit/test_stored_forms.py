"""Delayed records and outcomes keep the form of their ids and values, because earlier versions have stored such
records.
"""

import json
from dataclasses import replace
from typing import Any

from masscomm.domain.call_results import CallResult, RecipientResult
from masscomm.domain.ids import envelope_id
from masscomm.domain.outcomes import SENT
from masscomm.domain.preferences import Decision
from masscomm.domain.records import NotificationOutcome, RecheckRequested, Result
from masscomm.domain.statuses import Status
from masscomm.domain.users import DirectoryPosition
from masscomm.kafka import topics
from masscomm.observability import metrics
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delayed_records.port import DelayedRecord
from tests.support.harness.chain import NOW, SEND_ID, Chain, build, delivery, recheck
from tests.support.harness.preference_checker import Checker
from tests.support.harness.receipts import Receipts
from tests.support.harness.reschedule_records import PARTIAL, Rescheduler
from tests.support.inputs import receipt_events


def _delayed(chain: Chain, store: InMemoryDelayStore, attempt: int = 0) -> tuple[DelayedRecord, dict[str, Any]]:
    """Return the only delayed record and its decoded value, and check that its id derives from both."""
    (item,) = store.items.values()
    schema = next(topic.schema for topic in topics.chain_topics() if topic.name == item.topic)
    assert schema is not None
    value = chain.codec.decode(schema, item.value)
    assert item.id == envelope_id(value["record_id"], item.value, attempt)
    return item, value


def test_envelope_id_keeps_its_form() -> None:
    assert envelope_id("record", b"value", 2) == "06db6b39-124d-5153-a554-4dd075ac3c3c"


def test_request_behind_the_directory_is_delayed_whole() -> None:
    checker = Checker()
    checker.directory.caught_up = DirectoryPosition(lsn=1, ts_ms=NOW - 1)
    request = recheck([99])
    checker.check(request, topic=topics.RECHECK)
    item, value = _delayed(checker, checker.delay_store)
    assert RecheckRequested.from_avro(value) == replace(request, why="directory", waits=1)
    assert (item.topic, item.delay_reason, [name for name, _ in item.headers]) == (
        "recheck",
        "directory",
        ["traceparent"],
    )


def test_rescheduled_record_keeps_value_and_headers() -> None:
    rescheduler = Rescheduler()
    rescheduler.reschedule(build([1]), topics.BUILD, headers=(("trace", b"1"), ("masscomm.returned", b"4")))
    item, _ = _delayed(rescheduler, rescheduler.store, attempt=5)
    assert item.value == rescheduler.codec.encode(topics.BUILD, "BuildRequested", build([1]).to_avro())
    assert item.delay_reason == "on_failure"
    assert item.headers == (("trace", b"1"), ("masscomm.returned", b"5"), ("masscomm.crashed", b"0"))


def test_unresolved_receipt_counts_its_tries() -> None:
    receipts = Receipts()
    receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.DELIVERED)))
    item, value = _delayed(receipts, receipts.delay_store)
    assert (item.topic, item.delay_reason, item.headers, value["tries"]) == ("receipt", "unresolved", (), 1)


def test_expired_delivery_has_the_outcome_of_its_function() -> None:
    rescheduler = Rescheduler()
    rescheduler.clock.advance(3600)
    record = delivery([1, 2, 3], expires_at=NOW + 1_000)
    sent = RecipientResult(
        position=0, user_id=1, decision=SENT, call_results=(CallResult(target="11", message_id="m"),)
    )
    waits = RecipientResult(position=1, user_id=2, decision=Decision(Status.SENDING), call_results=(), retry_at_ms=1)
    rescheduler.ledger.record(record.record_id, [sent, waits])
    crash = replace(PARTIAL, function_error="Unhandled")
    metrics.taken()
    rescheduler.reschedule(record, topics.DELIVERY, last_invocation=crash, after_s=1)
    counted, _ = metrics.taken()
    assert (counted["RecipientsSent"], counted["RecipientsExpired"]) == (1, 2)
    (outcome,) = rescheduler.outcomes()
    assert outcome.record_id == "9032b1ec-fd60-5ce1-bcd2-3fbf58a9d304"
    assert (outcome.step, outcome.timestamp, outcome.requested_at) == ("delivery", NOW + 3_600_000, NOW)
    assert outcome.results == [
        Result(status="sent", count=1, layer="provider"),
        Result(
            status="expired",
            reason="expired",
            count=2,
            layer="function",
            rule="it ended in an error, once more after expires_at",
        ),
    ]
    assert (outcome.result_index, outcome.provider_message_ids) == ([0, 1, 1], [["m"], [], []])


def test_receipts_outcome_keeps_its_id_and_columns() -> None:
    receipts = Receipts()
    receipts.sent_messages(["m"], channel="email")
    receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.BOUNCED)))
    (outcome,) = receipts.outcomes()
    assert outcome == NotificationOutcome(
        record_id="9906bec9-52d2-52c4-9572-ed037f6f7451",
        parent_id="44444444-4444-5444-8444-444444444444",
        step="receipt",
        send_id=SEND_ID,
        chunk_index=2,
        range_start=500,
        range_end=501,
        club_id=7,
        type="news",
        channel="email",
        # The receipt is of 2017, and messages are known for a week.
        timestamp=NOW - 7 * 86_400_000,
        requested_at=NOW - 1_000,
        positions=[500],
        user_ids=[101],
        results=[
            Result(status="bounced", reason="bounced_permanent", count=1, layer="provider", rule="Permanent/General")
        ],
        result_index=[0],
        provider_message_ids=[["m"]],
    )
