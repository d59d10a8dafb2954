"""`masscomm dead-letters` as an operator types it, on the real broker and registry."""

import json
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from cli import dead_letters as commands
from cli.installation import Installation
from local.devstack.config import StackConfig
from local.devstack.provision import create_topics, register_schemas
from masscomm.clock import SystemClock
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.dead_letters import dead_letter_headers
from masscomm.kafka.event import KafkaRecord
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from tests.support.harness.chain import send

AUDIT_LOG = InMemoryAuditLog()


@pytest.fixture
def reason(kafka: StackConfig, registry: StackConfig, monkeypatch: pytest.MonkeyPatch) -> str:
    """A unique reason, with two dead letters of send.api: a readable and an unreadable one."""
    create_topics(kafka.kafka_bootstrap, topics.chain_topics())
    register_schemas(registry.registry_url, topics.chain_topics())
    monkeypatch.setattr(Installation, "here", lambda: Installation.local(registry))
    monkeypatch.setattr(Installation, "audit_log", lambda _: AUDIT_LOG)
    AUDIT_LOG.entries.clear()
    codec = Codec(HttpSchemaRegistry(registry.registry_url))
    made = f"test-{uuid4()}"
    producer = Producer({"bootstrap.servers": kafka.kafka_bootstrap, "broker.address.family": "v4"})
    for offset, value in enumerate((codec.encode("send.api", "SendRequested", send([1]).to_avro()), b"\0poison")):
        record = KafkaRecord(topic="send.api", partition=2, offset=offset, timestamp_ms=SystemClock().now_ms())
        headers = dead_letter_headers(record, DeadLetter(made, "bad"), "preference_checker")
        producer.produce(topics.DEAD_LETTER, value, b"key", headers=list(headers))
    assert producer.flush(20) == 0
    return made


def _run(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(commands.app, list(arguments))
    assert result.exit_code == status, result.output
    return result.output


def _lines(*arguments: str, status: int = 0) -> list[dict[str, object]]:
    return [json.loads(line) for line in _run(*arguments, "--json", status=status).splitlines()]


def test_letters_are_listed_shown_replayed_and_discarded(reason: str) -> None:
    first, second = _lines("list", "--reason", reason, "--topic", "send.api", "--since", "1h")
    assert [(letter["offset"], letter["status"]) for letter in (first, second)] == [("0", "open"), ("1", "open")]
    assert _lines("list", "--reason", reason, "--until", "1h") == []
    assert [letter["place"] for letter in _lines("list", "--reason", reason, "--offset", "1")] == [second["place"]]
    assert "2 dead letters" in _run("list", "--reason", reason)

    (readable,) = _lines("show", str(first["place"]))
    assert readable["payload"]["to_users"] == [1]  # type: ignore[index]
    (poison,) = _lines("show", str(second["place"]))
    assert poison["payload"] is None
    assert poison["payload_error"]

    assert [done["said"] for done in _lines("replay", "--reason", reason, "--dry-run")] == ["would be replayed"] * 2
    assert [done["said"] for done in _lines("replay", str(first["place"]))] == ["replayed"]
    (repeat,) = _lines("replay", str(first["place"]), status=1)
    assert "already replayed" in str(repeat["said"])
    assert [done["said"] for done in _lines("discard", str(second["place"]), "--why", "noise")] == ["discarded"]
    statuses = [letter["status"] for letter in _lines("list", "--reason", reason)]
    assert statuses == ["replayed", "discarded"]
    assert _lines("replay", "--reason", reason) == [], "a filter chooses open letters"
    assert len(_lines("replay", "--reason", reason, "--again", "--dry-run")) == 2
    (shown,) = _lines("show", str(second["place"]))
    assert shown["history"][0]["why"] == "noise"  # type: ignore[index]
    assert [(entry.action, entry.subject, entry.result) for entry in AUDIT_LOG.entries] == [
        ("dead_letter.shown", first["place"], "ok"),
        ("dead_letter.shown", second["place"], "ok"),
        ("dead_letter.replayed", first["place"], "ok"),
        ("dead_letter.replayed", first["place"], "failed"),
        ("dead_letter.discarded", second["place"], "ok"),
        ("dead_letter.shown", second["place"], "ok"),
    ]


@pytest.mark.guarantee("dead_letters.nothing_is_read_without_audit")
def test_no_letter_is_shown_while_the_audit_log_is_down(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (letter, _) = _lines("list", "--reason", reason)
    monkeypatch.setattr(AUDIT_LOG, "failing", Retry("no audit log"))
    assert _run("show", str(letter["place"]), status=1) == ""


def test_command_without_a_filter_is_refused(reason: str) -> None:
    assert "say which" in _run("replay", status=2)
    assert "--why" in _run("discard", "--reason", reason, status=2)
    assert "no dead letter" in _run("replay", "0@999999999", status=2)
    assert "is not a time" in _run("list", "--since", "tomorrow", status=2)
    assert [letter["status"] for letter in _lines("list", "--reason", reason)] == ["open", "open"]
