"""Which messages the register of sends keeps, over REST and by Kafka."""

from dataclasses import replace
from typing import Any

import pytest

from masscomm.domain.kept_messages import MAX_MESSAGE_BYTES, KeptMessage
from masscomm.domain.lanes import Lane
from masscomm.domain.records import SendRequested
from masscomm.domain.send_content import described
from masscomm.domain.sends import Send, SendKey, Source
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, SEND_ID, send
from tests.support.harness.preference_checker import Checker

KEY = SendKey(7, SEND_ID)
DATA = {"opponent": "FC Riverside"}


def described_as(lane: Lane = Lane.BULK, source: Source = Source.REST, **fields: Any) -> Send:
    usual: dict[str, Any] = {"type": "news", "club_id": 7, "timestamp": NOW, "data": DATA, "template": "t"}
    record = SendRequested(to_users=[], **usual | fields)
    return described(record, KEY, source, lane=lane, named=[1, 2], content="c", channels=("push",), users=2)


def test_message_has_the_shared_variables_only() -> None:
    found = described_as(locale="de", recipient_data={"0": {"seat": "A1"}})
    assert found.not_kept is None
    assert found.message == KeptMessage(
        type="news", channels=("push",), template="t", locale="de", data=DATA, user_ids=(1, 2)
    )


@pytest.mark.kills(guard="kept_messages.category")
@pytest.mark.parametrize("is_test", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {"type": "one_time_password"},
        {"type": "One-Time Password"},
        {"type": "security_alert", "template": None},
        {"type": "a_typo"},
        {"template": "one_time_password"},
        {"template": " ONE_time_password"},
    ],
    ids=str,
)
def test_confidential_message_is_not_kept(fields: dict[str, Any], is_test: bool) -> None:
    for source in Source:
        found = described_as(source=source, send_at=NOW, is_test=is_test, **fields)
        assert (found.message, found.not_kept) == (None, "category")


@pytest.mark.kills(guard="kept_messages.critical")
def test_critical_message_is_not_kept() -> None:
    found = described_as(Lane.CRITICAL)
    assert (found.message, found.not_kept) == (None, "critical")


@pytest.mark.kills(guard="kept_messages.too_large")
def test_larger_message_is_not_kept() -> None:
    largest = {"ü": "ü" * (MAX_MESSAGE_BYTES // 2 - 1)}
    assert described_as(data=largest).message is not None
    found = described_as(data=largest | {"a": ""})
    assert (found.message, found.not_kept) == (None, "too_large")


@pytest.mark.parametrize("topic", [topics.SEND_MONOLITH, topics.SEND_API])
def test_checker_completes_a_message_with_its_send(topic: str) -> None:
    """send_handler was killed between the production of the records and the registration."""
    checker = Checker()
    record = send(range(1, 201), data=DATA)
    assert checker.check(record, record, topic=topic) == []
    message = checker.register.message(KEY)
    assert message is not None
    assert (message.data, message.user_ids) == (DATA, ())


@pytest.mark.kills(guard="kept_messages.small")
def test_message_of_a_small_send_by_kafka_is_not_kept() -> None:
    checker = Checker()
    small = send([1, 2], data=DATA)
    critical = replace(small, send_id="critical")
    later = replace(small, send_id="later", send_at=NOW + 60_000)
    chunk = replace(small, send_id="chunk", chunk_count=2)
    checker.check(small, later, chunk, topic=topics.SEND_MONOLITH)
    checker.check(critical, topic=f"{topics.SEND_MONOLITH}.critical")
    found = {name: checker.register.sends[name].not_kept for name in (SEND_ID, "critical", "later", "chunk")}
    assert found == {SEND_ID: "small", "critical": "critical", "later": None, "chunk": None}
    assert checker.register.messages.keys() == {"later", "chunk"}
    # The users of a send in several records are not all known when it is registered.
    assert [checker.register.messages[name].message.user_ids for name in ("later", "chunk")] == [(1, 2), ()]
