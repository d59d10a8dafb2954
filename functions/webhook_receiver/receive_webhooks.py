"""Verifies incoming webhooks, and produces the events that their sources' mappings find in them.

The door has answered each of them with 202. A webhook that becomes no event is counted, and listed for its source; a
dependency that is down leaves it in the queue.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from aws_lambda_powertools import Logger

from functions.webhook_receiver.known_sources import KnownSources
from masscomm.chain.produce_events import produce_events
from masscomm.clock import Clock
from masscomm.domain.event_mapping import Unmapped
from masscomm.domain.events import EventType
from masscomm.domain.ids import incoming_event_id
from masscomm.domain.incoming_messages import InvalidMessage, read_message
from masscomm.domain.records import EventOccurred
from masscomm.domain.webhook_sources import (
    AcceptedWebhook,
    IncomingWebhook,
    Refusal,
    RefusedWebhook,
    SourceKey,
    WebhookRefused,
    WebhookSource,
    read_document,
    sender_id,
    verify,
)
from masscomm.errors import Retry, Stop
from masscomm.json_reader import read_json
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer
from masscomm.observability import metrics
from masscomm.observability.metric_names import (
    INCOMING_WEBHOOKS_ACCEPTED,
    INCOMING_WEBHOOKS_FAILED,
    INCOMING_WEBHOOKS_REFUSED,
    INCOMING_WEBHOOKS_REPEATED,
)
from masscomm.stores.event_ids.port import EventIds, EventKey
from masscomm.stores.event_types.checks import KnownTypes, UnusableSchema, misfit
from masscomm.stores.webhook_sources.port import WebhookSources
from masscomm.untrusted import mask, visible

_LONGEST_DETAIL = 300


class _Mapped(NamedTuple):
    """A webhook and its event."""

    webhook: IncomingWebhook
    event: EventOccurred
    # The ids under which the webhook is accepted once, with its digest.
    digests: Mapping[EventKey, str]

    @property
    def key(self) -> EventKey:
        return EventKey.of(self.event)

    @property
    def listed(self) -> AcceptedWebhook:
        return AcceptedWebhook(self.webhook.received_at_ms, self.event.event_id, self.event.type, self.event.club_id)


@dataclass(frozen=True, kw_only=True)
class ReceiveWebhooks:
    """The use case of the webhook_receiver function. Each function environment has one instance."""

    sources: KnownSources
    store: WebhookSources
    types: KnownTypes
    event_ids: EventIds
    codec: Codec
    producer: Producer
    clock: Clock
    logger: Logger

    def handle(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Produce the events of a batch.

        Args:
            messages: The records of an event of SQS.

        Returns:
            The ids of the messages that must be processed again.

        Raises:
            Retry, Stop: The whole batch must be processed again.
        """
        try:
            return self._process(messages)
        except (Retry, Stop):
            raise
        except Exception:  # guard: sources.alone_after_a_fault
            # The code has a fault that one of them meets: the others are processed.
            if len(messages) == 1:
                self.logger.exception("a webhook stays in the queue", id=messages[0]["messageId"])
                metrics.add(INCOMING_WEBHOOKS_FAILED)
                return [messages[0]["messageId"]]
            return [id_ for each in messages for id_ in self.handle([each])]

    def _process(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Produce the events of a batch, and return the ids of the messages that must be processed again."""
        webhooks = self._webhooks(messages)
        keys = {each.message_id: SourceKey.of_id(each.source_id) for each in webhooks}
        sources = self.sources.find(key for key in keys.values() if key is not None)
        refused: defaultdict[SourceKey | None, list[RefusedWebhook]] = defaultdict(list)
        failed: list[str] = []
        mapped: list[_Mapped] = []
        for webhook in webhooks:
            key = keys[webhook.message_id]
            source = None if key is None else sources.get(key)
            try:
                mapped.append(self._mapped(source, webhook))
            except WebhookRefused as error:
                refused[None if source is None else source.key].append(_refusal(webhook, error))
            except Retry as error:  # guard: sources.one_bad_webhook
                # The secret of this source cannot be opened now: the others are processed.
                self.logger.warning("a webhook stays in the queue", source=webhook.source_id, error=str(error))
                failed.append(webhook.message_id)
        checked = self._checked(mapped, refused)
        failed += self._produce(self._new(checked, refused))
        failed += self._refuse(refused)
        metrics.add(INCOMING_WEBHOOKS_FAILED, len(failed))
        return failed

    def _webhooks(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[IncomingWebhook]:
        """Return the webhooks in messages. A message that the door cannot have written is counted and logged."""
        found: list[IncomingWebhook] = []
        for each in messages:
            try:
                found.append(read_message(each["messageId"], each["body"]))
            except InvalidMessage as error:
                self.logger.warning("a message of the queue is no webhook", id=each["messageId"], error=str(error))
                metrics.add(INCOMING_WEBHOOKS_REFUSED[Refusal.UNKNOWN_SOURCE])
        return found

    def _mapped(self, source: WebhookSource | None, webhook: IncomingWebhook) -> _Mapped:
        """Return the event in a webhook. Raises WebhookRefused, Retry or Stop."""
        if source is None:
            raise WebhookRefused(Refusal.UNKNOWN_SOURCE)
        verify(source.signature, self.sources.secrets(source, webhook.received_at_ms), webhook)
        document = read_document(webhook)
        given_id = sender_id(source.signature, webhook, document)
        try:
            event = source.event_mapping.event(
                document,
                webhook.headers,
                default_event_id=incoming_event_id(source.key.id, given_id or webhook.message_id),
                default_occurred_at=webhook.received_at_ms,
            )
        except Unmapped as error:
            raise WebhookRefused(Refusal.UNMAPPED, str(error)) from error
        # guard: sources.own_tenants
        if source.club_ids is not None and event.club_id not in source.club_ids:
            raise WebhookRefused(Refusal.NOT_PERMITTED, f"club_id {event.club_id}")
        by_body = _digest(source, webhook.body)
        digests = {EventKey.of(event): by_body if given_id is None else _digest(source, given_id.encode())}
        if not source.signature.signs_id:  # guard: sources.repeated_body
            # A captured request can be repeated under any id. The space keeps the key apart from ids of events.
            digests[EventKey(source.key.club_id, f"body {by_body}")] = by_body
        return _Mapped(webhook, event, digests)

    def _checked(
        self, mapped: Sequence[_Mapped], refused: Mapping[SourceKey | None, list[RefusedWebhook]]
    ) -> Sequence[_Mapped]:
        """Return the events that fit their types; refuse the others."""
        types = self.types.find(each.event.type for each in mapped)
        found: list[_Mapped] = []
        for each in mapped:
            try:
                _check(each.event, types)
            except WebhookRefused as error:
                _add(refused, each.webhook, error)
            else:
                found.append(each)
        return found

    def _new(
        self, mapped: Sequence[_Mapped], refused: Mapping[SourceKey | None, list[RefusedWebhook]]
    ) -> Mapping[EventKey, _Mapped]:
        """Return the events that were not accepted in the last 24 hours; refuse those under the id of another one."""
        wanted = {key for each in mapped for key in each.digests}
        digests = dict(self.event_ids.known(wanted, self._now_s()))
        new: dict[EventKey, _Mapped] = {}
        for each in mapped:
            known = {key: digests[key] for key in each.digests if key in digests}
            if not known:
                digests |= each.digests
                new[each.key] = each
            elif known.get(each.key, each.digests[each.key]) == each.digests[each.key]:
                metrics.add(INCOMING_WEBHOOKS_REPEATED)
            else:
                _add(refused, each.webhook, WebhookRefused(Refusal.OTHER_EVENT))
        return new

    def _produce(self, new: Mapping[EventKey, _Mapped]) -> Sequence[str]:
        """Produce events, and record those that Kafka has acknowledged. Return the ids of the others' messages."""
        errors = produce_events((each.event for each in new.values()), self.codec, self.producer)
        # guard: sources.recorded_after_kafka
        acknowledged = [each for key, each in new.items() if errors[key] is None]
        if acknowledged:
            self.event_ids.record(
                {key: each.digests[key] for each in acknowledged for key in each.digests}, self._now_s()
            )
            self._list(acknowledged)
        metrics.add(INCOMING_WEBHOOKS_ACCEPTED, len(acknowledged))
        return [each.webhook.message_id for key, each in new.items() if errors[key] is not None]

    def _list(self, accepted: Sequence[_Mapped]) -> None:
        """List accepted webhooks. Without it they are events all the same: a repetition would list none."""
        lists: defaultdict[SourceKey | None, list[AcceptedWebhook]] = defaultdict(list)
        for each in accepted:
            lists[SourceKey.of_id(each.webhook.source_id)].append(each.listed)
        for key, rows in lists.items():
            try:
                if key is not None:
                    self.store.accept(key, rows)
            except Retry as error:
                self.logger.warning("accepted webhooks are not listed", source=key, error=str(error))

    def _refuse(self, refused: Mapping[SourceKey | None, Sequence[RefusedWebhook]]) -> Sequence[str]:
        """Count and list refused webhooks. Return the ids of those that are not stored, and are refused again."""
        failed: list[str] = []
        for key, rows in refused.items():
            try:
                if key is not None:
                    self.store.refuse(key, rows)
            except Retry as error:
                self.logger.warning("refused webhooks stay in the queue", error=str(error))
                failed += [each.message_id for each in rows]
                continue
            for each in rows:
                metrics.add(INCOMING_WEBHOOKS_REFUSED[each.reason])
        return failed

    def _now_s(self) -> int:
        return self.clock.now_ms() // 1000


def _digest(source: WebhookSource, identity: bytes) -> str:
    return sha256(source.key.id.encode() + b"\n" + identity).hexdigest()


def _check(event: EventOccurred, types: Mapping[str, EventType]) -> None:
    """Check an event against its type. Raises WebhookRefused."""
    event_type = types.get(event.type)
    if event_type is None:
        raise WebhookRefused(Refusal.UNKNOWN_TYPE, event.type)
    try:
        found = misfit(event_type.schema, read_json(event.data))
    except UnusableSchema as error:
        raise WebhookRefused(Refusal.MISFIT, f"the schema of {event.type}: {error}") from error
    if found is not None:
        raise WebhookRefused(Refusal.MISFIT, f"data at {found.place}: {found.reason}")


def _add(
    refused: Mapping[SourceKey | None, list[RefusedWebhook]], webhook: IncomingWebhook, error: WebhookRefused
) -> None:
    refused[SourceKey.of_id(webhook.source_id)].append(_refusal(webhook, error))


def _refusal(webhook: IncomingWebhook, error: WebhookRefused) -> RefusedWebhook:
    return RefusedWebhook(
        at_ms=webhook.received_at_ms,
        message_id=webhook.message_id,
        reason=error.reason,
        detail=visible(mask(error.detail))[:_LONGEST_DETAIL],
    )
