"""Faults between an incoming webhook, or a reported event, and the endpoints that subscribe to it."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import httpx

from local.devstack.service import AWS_CREDENTIALS
from local.emulators.queues import sqs_client
from masscomm.domain.webhook_sources import Refusal, Scheme
from masscomm.kafka import topics
from masscomm_client import Client
from tests.faults.moments import LEDGER, dynamodb
from tests.support.fault_stack.bench import Bench, sources
from tests.support.fault_stack.cell import FaultOf, Send
from tests.support.fault_stack.proxy import Cut, DropAnswer, Hold, HoldAnswer, Request, produce_to
from tests.support.fault_stack.proxy.faults import Fault
from tests.support.harness.webhook_receiver import Receiver, receiving
from tests.support.harness.webhook_sources import HMAC, SECRET, signed, source_key
from tests.support.inputs.hostile_webhooks import HOSTILE_MAPPING, hostile_webhooks
from tests.support.until import until

CLUB = 1
_QUEUE = "incoming-webhooks"
_FUNCTIONS = sources("event_matcher", "webhook_sender")

# A fault that holds a request of the function that is killed, or its answer.
type Moment = Callable[[Bench], AbstractContextManager[Fault]]


@dataclass(frozen=True, kw_only=True)
class Events:
    """An event type, an endpoint that subscribes to it, and a source of incoming webhooks whose mapping names it."""

    bench: Bench
    client: Client
    receiver: Receiver
    type: str
    endpoint_id: str
    source_id: str
    door: str

    def report(self, number: int) -> None:
        """Report an event over REST."""
        event_id = f"{self.type}-{number}"
        self.client.report_events(
            [{"event_id": event_id, "type": self.type, "club_id": CLUB, "data": {"number": number}}]
        )

    def post(self, number: int) -> httpx.Response:
        """Post an incoming webhook."""
        body = json.dumps({"match": {"number": number}}).encode()
        headers = {"content-type": "application/json", **signed(Scheme.GITHUB, body, id_=f"{self.type}-{number}")}
        return httpx.post(self.door, content=body, headers=headers, timeout=30, trust_env=False)

    def counts(self) -> Counter[int]:
        """Return how often each event has arrived, by its number."""
        return Counter(each.event["data"]["number"] for each in self.receiver.received)

    def await_events(self, *numbers: int) -> None:
        until("the events have arrived", lambda: self.counts().keys() == set(numbers), every_s=0.05)
        until("the topics of events are consumed", lambda: self.bench.at_rest(_FUNCTIONS), every_s=0.1)
        ids = {(each.event["data"]["number"], each.headers["webhook-id"]) for each in self.receiver.received}
        assert len(ids) == len(numbers), "an event has several ids"

    def await_settled(self, *numbers: int) -> None:
        """Wait for these events, and until the door's queue has no repetition of one."""
        self.await_events(*numbers)
        _await_empty_queue(self.bench)
        self.await_events(*numbers)

    def attempts(self) -> Counter[str]:
        """Return the counted attempts by status."""
        now = datetime.now(UTC)
        start, end = (f"{now + timedelta(hours=hours):%Y-%m-%dT%H:00:00Z}" for hours in (-1, 2))
        found = Counter[str]()
        rows = self.client.webhook_metrics(self.endpoint_id, granularity="minute", start=start, end=end)
        for row in rows:
            found[row["status"]] += row["count_total"]
        return found


@contextmanager
def events(bench: Bench) -> Iterator[Events]:
    type_ = f"faults.n{time.time_ns():x}"
    config = bench.stack.config
    with receiving() as receiver, Client(config.gateway_url, key=config.api_key) as client:
        created = client.create_webhook(club_id=CLUB, url=receiver.url, event_types=["send.failed"])
        endpoint_id = created["endpoint"]["id"]
        client.set_event_type(type_, description="of a fault", example={})
        client.create_subscription(endpoint_id=endpoint_id, types=[type_])
        source = client.create_source(
            club_id=CLUB,
            scheme="github",
            secret=SECRET,
            mapping={"type": {"value": type_}, "club_id": {"value": CLUB}, "data": {"path": "match"}},
        )
        try:
            yield Events(
                bench=bench,
                client=client,
                receiver=receiver,
                type=type_,
                endpoint_id=endpoint_id,
                source_id=source["id"],
                door=source["url"],
            )
        finally:
            client.delete_source(source["id"])
            client.delete_webhook(endpoint_id)


