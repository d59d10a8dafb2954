"""Faults of receipts: failing servers, receipts before their messages are known, and receipts about dead endpoints."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from functions.receipts.sent_messages import OpenSearchSentMessages
from local.devstack.sns_process import Received
from masscomm.domain.records import DeviceStatusChanged, ReceiptReceived
from masscomm.domain.statuses import Reason, Status
from masscomm.kafka import topics
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from tests.faults.moments import dynamodb, path
from tests.faults.providers import disabled
from tests.support.fault_stack.bench import Bench, Sent, tail
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.population import address
from tests.support.fault_stack.proxy import Answer, Cut, HoldAnswer, Request, produce_to
from tests.support.fault_stack.stack import RECEIPT_WAITS_S
from tests.support.inputs import receipt_events
from tests.support.servers import dynamodb_table
from tests.support.servers.opensearch_client import TestClient
from tests.support.until import until

FUNCTION = "receipts"
_LINES_AN_EVENT = 50
_EVERY_FIFTH = 5


def receipts_while_everything_fails(bench: Bench, send: Send) -> None:
    """Receipts arrive while OpenSearch and DynamoDB are down; their function is killed, and responses are lost."""
    messages = OpenSearchSentMessages(TestClient(bench.stack.config.opensearch_url))
    with ExitStack() as outages:
        waiting = outages.enter_context(bench.stack.dynamodb.fault(Cut(), when=dynamodb("waiting", "PutItem")))
        with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=_remembers) as forgets:
            send()
            [sent] = bench.sends
            taken = _taken(bench, sent)
            events = _events(sent, taken)
            _invoked_twice(bench, events[0])
            forgets.await_hits(2)
            waiting.await_hits(3)
        ids = {each.message_id for each in taken}
        until("the messages are stored", lambda: messages.find(ids).keys() == ids, every_s=0.2)
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
    _invoked(bench, events[0])  # AWS repeats receipts that were processed long before
    bench.await_receipts()


def too_early(bench: Bench, send: Send) -> None:
    """Messages are stored only after their receipts have been delayed for the last permitted time."""
    store = DynamoDbDelayStore(client=dynamodb_table.dynamodb(bench.stack.config))

    seen: set[str] = set()

    def all_wait_for_the_last_time() -> bool:
        for item in store.scan():
            if item.topic == topics.RECEIPT:
                record = ReceiptReceived.from_avro(bench.codec.decode("ReceiptReceived", item.value))
                seen.update({record.record_id} if record.tries == len(RECEIPT_WAITS_S) else ())
        return len(seen) == len(sent.pairs)

    with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=_remembers):
        send()
        [sent] = bench.sends
        events = _events(sent, _taken(bench, sent))
        for event in events:
            _invoked(bench, event)
        until("each receipt waits for the last time", all_wait_for_the_last_time, every_s=0.1)
    bench.await_receipts()


def learnt_afterwards(bench: Bench, _: Send) -> None:
    """Receipts report that tokens and addresses are dead: later sends do not use them."""
    users = bench.population.grow(20)
    pushed, mailed = bench.emit(users), bench.emit(users, channel="email")
    taken, mails = _taken(bench, pushed), _mails(bench, mailed)
    statuses = tail(bench, topics.DEVICE_STATUS)
    try:
        logs, events, dead = _dead_tokens(pushed, taken)
        bounces, complaints, suppressed = _dead_addresses(mailed, mails)
        for event in (
            receipt_events.of_logs(*logs),
            receipt_events.of_sns(*events, *bounces),
            *map(receipt_events.of_event_bridge, complaints),
        ):
            _invoked(bench, event)
        bench.await_receipts()
        until("the devices are inactive", lambda: disabled(bench, dead))
        status_changes = [
            DeviceStatusChanged.from_avro(bench.codec.decode("DeviceStatusChanged", message.value()))
            for message in statuses.poll()
        ]
    finally:
        statuses.close()
    assert {(each.device_id, each.status) for each in status_changes} == {
        (device_id, "inactive") for device_id in dead
    }, status_changes

    without_endpoint = {user_id for user_id, (status, _) in pushed.receipt_outcomes.items() if status == Status.BOUNCED}
    endpoints = {_endpoint(bench, device_id) for device_id in dead}
    second_push = bench.emit(users, refused_users=without_endpoint)
    second_push.calls = {
        user_id: [pair for pair in pairs if pair[1] not in endpoints] for user_id, pairs in second_push.calls.items()
    }
    second_mail = bench.emit(users, channel="email")
    for user_id in suppressed:
        second_mail.fates[user_id] = frozenset({"address_suppressed"})
        del second_mail.calls[user_id]


def _taken(bench: Bench, sent: Sent) -> list[Received]:
    """Return the messages of a send that SNS accepted, after every recipient has a terminal status."""
    until("everybody has an end", lambda: bench.ended(sent), every_s=0.1)
    return [each for each in bench.stack.sns.received() if (each.notification_id, each.endpoint) in sent.pairs]


def _mails(bench: Bench, sent: Sent) -> dict[int, str]:
    until("everybody has an end", lambda: bench.ended(sent), every_s=0.1)
    return {
        user_id: ids[0]
        for record in bench.outcomes.of(sent.send_id)
        for user_id, ids in zip(record["user_ids"], record["provider_message_ids"], strict=False)
        if ids
    }


def _dead_tokens(sent: Sent, taken: Sequence[Received]) -> tuple[list[str], list[str], list[int]]:
    """Make receipts about dead tokens, and set the send's expected receipt outcomes.

    Two users have one device: one is reported by a log line, the other by an event. A third has two devices, one of
    them dead.

    Returns:
        Log lines, application events, and the devices that they report as dead.
    """
    messages = {(each.notification_id, each.endpoint): each for each in taken}
    by_log, by_event = [user_id for user_id, pairs in sorted(sent.calls.items()) if len(pairs) == 1][:2]
    of_two = next(user_id for user_id, pairs in sorted(sent.calls.items()) if len(pairs) == 2)
    inactive = (Status.BOUNCED.value, Reason.DEVICE_INACTIVE.value)
    sent.receipt_outcomes = {by_log: inactive, by_event: inactive, of_two: (Status.DELIVERED.value, "")}
    gcm, apns = sorted(sent.calls[of_two], key=lambda pair: "/APNS/" in pair[1])
    unregistered = {"statusCode": 404, "providerResponse": '{"error":{"details":[{"errorCode":"UNREGISTERED"}]}}'}
    logs = [
        _line(messages[sent.calls[by_log][0]], arrived=False, **unregistered),
        _line(messages[gcm], arrived=True),
    ]
    events = [_application_event(messages[pair]) for pair in (sent.calls[by_event][0], apns)]
    return logs, events, [by_log * 10, by_event * 10, of_two * 10 + 1]


def _dead_addresses(sent: Sent, mails: dict[int, str]) -> tuple[list[str], list[dict[str, Any]], list[int]]:
    """Make receipts about dead addresses, and set the send's expected receipt outcomes.

    Returns:
        Events through SNS, events through EventBridge, and the users whose addresses are dead.
    """
    dead, full, complaining, reading = sorted(sent.calls)[:4]
    sent.receipt_outcomes = {
        dead: (Status.BOUNCED.value, Reason.BOUNCED_PERMANENT.value),
        full: (Status.BOUNCED.value, Reason.BOUNCED_TRANSIENT.value),
        complaining: (Status.DELIVERED.value, ""),
        reading: (Status.DELIVERED.value, ""),
    }
    at = datetime.now(UTC).isoformat()

    def event(usual: dict[str, Any], part: str, user_id: int, **changes: Any) -> dict[str, Any]:
        mail = {**receipt_events.MAIL, "messageId": mails[user_id], "timestamp": at, "destination": [address(user_id)]}
        return {**usual, "mail": mail, part: {**usual[part], "timestamp": at, **changes}}

    def bounced(user_id: int, kind: str) -> dict[str, Any]:
        [usual] = receipt_events.BOUNCED["bounce"]["bouncedRecipients"]  # type: ignore[index]
        return event(
            receipt_events.BOUNCED,
            "bounce",
            user_id,
            bounceType=kind,
            bouncedRecipients=[{**usual, "emailAddress": address(user_id)}],
        )

    complained = {"complainedRecipients": [{"emailAddress": address(complaining)}]}
    return (
        [
            json.dumps(bounced(dead, "Permanent")),
            json.dumps(bounced(full, "Transient")),
            json.dumps(event(receipt_events.DELIVERED, "delivery", reading)),
        ],
        [event(receipt_events.COMPLAINED, "complaint", complaining, **complained)],
        [dead, complaining],
    )


def _endpoint(bench: Bench, device_id: int) -> str:
    """Return the endpoint of a user's device: the first device is Google's, the second Apple's."""
    user_id, place = divmod(device_id, 10)
    return next(arn for arn in bench.population.endpoints[user_id] if ("/APNS/" in arn) == bool(place))


