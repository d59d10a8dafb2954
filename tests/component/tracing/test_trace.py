"""`masscomm trace` over a real broker, registry and tables: the history of a send or a user, in order."""

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from cli import main as cli
from cli.installation import Installation
from local.devstack.config import StackConfig
from local.devstack.provision import create_topics, register_schemas
from masscomm.clock import FixedClock
from masscomm.domain.call_results import CallResult, RecipientResult
from masscomm.domain.ids import notification_id
from masscomm.domain.outcomes import RecipientOutcome, outcome
from masscomm.domain.preferences import Decision
from masscomm.domain.records import AvroRecord, NotificationOutcome, ReceiptReceived
from masscomm.domain.statuses import Reason, Status
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.producer import Headers
from masscomm.observability import traces
from masscomm.stores.delivery_ledger.dynamodb import DynamoDbDeliveryLedger
from tests.support.harness.chain import NOW, Chain, build, delivery, send
from tests.support.harness.receipts import process_receipts
from tests.support.inputs import receipt_events
from tests.support.servers.dynamodb_table import dynamodb, new_table

HEADERS: list[tuple[str, str | bytes | None]] = [*traces.begun_by("a trace").headers]


@pytest.fixture
def send_id(
    kafka: StackConfig,
    registry: StackConfig,
    localstack: StackConfig,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> str:
    """Make a send to two users: user 1 is notified, user 2 has opted out."""
    create_topics(kafka.kafka_bootstrap, topics.chain_topics())
    register_schemas(registry.registry_url, topics.chain_topics())
    client = dynamodb(localstack)
    tables = {name: new_table(client, name) for name in ("delivery_ledger", "decisions", "waiting")}
    installation = replace(Installation.local(registry), tables=tables, logs=tmp_path)
    monkeypatch.setattr(Installation, "here", lambda: installation)
    monkeypatch.setattr(Installation, "dynamodb", lambda _self: client)
    made = str(uuid4())
    record = delivery([1], record_id=str(uuid4()), send_id=made)
    ledger = DynamoDbDeliveryLedger(
        table=tables["delivery_ledger"], owner="o", clock=FixedClock(NOW + 4_000), client=client
    )
    sent = Decision(Status.SENT, None, "provider")
    answers = (CallResult(target="11", message_id="message-1", error=None),)
    ledger.record(record.record_id, [RecipientResult(position=0, user_id=1, decision=sent, call_results=answers)])
    out = Decision(Status.SUPPRESSED, Reason.OPTED_OUT, "user", "push")
    common: dict[str, Any] = {"channel": "push", "start": 0, "end": 500, "directory": None}
    asked = build([1], record_id=str(uuid4()), send_id=made)
    sent_outcome = outcome(
        record, [RecipientOutcome(0, 1, sent, ("message-1",))], step="delivery", now_ms=NOW, **common
    )
    _produce(
        registry,
        (topics.SEND_MONOLITH, NOW, send([1, 2], send_id=made)),
        (topics.SEND_MONOLITH, NOW, send([1, 2], send_id=str(uuid4()))),
        (topics.BUILD, NOW + 1_000, asked),
        (
            topics.OUTCOME,
            NOW + 1_000,
            outcome(asked, [RecipientOutcome(1, 2, out)], step="preference", now_ms=NOW, **common),
        ),
        (topics.DELIVERY, NOW + 2_000, record),
        (topics.OUTCOME, NOW + 5_000, sent_outcome),
    )
    after, headers = _receipt(sent_outcome)
    _produce(registry, (topics.OUTCOME, NOW + 6_000, after), headers=headers)
    return made


def _receipt(sent_outcome: NotificationOutcome) -> tuple[NotificationOutcome, Headers]:
    """Return the outcome of SNS' report of a delivery, and its headers."""
    chain = Chain()
    follow = process_receipts(chain)
    pushed: dict[str, Any] = deepcopy(receipt_events.PUSHED)
    pushed["notification"]["messageId"] = "message-1"
    body = json.dumps(pushed)
    received = ReceiptReceived(record_id=str(uuid4()), body=body, received_at=NOW)
    carried = [(name, value) for name, value in HEADERS if isinstance(value, bytes)]
    assert chain.run(follow, chain.encoded(sent_outcome, topics.OUTCOME, headers=carried)) == []
    assert chain.run(follow, chain.encoded(received, topics.RECEIPT)) == []
    (headers,) = [headers for _, _, _, headers in chain.producer.produced]
    return chain.outcomes()[0], headers


def _produce(registry: StackConfig, *records: tuple[str, int, AvroRecord], headers: Headers | None = None) -> None:
    codec = Codec(HttpSchemaRegistry(registry.registry_url))
    producer = Producer({"bootstrap.servers": registry.kafka_bootstrap, "broker.address.family": "v4"})
    for topic, at_ms, record in records:
        value = codec.encode(topic, type(record).__name__, record.to_avro())
        producer.produce(topic, value, b"key", timestamp=at_ms, headers=[*(headers or HEADERS)])
    assert producer.flush(20) == 0


def _run(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(cli.app, ["trace", *arguments])
    assert result.exit_code == status, result.output
    return result.output


def _steps(*arguments: str) -> list[tuple[str, str, str]]:
    document = json.loads(_run(*arguments, "--json"))
    assert document["trace_ids"] == [traces.begun_by("a trace").trace_id]
    return [(step["kind"], step["function"], step["said"]) for step in document["steps"]]


def test_trace_lists_events_in_order_and_refuses_unknown_users(send_id: str) -> None:
    sent = [
        ("record", "monolith", "send requested: chunk 1 of 1, 2 users, category news, club 7"),
        ("record", "preference_checker", "messages to write by push: 1 recipient"),
        ("record", "builder", "messages to deliver by push: 1 recipient"),
        ("ledger", "delivery", "recorded: sent: 11 → message-1"),
        ("record", "delivery", "sent by provider: message-1"),
        ("record", "receipts", "delivered by provider: message-1"),
    ]
    assert _steps(notification_id(send_id, 1, "push")) == sent
    assert _steps(notification_id(send_id, 2, "push")) == [
        sent[0],
        ("record", "preference_checker", "suppressed (opted_out) by user push"),
    ]
    whole = _steps(send_id)
    assert len(whole) == 7
    assert ("record", "preference_checker", "push: suppressed (opted_out) 1") in whole
    assert "send requested" in _run(send_id)
    _run(str(uuid4()), status=1)
