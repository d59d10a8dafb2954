"""The pause of a club's e-mails in the register of sends, on the adapters of DynamoDB."""

from typing import Any

from masscomm.chain.email_reputation import EmailReputation
from masscomm.clock import SystemClock
from masscomm.domain.email_pauses import MS_AN_HOUR, EmailCounts, pause_key
from masscomm.domain.sends import controlled
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.email_counts.dynamodb import DynamoDbEmailCounter
from masscomm.stores.sends.dynamodb import DynamoDbSends
from masscomm.stores.sends.port import change
from tests.support.reputation import email_pauses
from tests.support.servers.dynamodb_table import new_table

KEY = pause_key(7)


def test_pause_is_stored_once_and_again_after_its_end(moto_dynamodb: Any) -> None:
    clock = SystemClock()
    sends = DynamoDbSends(table=new_table(moto_dynamodb, "sends"), client=moto_dynamodb)
    counter = DynamoDbEmailCounter(table=new_table(moto_dynamodb, "key_usage"), client=moto_dynamodb)
    audit_log = InMemoryAuditLog()
    reputation = EmailReputation(counter=counter, pauses=email_pauses(sends, clock, audit_log))
    counter.add(7, clock.now_ms() // MS_AN_HOUR, EmailCounts(1_000, 101, 0), once="a")
    for _ in range(2):
        reputation.check([7])
    first = sends.controls([KEY])[KEY]
    assert (first.paused_at_ms is not None, first.revision, first.fault) == (True, 1, None)
    now_ms = clock.now_ms()
    known = sends.find(KEY.send_id)
    assert known is not None
    change(sends, known, lambda send: controlled(send, paused_at_ms=None, resumed_at_ms=now_ms))
    reputation.check([7])
    assert sends.controls([KEY])[KEY].paused_at_ms is None, "the hour of the end does not count again"
    reputation.pauses.pause(7, "SES has paused its tenant club-7")
    assert sends.controls([KEY])[KEY].paused_at_ms is not None
    assert len(audit_log.entries) == 2