def _application_event(message: Received) -> str:
    at = datetime.fromtimestamp(message.time, UTC)
    changes = {"MessageId": message.message_id, "EndpointArn": message.endpoint, "Time": at.isoformat()}
    return json.dumps({**receipt_events.APPLICATION_EVENT, **changes})


def _events(sent: Sent, taken: Sequence[Received]) -> list[dict[str, Any]]:
    """Make events of CloudWatch Logs, and set the send's expected receipt outcomes.

    No device of every fifth user gets the message; of any other user's two devices one does.
    """
    lines = []
    for place, (user_id, pairs) in enumerate(sorted(sent.calls.items())):
        nothing = place % _EVERY_FIFTH == 0
        bounced = (Status.BOUNCED.value, Reason.BOUNCED_TRANSIENT.value)
        sent.receipt_outcomes[user_id] = bounced if nothing else (Status.DELIVERED.value, "")
        for number, pair in enumerate(sorted(pairs)):
            [message] = [each for each in taken if (each.notification_id, each.endpoint) == pair]
            lines.append(_line(message, arrived=not nothing and number == 0))
    parts = [lines[start : start + _LINES_AN_EVENT] for start in range(0, len(lines), _LINES_AN_EVENT)]
    return [receipt_events.of_logs(*part) for part in parts]