# --- kills ---


def receiver_killed(moment: Moment) -> FaultOf:
    """Kill the door's function: its webhooks are posted to the queue meanwhile, and none is lost."""

    def fault(bench: Bench, _: Send) -> None:
        with events(bench) as made:
            with moment(bench) as held:
                assert made.post(0).status_code == httpx.codes.ACCEPTED
                held.await_hits()
                bench.kill("webhook_receiver")
                assert made.post(1).status_code == httpx.codes.ACCEPTED
                held.discard()
            made.await_settled(0, 1)
            assert made.counts().total() <= 3, made.counts()

    return fault


def matcher_killed(moment: Moment) -> FaultOf:
    """Kill event_matcher: events are matched again under the ids of their messages."""

    def fault(bench: Bench, _: Send) -> None:
        with events(bench) as made:
            with moment(bench) as held:
                made.report(0)
                held.await_hits()
                bench.kill("event_matcher")
                made.report(1)
                held.discard()
            made.await_events(0, 1)
            assert made.counts().total() <= 3, made.counts()

    return fault


def sender_killed(moment: Moment, posts: int) -> FaultOf:
    """Kill webhook_sender: the message is posted `posts` times under one id, and counted once."""

    def fault(bench: Bench, _: Send) -> None:
        with events(bench) as made:
            with moment(bench) as held:
                made.report(0)
                held.await_hits()
                bench.kill("webhook_sender")
                held.discard()
            made.await_events(0)
            made.report(1)
            made.await_events(0, 1)
            assert made.counts() == {0: posts, 1: 1}
            # Results are released in the order in which they are put: once that of the later event is counted, a second
            # one of the first event would be, too.
            until("the results are counted", lambda: made.attempts().total() >= 2, every_s=0.2)
            assert made.attempts() == {"delivered": 2}

    return fault


def before_producing(topic: str) -> Moment:
    return lambda bench: bench.stack.kafka.fault(Hold(), when=produce_to(topic))


def after_producing(topic: str) -> Moment:
    return lambda bench: bench.stack.kafka.fault(HoldAnswer(), when=produce_to(topic))


def before_writing(when: Callable[[Request], bool]) -> Moment:
    return lambda bench: bench.stack.dynamodb.fault(Hold(), when=when)


def after_writing(when: Callable[[Request], bool]) -> Moment:
    return lambda bench: bench.stack.dynamodb.fault(HoldAnswer(), when=when)


ACCEPTED_IDS = dynamodb("event_ids", "BatchWriteItem")


def sent_messages(request: Request) -> bool:
    """Return whether a request records which messages of a partition are sent."""
    return dynamodb(LEDGER, "PutItem")(request) and b'"sent"' in request.body and b'"webhook/' in request.body


def results(request: Request) -> bool:
    """Return whether a request puts the record of results, whose content is stored."""
    return dynamodb("waiting", "PutItem")(request) and b'"webhook_outcome"' in request.body


# --- servers ---


def queue_away(bench: Bench, _: Send) -> None:
    """While SQS is away, or its answer is lost, the door asks the sender to post again: the webhook is one event."""
    with events(bench) as made:
        with bench.stack.queue.down():
            away = made.post(0)
            assert (away.status_code, away.headers["retry-after"]) == (httpx.codes.SERVICE_UNAVAILABLE, "60")
        with bench.stack.queue.fault(DropAnswer(), when=_sqs("SendMessage"), times=1) as lost:
            assert made.post(0).status_code == httpx.codes.SERVICE_UNAVAILABLE
            lost.await_hits()
        assert made.post(0).status_code == httpx.codes.ACCEPTED
        made.await_settled(0)
        assert made.counts() == {0: 1}


def message_redelivered(bench: Bench, _: Send) -> None:
    """SQS delivers a processed message again, because its deletion is lost: the webhook is one event."""
    with events(bench) as made:
        with bench.stack.queue.fault(Cut(), when=_sqs("DeleteMessageBatch"), times=1) as lost:
            assert made.post(0).status_code == httpx.codes.ACCEPTED
            lost.await_hits()
            made.await_settled(0)
        assert made.counts() == {0: 1}


