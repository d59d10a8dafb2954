"""Turns events into sends, by the rules that match them.

A rule sends with the permissions of its owner at that time, and within its limit of recipients a day. An event whose
rule may not send, or that names no recipients, is counted, logged and shown with the rule: its other destinations
are not affected.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, islice
from typing import Any, NamedTuple

from masscomm.chain.batch import Batch, Item
from masscomm.clock import Clock
from masscomm.domain.categories import category, is_listed, is_retired
from masscomm.domain.ids import chunk_id, event_send_id, joint_send_id
from masscomm.domain.key_limits import COUNTED_UNDER, RECIPIENTS, Use, Window
from masscomm.domain.lanes import Lane
from masscomm.domain.limits import CHUNK_SIZE
from masscomm.domain.notification_rules import NotificationRule, Owner, RefusedEvents, RuleRefusal, RuleRefused
from masscomm.domain.push_options import push_text
from masscomm.domain.records import AudienceRequested, EventOccurred, SendRequested
from masscomm.domain.subscriptions import SubscriptionKey
from masscomm.domain.time_limits import RULE_OWNERS_CACHED_S
from masscomm.errors import Retry
from masscomm.http.rate_limits import KeyUsage, maximum_of
from masscomm.http.scopes import scopes_of
from masscomm.http.send_scopes import scopes_of_rule
from masscomm.http.tenant import clubs_of
from masscomm.kafka import topics
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import EVENT_SENDS, EVENT_SENDS_REFUSED
from masscomm.stores.api_keys.owners import context_of, is_key
from masscomm.stores.api_keys.port import LIVE, KeyStore
from masscomm.stores.subscriptions.port import Subscriptions

logger = logs.logger("event_matcher")

# The rules whose refused events a batch stores: one request each, while the events of others wait.
MAX_RULES_STORED = 10


class Match[T](NamedTuple):
    """An event, and a rule that matches it."""

    item: Item[T]
    event: EventOccurred
    # The value of the event's data.
    data: Any
    subscription: SubscriptionKey
    rule: NotificationRule


@dataclass(frozen=True)
class _Send[T]:
    """The send that a rule makes of an event."""

    item: Item[T]
    subscription: SubscriptionKey
    record: SendRequested
    audience: Mapping[str, Any] | None
    # The principal whose limit counts the recipients, and the limit; None: nothing is counted.
    counted_under: str
    recipients_a_day: int | None


@dataclass(frozen=True, kw_only=True)
class RuleOwners:
    """The permissions of the owners of rules: those of API keys are read again after RULE_OWNERS_CACHED_S."""

    keys: KeyStore
    clock: Clock
    # Principal → its authorizer's context, and the time until which it is used.
    _known: dict[str, tuple[Mapping[str, str], float]] = field(default_factory=dict)

    def context(self, owner: Owner) -> Mapping[str, str]:
        """Return the authorizer's context of an owner, which is empty for a key that has ended. Raises Retry or
        Stop.
        """
        if not is_key(owner):
            return owner.context
        now = self.clock.monotonic()
        known = self._known.get(owner.principal)
        if known is not None and now < known[1]:
            return known[0]
        context = context_of(owner, self.keys, self.clock.now_ms())
        self._known[owner.principal] = context, now + RULE_OWNERS_CACHED_S
        return context


type _Refused = Counter[tuple[SubscriptionKey, RuleRefusal, str]]


@dataclass(frozen=True, kw_only=True)
class RefusalStore:
    """Stores the refused events with their rules. Those that it cannot store now are in memory until the next batch."""

    subscriptions: Subscriptions
    clock: Clock
    _waiting: dict[SubscriptionKey, dict[RuleRefusal, RefusedEvents]] = field(default_factory=dict)

    def add(self, rule: SubscriptionKey, reason: RuleRefusal, detail: str, count: int) -> None:
        """Add refused events of a rule."""
        of_rule = self._waiting.setdefault(rule, {})
        earlier = of_rule[reason].events if reason in of_rule else 0
        of_rule[reason] = RefusedEvents(reason, earlier + count, self.clock.now_ms(), detail)

    def store(self) -> None:
        """Store what waits, of up to MAX_RULES_STORED rules. Raises Stop."""
        rules = list(islice(self._waiting, MAX_RULES_STORED))  # guard: rules.bounded_refusals
        for rule in rules:
            of_rule = self._waiting.pop(rule)
            try:
                self.subscriptions.refuse(rule, list(of_rule.values()))
            except Retry as error:
                # guard: rules.refusals_of_outages
                self._waiting[rule] = of_rule
                logger.warning("refused events are not stored", subscription_id=rule.id, error=str(error))
                return


@dataclass(frozen=True, kw_only=True)
class Notify:
    """Produces the sends of rules. Each function environment has one instance."""

    owners: RuleOwners
    usage: KeyUsage
    refusals: RefusalStore
    clock: Clock

    def produce[T](self, batch: Batch[T], matches: Sequence[Match[T]]) -> None:
        """Produce the sends of a batch. An error fails the event."""
        refused: _Refused = Counter()
        # (principal, limit) → the sends that are counted together, by their ids.
        limited: defaultdict[tuple[str, int], dict[str, _Send[T]]] = defaultdict(dict)
        for match in matches:
            batch.attempt(match.item, partial(self._add, batch, match, limited, refused))
        for (principal, maximum), sends in limited.items():
            window = Window.at(self.clock.now_ms() // 1000, key_id=principal, kind=RECIPIENTS, maximum=maximum)
            self._produce_counted(batch, window, list(sends.values()), refused)
        for (rule, reason, detail), count in refused.items():
            metrics.add(EVENT_SENDS_REFUSED, count)
            logger.warning(
                "events become no notification", subscription_id=rule.id, reason=reason, detail=detail, events=count
            )
            self.refusals.add(rule, reason, detail, count)
        self.refusals.store()

    def _add[T](
        self,
        batch: Batch[T],
        match: Match[T],
        limited: Mapping[tuple[str, int], dict[str, _Send[T]]],
        refused: _Refused,
    ) -> None:
        """Produce the send of a match, or add it to those that are counted first."""
        try:
            send = self._send(match)
        except RuleRefused as why:
            refused[match.subscription, why.reason, why.detail] += 1
            return
        # The recipients of an audience are counted when they are known.
        if send.recipients_a_day is None or send.audience is not None:
            self._produce(batch, send)
        else:
            limited[send.counted_under, send.recipients_a_day].setdefault(str(send.record.send_id), send)

    def _send[T](self, match: Match[T]) -> _Send[T]:
        """Return the send of a match. Raises RuleRefused, Retry or Stop."""
        rule, event = match.rule, match.event
        context = self.owners.context(rule.owner)
        _check_permitted(rule, context, event.club_id)
        audience = rule.audience_for(event)
        record = SendRequested(
            type=rule.type,
            club_id=event.club_id,
            timestamp=match.item.record.timestamp_ms,
            to_users=rule.users(match.data) if audience is None else [],
            send_id=event_send_id(event.club_id, event.event_id, match.subscription.id),
            channels=list(rule.channels),
            template=rule.template,
            data=rule.variables(match.data),
            locale=rule.locale,
            push=push_text(rule.push) if rule.push else None,
            reference=event.event_id,
            principal=rule.owner.principal,
        )
        return _Send(
            item=match.item,
            subscription=match.subscription,
            record=record,
            audience=audience,
            counted_under=context.get(COUNTED_UNDER) or rule.owner.principal,
            recipients_a_day=maximum_of(context, RECIPIENTS),
        )

    def _produce_counted[T](
        self, batch: Batch[T], window: Window, sends: Sequence[_Send[T]], refused: _Refused
    ) -> None:
        """Produce the sends of an owner that are within its limit, and count the others as refused."""
        try:
            permitted = self._count(window, sends)
        except Retry as error:
            for send in sends:
                send.item.error = send.item.error or error
            return
        for send in sends[:permitted]:
            batch.attempt(send.item, partial(self._produce, batch, send))
        for send in sends[permitted:]:
            refused[send.subscription, RuleRefusal.RECIPIENTS_A_DAY, str(window.maximum)] += 1

    def _count[T](self, window: Window, sends: Sequence[_Send[T]]) -> int:
        """Count the recipients of an owner's sends, and return how many of the sends are within its limit. The sends
        of a batch are counted together: a write for each would exhaust the item of a busy owner. Raises Retry or Stop.
        """
        use = self._take(window, sends)
        if use.counted:
            return len(sends)
        sums = accumulate(len(each.record.to_users) for each in sends)
        within = [total for total in sums if total <= window.maximum - use.used]
        if within and not self._take(window, sends[: len(within)]).counted:
            raise Retry("other requests use the limit of recipients at the same time")
        return len(within)

    def _take[T](self, window: Window, sends: Sequence[_Send[T]]) -> Use:
        amount = sum(len(each.record.to_users) for each in sends)
        together = joint_send_id([str(each.record.send_id) for each in sends])
        return self.usage.take(window, amount, send_id=together)  # guard: rules.limit_of_the_owner

    def _produce[T](self, batch: Batch[T], send: _Send[T]) -> None:
        """Produce the record of a send: to its recipients, or to the function that finds them."""
        record, send_id = send.record, str(send.record.send_id)
        metrics.add(EVENT_SENDS)
        if send.audience is None:
            batch.produce(send.item, topics.in_lane(topics.SEND_API, Lane.BULK), chunk_id(send_id, 0), record)
            return
        request = AudienceRequested(
            send_id=send_id,
            club_id=record.club_id,
            timestamp=record.timestamp,
            chunk_size=CHUNK_SIZE,
            audience=json.dumps(send.audience),
            send=json.dumps(record.to_avro()),
            key_id=None if send.recipients_a_day is None else send.counted_under,
            recipients_a_day=send.recipients_a_day,
        )
        batch.produce(send.item, topics.AUDIENCE, send_id, request)


def _check_permitted(rule: NotificationRule, context: Mapping[str, str], club_id: int) -> None:
    """Check that the owner of a rule may send to a club now. Raises RuleRefused."""
    if club_id not in clubs_of(context):  # guard: rules.clubs_of_the_owner
        raise RuleRefused(RuleRefusal.OWNER)
    if context.get("mode", LIVE) != LIVE:
        raise RuleRefused(RuleRefusal.TEST_KEY)
    missing = scopes_of_rule(rule) - scopes_of(context)
    if missing:  # guard: rules.scopes_of_the_owner
        raise RuleRefused(RuleRefusal.SCOPE, min(missing))
    if is_retired(rule.type) or not is_listed(rule.type):  # guard: rules.unknown_category
        raise RuleRefused(RuleRefusal.CATEGORY)
    # An audience does not use the critical lane.
    if rule.users_path is None and category(rule.type).critical:  # guard: rules.critical_audience
        raise RuleRefused(RuleRefusal.CATEGORY)