def _line(message: Received, *, arrived: bool, **fields: Any) -> str:
    usual = receipt_events.PUSHED if arrived else receipt_events.PUSH_FAILED
    at = datetime.fromtimestamp(message.time, UTC)
    delivery: dict[str, Any] = {**usual["delivery"], "destination": message.endpoint}  # type: ignore[dict-item]
    if not arrived:
        delivery |= fields or {"statusCode": 500, "providerResponse": '{"reason":"InternalServerError"}'}
    notification = {"timestamp": f"{at:%Y-%m-%d %H:%M:%S.%f}", "messageId": message.message_id}
    return json.dumps({**usual, "notification": notification, "delivery": delivery})


def _remembers(request: Request) -> bool:
    return "/_bulk" in request.operation and b'"provider_messages"' in request.body


def _invoked(bench: Bench, event: dict[str, Any]) -> None:
    """Invoke the function as AWS does: asynchronously, in its own environment."""
    extra = bench.extra_environment(FUNCTION)
    extra.invoke(event)
    assert extra.answer()["receipts"] > 0


def _invoked_twice(bench: Bench, event: dict[str, Any]) -> None:
    """Kill the environment once Kafka has the receipts, before the acknowledgement, so that AWS repeats the event."""
    extra = bench.extra_environment(FUNCTION)
    with bench.stack.kafka.fault(HoldAnswer(), when=produce_to(topics.RECEIPT)) as held:
        extra.invoke(event)
        held.await_hits()
        extra.close()
        held.discard()
    _invoked(bench, event)