def kafka_away(bench: Bench, _: Send) -> None:
    """Webhooks wait in the queue while no event reaches Kafka."""
    with events(bench) as made:
        with bench.stack.kafka.fault(Cut(), when=produce_to(topics.EVENT)) as cut:
            for number in range(3):
                assert made.post(number).status_code == httpx.codes.ACCEPTED
            cut.await_hits(2)
            assert made.receiver.received == []
        made.await_settled(0, 1, 2)


def registry_away(bench: Bench, _: Send) -> None:
    """Functions that have the schemas do not call the registry; new ones wait for it, except webhook_sender."""
    with events(bench) as made:
        assert made.post(0).status_code == httpx.codes.ACCEPTED
        made.await_events(0)
        with bench.stack.registry.down():
            assert made.post(1).status_code == httpx.codes.ACCEPTED
            made.await_events(0, 1)
            bench.kill("webhook_sender")
            assert made.post(2).status_code == httpx.codes.ACCEPTED
            made.await_events(0, 1, 2)
        with bench.stack.registry.fault(Cut()) as cut:
            for function in ("webhook_receiver", "event_matcher"):
                bench.kill(function)
            assert made.post(3).status_code == httpx.codes.ACCEPTED
            cut.await_hits()
            assert made.counts().keys() == {0, 1, 2}
        made.await_events(0, 1, 2, 3)


def endpoints_unreadable(bench: Bench, _: Send) -> None:
    """Messages wait while webhook_sender reads no endpoint; a lost answer to what it records repeats none."""
    with events(bench) as made:
        with bench.stack.dynamodb.fault(Cut(), when=dynamodb("webhook_endpoints", "BatchGetItem"), times=6) as cut:
            made.report(0)
            cut.await_hits(6)
        made.await_events(0)
        with bench.stack.dynamodb.fault(DropAnswer(), when=sent_messages, times=1) as lost:
            made.report(1)
            lost.await_hits()
        made.await_events(0, 1)
        assert made.counts() == {0: 1, 1: 1}


# --- hostile webhooks ---


def hostile_bodies(bench: Bench, _: Send) -> None:
    """Good webhooks among hostile ones become events, and each of the others is counted with its reason."""
    posted = list(hostile_webhooks(300))
    with events(bench) as made:
        made.client.set_event_type(made.type, description="d", example={"number": 1}, schema={"required": ["number"]})
        mapping = {**HOSTILE_MAPPING, "type": {"value": made.type}}
        source = made.client.create_source(
            club_id=CLUB,
            scheme="hmac",
            secret=SECRET,
            header=HMAC.header,
            encoding="base64",
            prefix=HMAC.prefix,
            id_header=HMAC.id_header,
            mapping=mapping,
        )
        try:
            with httpx.Client(timeout=30, trust_env=False) as sender:
                for each in posted:
                    url = source["url"].replace(source["id"], each.source.replace(source_key().id, source["id"]))
                    answered = sender.post(url, content=each.body, headers=dict(each.headers))
                    assert answered.status_code == httpx.codes.ACCEPTED, answered.text
            made.await_events(*(each.number for each in posted if each.reason is None))
            _await_empty_queue(bench)
            refused = [each for each in posted if each.reason not in (None, Refusal.UNKNOWN_SOURCE)]
            found = made.client.source(source["id"])
            assert found["refused"] == len(refused)
            assert {each["reason"] for each in found["refusals"]} <= {each.reason for each in refused}
        finally:
            made.client.delete_source(source["id"])


def _sqs(operation: str) -> Callable[[Request], bool]:
    return lambda request: request.target == f"AmazonSQS.{operation}"


def _await_empty_queue(bench: Bench) -> None:
    """Wait until the queue has no message, not even one that is being processed."""
    client = sqs_client({**AWS_CREDENTIALS, "AWS_ENDPOINT_URL": bench.stack.config.aws_url})
    url = client.get_queue_url(QueueName=_QUEUE)["QueueUrl"]

    def is_empty() -> bool:
        found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return found["ApproximateNumberOfMessages"] == found["ApproximateNumberOfMessagesNotVisible"] == "0"

    until("the queue is empty", is_empty, every_s=0.1)
