"""The functions event_matcher and webhook_sender in memory, with endpoints that answer as scripted."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from functions.event_matcher.match_events import MatchEvents
from functions.event_matcher.notify import Notify, RefusalStore, RuleOwners
from functions.webhook_sender.credentials import EndpointCredentials
from functions.webhook_sender.gateway import WebhookGateway
from functions.webhook_sender.ordering import Orders
from functions.webhook_sender.send_messages import KnownEndpoints, SendMessages
from functions.webhook_sender.storing import Storing
from masscomm.aws.sealed_secrets import SecretBox
from masscomm.chain.disabled_endpoints import AnnounceDisabled
from masscomm.channels.customer_aws import CustomerAws
from masscomm.channels.guarded_http import MAX_BODY_BYTES, Answer, ClientCertificate
from masscomm.channels.signing_keys import SigningKeys
from masscomm.clock import FixedClock
from masscomm.decisions.event_matching import SubscriptionIndex
from masscomm.domain.events import EventType
from masscomm.domain.notification_rules import RECIPIENTS, NotificationRule, Owner
from masscomm.domain.records import EventOccurred, SendRequested, WebhookOutcome, WebhookRequested
from masscomm.domain.subscriptions import Subscription, rules_of
from masscomm.domain.webhook_authentication import Authentication, AuthenticationType, sealing_context
from masscomm.domain.webhooks import Endpoint, EndpointKey
from masscomm.kafka import topics
from masscomm.kafka.bundled_schema import schema_header, with_schema_id
from masscomm.observability import logs
from masscomm.stores.api_keys.in_memory import InMemoryApiKeys
from masscomm.stores.api_keys.port import ApiKey
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.audit_log.port import PrincipalAudit
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.stores.event_types.checks import KnownTypes
from masscomm.stores.event_types.in_memory import InMemoryEventTypes
from masscomm.stores.key_queues.in_memory import InMemoryKeyQueues
from masscomm.stores.key_usage.in_memory import InMemoryKeyUsage
from masscomm.stores.sent_messages.in_memory import InMemorySentMessages
from masscomm.stores.subscriptions.in_memory import InMemorySubscriptions
from masscomm.stores.webhook_dead_letters.in_memory import InMemoryWebhookDeadLetters
from masscomm.stores.webhook_endpoints.in_memory import InMemoryWebhookEndpoints
from masscomm.stores.webhook_endpoints.results import EndpointResults
from masscomm.stores.webhook_tokens.in_memory import InMemoryWebhookTokens
from tests.support.fakes.data_keys import InMemoryDataKeys
from tests.support.harness.chain import NOW, Chain, entry
from tests.support.harness.webhooks import KEY, KEYS_TEXT, answer, url_of

GOAL = "match.goal"


def occurred(event_id: str = "e1", **fields: Any) -> EventOccurred:
    given: dict[str, Any] = {"type": GOAL, "club_id": 7, "occurred_at": NOW, "data": '{"minute": 90}'}
    return EventOccurred(event_id=event_id, **given | fields)


def subscribed(number: int = 1, endpoint: EndpointKey = KEY, **fields: Any) -> Subscription:
    given: dict[str, Any] = {"types": ("match.*",), "club_ids": (7,)}
    return Subscription(id=f"sub_{number}", endpoint=endpoint, **given | fields)


OWNER = "0123456789abcdef"


def rule(number: int = 1, *, owner: str = OWNER, **fields: Any) -> Subscription:
    """Return a rule of club 7 whose users are at the path `fans`. `fields` are those of a notification, and `types` and
    `club_ids` of the subscription.
    """
    of_subscription = {name: fields.pop(name) for name in ("types", "club_ids", "units") if name in fields}
    to = {} if fields.keys() & set(RECIPIENTS) else {"users_path": "fans"}
    notification = NotificationRule(owner=Owner(principal=owner), **{"type": "announcement", **to, **fields})
    return subscribed(number, rules_of(7), notification=notification, **of_subscription)


class InMemorySubscriptionSource:
    """The subscriptions that the test sets, or an error."""

    def __init__(self) -> None:
        self.index = SubscriptionIndex()
        self.failing: Exception | None = None

    def current(self) -> SubscriptionIndex:
        if self.failing is not None:
            raise self.failing
        return self.index


@dataclass
class ScriptedMessage:
    record: tuple[bytes | None, bytes | None]
    place: int

    def key(self) -> bytes | None:
        return self.record[0]

    def value(self) -> bytes | None:
        return self.record[1]

    def offset(self) -> int:
        return self.place


@dataclass
class ScriptedReader:
    """A TopicReader over one partition with these (key, value)."""

    records: list[tuple[bytes | None, bytes | None]]

    def bounds(self, _topic: str, _partition: int) -> tuple[int, int]:
        return 0, len(self.records)

    def read(self, partitions: Sequence[Any]) -> Iterator[ScriptedMessage]:
        (start,) = (each.offset for each in partitions)
        for offset in range(start, len(self.records)):
            yield ScriptedMessage(self.records[offset], offset)


class EventMatcher(Chain):
    """The use case of event_matcher, with the type match.goal."""

    def __init__(self) -> None:
        super().__init__()
        self.types = InMemoryEventTypes()
        self.types.put(EventType(name=GOAL, description="A goal"))
        self.subscriptions, self.stored = InMemorySubscriptionSource(), InMemorySubscriptions()
        self.keys, self.usage = InMemoryApiKeys(), InMemoryKeyUsage()
        self.use_case = MatchEvents(
            subscriptions=self.subscriptions,
            types=KnownTypes(store=self.types, clock=self.clock),
            notify=Notify(
                owners=RuleOwners(keys=self.keys, clock=self.clock),
                usage=self.usage,
                refusals=RefusalStore(subscriptions=self.stored, clock=self.clock),
                clock=self.clock,
            ),
            clock=self.clock,
        )

    def subscribe(self, *subscriptions: Subscription) -> None:
        for each in subscriptions:
            self.subscriptions.index.put(each)
            self.stored.put(each, NOW)

    def match(self, *events: EventOccurred, first: int = 0, partition: int = 0) -> list[int]:
        """Process events at consecutive offsets. Return the offsets to be redelivered."""
        entries = [
            self.encoded(each, topics.EVENT, offset=offset, partition=partition)
            for offset, each in enumerate(events, start=first)
        ]
        return self.run(self.use_case, *entries)

    def own(self, owner: str = OWNER, *, scopes: str = "send send:content", clubs: str = "7", **fields: Any) -> ApiKey:
        """Store the API key that owns rules."""
        made = ApiKey(
            digest=owner.ljust(64, "0"), name="rules", clubs=clubs, scopes=scopes, created_at=NOW // 1000, **fields
        )
        self.keys.put(made)
        return made

    def sends(self) -> list[SendRequested]:
        return self._decoded(SendRequested, topics.SEND_API)

    def requests(self) -> list[WebhookRequested]:
        return self._decoded(WebhookRequested, topics.WEBHOOK)

    def messages(self) -> list[tuple[str, str, str]]:
        """Return (record, event, endpoint) of each message."""
        return [
            (request.record_id, request.events[event].event_id, request.endpoints[endpoint])
            for request in self.requests()
            for event, endpoint in zip(request.event_index, request.endpoint_index, strict=True)
        ]


class Killed(BaseException):
    """Ends an invocation as a kill does: nothing runs after it."""


@dataclass
class ScriptedAsyncHttp:
    """Answers 200, or what the test sets for a URL: answers in order, the last one for ever."""

    answers: dict[str, list[Answer | Exception]] = field(default_factory=dict)
    # (URL, headers, body) of each request.
    requests: list[tuple[str, Mapping[str, str], bytes]] = field(default_factory=list)
    # The concurrent requests by URL, and their maximum.
    running: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    timeouts: set[float] = field(default_factory=set)
    # The certificate of each request.
    clients: list[ClientCertificate | None] = field(default_factory=list)
    # The clock, and by how much an answer advances it.
    clock: FixedClock | None = None
    takes_s: float = 0.0
    # The number of requests after which the function is killed.
    killed_after: int | None = None

    async def post(
        self,
        url: str,
        *,
        body: bytes,
        headers: Mapping[str, str],
        timeout_s: float,
        client: ClientCertificate | None = None,
        most_bytes: int = MAX_BODY_BYTES,
    ) -> Answer:
        self.timeouts.add(timeout_s)
        if len(self.requests) == self.killed_after:
            raise Killed
        self.clients.append(client)
        self.requests.append((url, headers, body))
        self.running[url] = self.running.get(url, 0) + 1
        self.most[url] = max(self.most.get(url, 0), self.running[url])
        await asyncio.sleep(0)
        if self.clock is not None:
            self.clock.advance(self.takes_s)
        self.running[url] -= 1
        script = self.answers.get(url, [answer(200)])
        found = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(found, Exception):
            raise found
        return found

    def ids(self, endpoint: EndpointKey = KEY) -> list[str]:
        """Return the message ids that an endpoint has got."""
        return [headers["webhook-id"] for url, headers, _ in self.requests if url == url_of(endpoint)]


class WebhookSender(Chain):
    """The use case of webhook_sender, with an endpoint of club 7."""

    def __init__(
        self,
        aws: CustomerAws | None = None,
        run: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run,
        **settings: Any,
    ) -> None:
        """Create the function.

        Args:
            aws: Sends to queues and event buses.
            run: Runs a coroutine, in the event loop of `aws` if that is given.
            settings: Those of SendMessages.
        """
        super().__init__()
        self.endpoints = InMemoryWebhookEndpoints()
        self.delayed = InMemoryDelayStore()
        self.given_up = InMemoryWebhookDeadLetters()
        self.audit_log = InMemoryAuditLog()
        self.sent = InMemorySentMessages()
        self.queues = InMemoryKeyQueues()
        self.http = ScriptedAsyncHttp()
        # The records of each topic, in the order of their offsets.
        self._produced: defaultdict[str, list[WebhookRequested]] = defaultdict(list)
        self.data_keys = InMemoryDataKeys()
        self.tokens = InMemoryWebhookTokens()
        audit = PrincipalAudit(
            audit_log=self.audit_log,
            clock=self.clock,
            logger=logs.logger("webhook_sender"),
            principal="webhook_sender",
        )
        self.use_case = SendMessages(
            endpoints=KnownEndpoints(store=self.endpoints, clock=self.clock),
            results=EndpointResults(
                endpoints=self.endpoints,
                audit=audit,
                announce=AnnounceDisabled(store=self.delayed, clock=self.clock),
            ),
            storing=Storing.of(self.delayed, self.given_up, self.clock),
            sent=self.sent,
            orders=Orders(store=self.queues, clock=self.clock),
            gateway=WebhookGateway(
                http=self.http,
                aws=aws or CustomerAws(),
                keys=SigningKeys(read=lambda: KEYS_TEXT, clock=self.clock),
                credentials=self.credentials(),
                clock=self.clock,
                run=run,
            ),
            clock=self.clock,
            **settings,
        )
        self.endpoint()

    def credentials(self) -> EndpointCredentials:
        """Return the credentials of a new environment."""
        return EndpointCredentials.of(keys=self.data_keys, http=self.http, tokens=self.tokens, clock=self.clock)

    def new_environment(self) -> None:
        """Forget the credentials that the environment has read."""
        gateway = replace(self.use_case.gateway, credentials=self.credentials())
        self.use_case = replace(self.use_case, gateway=gateway)

    def authentication(self, type_: str, key: EndpointKey = KEY, **secrets: Any) -> Authentication:
        """Return an authentication for an endpoint."""
        sealed = SecretBox(self.data_keys).seal(secrets, sealing_context(key.id, url_of(key)))
        return Authentication(type=AuthenticationType(type_), shown={}, sealed=sealed, since_ms=NOW)

    def endpoint(self, key: EndpointKey = KEY, **fields: Any) -> Endpoint:
        created = Endpoint(key=key, created_at_ms=NOW, key_id="1", **{"url": url_of(key), **fields})
        self.endpoints.stored[key] = created
        return created

    def request(
        self, events: Sequence[EventOccurred], to: Sequence[EndpointKey] = (KEY,), **fields: Any
    ) -> WebhookRequested:
        """Return a record with each event for each endpoint."""
        pairs = [(event, endpoint) for event in range(len(events)) for endpoint in range(len(to))]
        given: dict[str, Any] = {
            "record_id": "r",
            "bucket": 1,
            "partition": 0,
            "range_start": 0,
            "range_end": 256,
            "timestamp": NOW,
            "events": list(events),
            "offsets": list(range(len(events))),
            "produced_at": [NOW] * len(events),
            "endpoints": [each.id for each in to],
            "event_index": [event for event, _ in pairs],
            "endpoint_index": [endpoint for _, endpoint in pairs],
        }
        return WebhookRequested(**given | fields)

    def send(
        self, *requests: WebhookRequested, seconds: float = 60.0, topic: str = topics.WEBHOOK, **place: Any
    ) -> list[int]:
        """Process records at the next offsets, from 0; return the offsets to be redelivered. A record that is given
        again has its offset.
        """
        headers = [schema_header(WebhookRequested)]
        produced = self._produced[topic]
        produced += [each for each in requests if not any(each is known for known in produced)]
        entries = [
            self.encoded(each, topic, offset=offset, headers=headers, **place)
            for each in requests
            for offset, known in enumerate(produced)
            if each is known
        ]
        return self.run(self.use_case, *entries, seconds=seconds)

    def retry(self) -> list[int]:
        """Wait until every waiting message is due, and process the records of webhook.slow as the scheduler releases
        them; return the offsets to be redelivered.
        """
        waiting = self._delayed(topics.WEBHOOK_SLOW)
        self.clock.advance(max(0.0, max(each.due_ms for each in waiting) - self.clock.now_ms()) / 1000 + 1)
        for each in waiting:
            self.delayed.done(each)
        return self.send(*map(self._requested, waiting), topic=topics.WEBHOOK_SLOW)

    def hostile(self, value: bytes) -> list[int]:
        return self.run(self.use_case, entry(value, topic=topics.WEBHOOK))

    def waiting(self) -> list[WebhookRequested]:
        """Return the records that wait for webhook.slow, in the order in which they are due."""
        return [self._requested(each) for each in self._delayed(topics.WEBHOOK_SLOW)]

    def due_ms(self) -> list[int]:
        return [each.due_ms for each in self._delayed(topics.WEBHOOK_SLOW)]

    def results(self) -> list[tuple[str, str, int, int | None]]:
        """Return (event, status, attempt, HTTP status) of each result, in the order of the events' ids."""
        found: list[tuple[str, str, int, int | None]] = []
        for record in self._outcomes():
            found += zip(record.event_id, record.status, record.attempt, record.http_status, strict=True)
        return sorted(found)

    def errors(self) -> list[str]:
        """Return why there was no answer, for each attempt without one."""
        return [error for record in self._outcomes() for error in record.error if error]

    def _outcomes(self) -> list[WebhookOutcome]:
        """Return the records of results, each id once, as the metrics job counts them."""
        delayed = {each.id: each for each in self._delayed(topics.WEBHOOK_OUTCOME)}.values()
        return [WebhookOutcome.from_avro(self.codec.decode("WebhookOutcome", self._value(each))) for each in delayed]

    def _delayed(self, topic: str) -> list[DelayedRecord]:
        found = [each for each in self.delayed.items.values() if each.topic == topic]
        return sorted(found, key=lambda each: (each.due_ms, each.id))

    def _requested(self, item: DelayedRecord) -> WebhookRequested:
        return WebhookRequested.from_avro(self.codec.decode("WebhookRequested", self._value(item)))

    def _value(self, item: DelayedRecord) -> bytes:
        return with_schema_id(item.value, item.headers, item.topic, self.codec)

    def own_events(self) -> list[EventOccurred]:
        """Return masscomm's own events that wait for the topic `event`."""
        found = self._delayed(topics.EVENT)
        return [EventOccurred.from_avro(self.codec.decode("EventOccurred", self._value(each))) for each in found]

    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, _, body in self.http.requests]
