"""What providers say afterwards, while the function that hears it and what it needs fail in turn."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from devstack.sns_stand_in import Received
from functions.receipts.messages import OpenSearchMessages
from masscomm import topics
from masscomm.statuses import Reason, Status
from tests.faults.bench import Bench, Sent
from tests.faults.cell import Send
from tests.faults.moments import dynamodb, path
from tests.faults.proxy import Answer, Cut, HoldAnswer, Request, produce_to
from tests.faults.waiting import until
from tests.opensearch_client import TestClient
from tests.unit.receipts import shapes

FUNCTION = "receipts"
_LINES_AN_EVENT = 50
_EVERY_FIFTH = 5


def heard_while_everything_fails(bench: Bench, send: Send) -> None:
    """Receipts come while OpenSearch and DynamoDB are away, their function is killed, and answers of Kafka are lost."""
    messages = OpenSearchMessages(TestClient(bench.stack.settings.opensearch_url))
    with ExitStack() as away:
        waiting = away.enter_context(bench.stack.dynamodb.fault(Cut(), when=dynamodb("waiting", "PutItem")))
        with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=_remembers) as forgets:
            send()
            [sent] = bench.sends
            until("everybody has an end", lambda: bench.ended(sent), every_s=0.1)
            taken = [each for each in bench.stack.sns.received() if (each.notification_id, each.endpoint) in sent.pairs]
            events = _events(sent, taken)
            _invoked_twice(bench, events[0])
            forgets.await_hits(2)
            waiting.await_hits(3)  # nobody knows the messages yet, and they cannot be left to the scheduler
        ids = {each.message_id for each in taken}
        until("it is known whose they are", lambda: messages.find(ids).keys() == ids, every_s=0.2)
    with bench.stack.kafka.fault(HoldAnswer(), when=produce_to(topics.OUTCOME)) as held:
        _invoked(bench, events[1])
        held.await_hits()
        bench.kill(FUNCTION)
        held.discard()
    searches = path("/provider_messages/_search")
    with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=searches, times=4) as refused:
        for event in events[2:]:
            _invoked(bench, event)
        refused.await_hits(4)
    _invoked(bench, events[0])  # what was said is said again, long afterwards
    bench.await_receipts()


def _events(sent: Sent, taken: Sequence[Received]) -> list[dict[str, Any]]:
    """What CloudWatch Logs brings; the oracle is told. Of every fifth user nothing arrives, of those with two devices
    it arrives at one."""
    lines = []
    for place, (user_id, pairs) in enumerate(sorted(sent.calls.items())):
        nothing = place % _EVERY_FIFTH == 0
        bounced = (Status.BOUNCED.value, Reason.BOUNCED_TRANSIENT.value)
        sent.heard[user_id] = bounced if nothing else (Status.DELIVERED.value, "")
        for number, pair in enumerate(sorted(pairs)):
            [message] = [each for each in taken if (each.notification_id, each.endpoint) == pair]
            lines.append(_line(message, arrived=not nothing and number == 0))
    parts = [lines[start : start + _LINES_AN_EVENT] for start in range(0, len(lines), _LINES_AN_EVENT)]
    return [shapes.of_logs(*part) for part in parts]


def _line(message: Received, *, arrived: bool) -> str:
    usual = shapes.PUSHED if arrived else shapes.PUSH_FAILED
    at = datetime.fromtimestamp(message.time, UTC)
    delivery: dict[str, Any] = {**usual["delivery"], "destination": message.endpoint}  # type: ignore[dict-item]
    if not arrived:
        delivery |= {"statusCode": 500, "providerResponse": '{"reason":"InternalServerError"}'}
    notification = {"timestamp": f"{at:%Y-%m-%d %H:%M:%S.%f}", "messageId": message.message_id}
    return json.dumps({**usual, "notification": notification, "delivery": delivery})


def _remembers(request: Request) -> bool:
    return "/_bulk" in request.what and b'"provider_messages"' in request.body


def _invoked(bench: Bench, event: dict[str, Any]) -> None:
    """As AWS does: asynchronously, in an environment of its own."""
    beside = bench.beside(FUNCTION)
    beside.invoke(event)
    assert beside.answer()["receipts"] > 0


def _invoked_twice(bench: Bench, event: dict[str, Any]) -> None:
    """The environment dies when Kafka has the receipts and it does not know: AWS brings the event again."""
    beside = bench.beside(FUNCTION)
    with bench.stack.kafka.fault(HoldAnswer(), when=produce_to(topics.RECEIPT)) as held:
        beside.invoke(event)
        held.await_hits()
        beside.close()
        held.discard()
    _invoked(bench, event)
