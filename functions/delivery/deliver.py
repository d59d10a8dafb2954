"""Deliver a batch of written messages: devices, a last look at opt-outs, the provider, an outcome for everybody."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from functions.delivery.publishing import Published, Publisher
from masscomm import topics
from masscomm.batch import Batch, Item
from masscomm.channels.email import email_message
from masscomm.channels.provider import EmailProvider, ProviderError, PushProvider, Rejected, TargetGone, Transient
from masscomm.channels.push import push_attributes, push_message
from masscomm.clock import Clock
from masscomm.directory import Device, Directory, Settings
from masscomm.errors import DeadLetter, Retry
from masscomm.ids import notification_id
from masscomm.kafka_event import KafkaRecord
from masscomm.outcomes import DEAD_LETTERED, EXPIRED, Told, outcome
from masscomm.preferences import Decision, decide_by_settings
from masscomm.records import ContentColumn, DeliveryRequested
from masscomm.statuses import Reason, Status
from masscomm.wire import Codec

_SENT = Decision(Status.SENT, None, "provider")
_NO_DEVICE = Decision(Status.SUPPRESSED, Reason.NO_DEVICE, "directory")
_DEVICE_INACTIVE = Decision(Status.SUPPRESSED, Reason.DEVICE_INACTIVE, "provider")

# How long a record waits inside the invocation for the device registrar before it comes again.
_REGISTRAR_WAIT_S = 10.0
_REGISTRAR_POLL_S = 0.25
_REMEMBERED_RECORDS = 50


# What a message cannot do without.
_FIELDS = {"push": {"title", "body"}, "email": {"subject", "text"}}


class Expired(ProviderError):
    """Its time came while we were trying: nothing is published after expires_at."""


@dataclass(frozen=True, kw_only=True)
class Recipient:
    """One recipient with what delivery found; devices: for push, those that may take it."""

    row: int
    position: int
    user_id: int
    devices: Sequence[Device] = ()


@dataclass(frozen=True, kw_only=True)
class Deliver:
    """The use case; one for each function environment.

    finished: what was decided for the records seen last: when one comes again, because a part of it could not be
    published or its outcome was not acknowledged, this environment does not notify the same people twice.
    """

    directory: Directory
    push: PushProvider
    email: EmailProvider
    publisher: Publisher
    clock: Clock
    sender: str
    unsubscribe_url: str | None = None
    finished: dict[str, dict[int, Told]] = field(default_factory=dict)

    def decode(self, record: KafkaRecord, codec: Codec) -> DeliveryRequested:
        """A record of delivery. Errors: DeadLetter, Retry."""
        delivery = DeliveryRequested.from_avro(codec.decode("DeliveryRequested", record.value))
        addressed = delivery.channel != "email" or len(delivery.addresses) == len(delivery.positions)
        if (
            delivery.channel not in ("push", "email")
            or len(delivery.positions) != len(delivery.user_ids)
            or not addressed
        ):
            raise DeadLetter("invalid", f"no delivery record: channel {delivery.channel!r}")
        if any(_misshapen(column, len(delivery.positions)) for column in delivery.content):
            raise DeadLetter("invalid", "a content column does not fit the positions")
        if not _FIELDS[delivery.channel] <= {column.field for column in delivery.content}:
            raise DeadLetter("invalid", f"the content lacks one of {sorted(_FIELDS[delivery.channel])}")
        return delivery

    def handle(self, batch: Batch[DeliveryRequested]) -> None:
        items = batch.active()
        if not items:
            return
        settings = self.directory.settings(_user_ids(items))
        pushed = [item for item in items if item.value.channel == "push"]
        devices = self.directory.devices(_user_ids(pushed)) if pushed else {}
        for item in items:
            batch.attempt(item, partial(self._deliver, batch, item, settings, devices))

    def dead_lettered(self, batch: Batch[DeliveryRequested], item: Item[DeliveryRequested], why: DeadLetter) -> None:  # noqa: ARG002
        """Its recipients failed, but for those to whom it was already published."""
        delivery = item.value
        done = self.finished.get(delivery.record_id, {})
        whole = zip(delivery.positions, delivery.user_ids, strict=True)
        self._tell(batch, item, [done.get(position) or Told(position, user, DEAD_LETTERED) for position, user in whole])

    def _deliver(
        self,
        batch: Batch[DeliveryRequested],
        item: Item[DeliveryRequested],
        settings: Mapping[int, Settings],
        devices: Mapping[int, list[Device]],
    ) -> None:
        delivery = item.value
        done = self._finished_of(delivery.record_id)
        waiting = [
            Recipient(row=row, position=position, user_id=user_id)
            for row, (position, user_id) in enumerate(zip(delivery.positions, delivery.user_ids, strict=True))
            if position not in done
        ]
        if delivery.expires_at is not None and delivery.expires_at <= self.clock.now_ms():
            done.update({who.position: Told(who.position, who.user_id, EXPIRED) for who in waiting})
            waiting = []
        waiting = _keep(done, waiting, lambda who: _opted_out(delivery, settings.get(who.user_id)))
        if delivery.channel == "push":
            self._publish_to_devices(batch, delivery, waiting, devices, done)
        else:
            self._publish(delivery, waiting, done, batch.remaining_s)
        self._tell(batch, item, [done[position] for position in delivery.positions])

    def _finished_of(self, record_id: str) -> dict[int, Told]:
        """What is known of a record; the records that were seen longest ago make room."""
        done = self.finished.pop(record_id, {})
        self.finished[record_id] = done
        while len(self.finished) > _REMEMBERED_RECORDS:
            del self.finished[next(iter(self.finished))]
        return done

    def _publish_to_devices(
        self,
        batch: Batch[DeliveryRequested],
        delivery: DeliveryRequested,
        waiting: Sequence[Recipient],
        devices: Mapping[int, list[Device]],
        done: dict[int, Told],
    ) -> None:
        """First to whoever can be reached now: one device that is not known of yet must not hold up everybody else.

        Errors: Retry where some are left; the others are done.
        """
        ready = [who for who in waiting if _ready(devices.get(who.user_id, ()))]
        self._publish(delivery, _matched(ready, devices, done), done, batch.remaining_s)
        behind = [who for who in waiting if not _ready(devices.get(who.user_id, ()))]
        self._publish(delivery, self._with_devices(batch, delivery, behind, devices, done), done, batch.remaining_s)

    def _with_devices(
        self,
        batch: Batch[DeliveryRequested],
        delivery: DeliveryRequested,
        waiting: Sequence[Recipient],
        devices: Mapping[int, list[Device]],
        done: dict[int, Told],
    ) -> list[Recipient]:
        """The recipients with their devices; whoever has none, or none that works, is done. Errors: Retry."""
        without = [who.user_id for who in waiting if not devices.get(who.user_id)]
        if without:
            batch.confirm(self.directory, min(delivery.timestamp, self.clock.now_ms()))
            devices = {**devices, **self.directory.devices(without)}
        return _matched(waiting, self._registered(waiting, devices, batch.remaining_s), done)

    def _registered(
        self, waiting: Sequence[Recipient], devices: Mapping[int, list[Device]], remaining_s: Callable[[], float]
    ) -> Mapping[int, list[Device]]:
        """The devices once each has its endpoint. Errors: Retry where the device registrar is behind."""
        until = self.clock.monotonic() + _REGISTRAR_WAIT_S
        while True:
            pending = [who.user_id for who in waiting if any(map(_unregistered, devices.get(who.user_id, ())))]
            if not pending:
                return devices
            if self.clock.monotonic() >= until or remaining_s() < _REGISTRAR_POLL_S:
                raise Retry(f"the device registrar is behind: devices of {len(pending)} users have no endpoint yet")
            self.clock.sleep(_REGISTRAR_POLL_S)
            devices = {**devices, **self.directory.devices(pending)}

    def _publish(
        self,
        delivery: DeliveryRequested,
        waiting: Sequence[Recipient],
        done: dict[int, Told],
        remaining_s: Callable[[], float],
    ) -> None:
        """Publish to everybody who waits. Errors: Retry where some are left; the others are done."""
        calls = [(who, call) for who in waiting for call in self._calls(delivery, who)]
        answers = self.publisher.publish_all((call for _, call in calls), remaining_s)
        said: dict[int, list[Published]] = {}
        for (who, _), answer in zip(calls, answers, strict=True):
            said.setdefault(who.position, []).append(answer)
        for who in waiting:
            decision = _decision(said[who.position])
            if decision is not None:
                ids = tuple(answer.message_id for answer in said[who.position] if answer.message_id is not None)
                done[who.position] = Told(who.position, who.user_id, decision, ids)
        left = [who for who in waiting if who.position not in done]
        if left:
            errors = {str(answer.error) for who in left for answer in said[who.position] if answer.error is not None}
            raise Retry(f"the provider took nothing for {len(left)} recipients: {sorted(errors)[0]}")

    def _calls(self, delivery: DeliveryRequested, who: Recipient) -> list[Callable[[], str]]:
        texts = {column.field: column.value_at(who.row) for column in delivery.content}
        notification = notification_id(delivery.send_id, who.user_id, delivery.channel)
        if delivery.channel == "email":
            return [partial(self._send_email, delivery, delivery.addresses[who.row], texts, notification)]
        return [partial(self._push, delivery, device, texts, notification) for device in who.devices if device.enabled]

    def _push(self, delivery: DeliveryRequested, device: Device, texts: Mapping[str, str], notification: str) -> str:
        self._check_expiry(delivery)
        message = push_message(
            device.platform,
            title=texts.get("title", ""),
            body=texts.get("body", ""),
            notification_id=notification,
            send_id=delivery.send_id,
            collapse_key=delivery.collapse_key,
        )
        ttl_s = None if delivery.expires_at is None else max(0, (delivery.expires_at - self.clock.now_ms()) // 1000)
        attributes = push_attributes(device.platform, collapse_key=delivery.collapse_key, ttl_s=ttl_s)
        if device.endpoint_arn is None:
            raise Transient("the device has no endpoint yet")
        return self.push.publish(endpoint_arn=device.endpoint_arn, message=message, attributes=attributes)

    def _send_email(
        self, delivery: DeliveryRequested, address: str, texts: Mapping[str, str], notification: str
    ) -> str:
        self._check_expiry(delivery)
        message = email_message(
            sender=self.sender,
            recipient=address,
            subject=texts.get("subject", ""),
            text=texts.get("text", ""),
            html=texts.get("html"),
            notification_id=notification,
            unsubscribe_url=self.unsubscribe_url,
        )
        return self.email.send(recipient=address, message=message)

    def _check_expiry(self, delivery: DeliveryRequested) -> None:
        if delivery.expires_at is not None and delivery.expires_at <= self.clock.now_ms():
            raise Expired("expires_at has passed")

    def _tell(self, batch: Batch[DeliveryRequested], item: Item[DeliveryRequested], told: Sequence[Told]) -> None:
        if told:
            delivery = item.value
            record = outcome(
                delivery,
                told,
                channel=delivery.channel,
                step="delivery",
                start=delivery.range_start,
                end=delivery.range_end,
                now_ms=self.clock.now_ms(),
                directory=self.directory.position(),
            )
            batch.produce(item, topics.OUTCOME, record.record_id, record)


def _matched(
    waiting: Sequence[Recipient], devices: Mapping[int, list[Device]], done: dict[int, Told]
) -> list[Recipient]:
    """The recipients with their devices; whoever has none, or none that works, is done."""
    found = [
        Recipient(row=who.row, position=who.position, user_id=who.user_id, devices=devices.get(who.user_id, ()))
        for who in waiting
    ]
    found = _keep(done, found, lambda who: None if who.devices else _NO_DEVICE)
    return _keep(done, found, lambda who: None if any(device.enabled for device in who.devices) else _DEVICE_INACTIVE)


def _keep(
    done: dict[int, Told], waiting: list[Recipient], judge: Callable[[Recipient], Decision | None]
) -> list[Recipient]:
    """Those of whom nothing is decided; the others are done."""
    kept = []
    for who in waiting:
        decision = judge(who)
        if decision is None:
            kept.append(who)
        else:
            done[who.position] = Told(who.position, who.user_id, decision)
    return kept


def _opted_out(delivery: DeliveryRequested, settings: Settings | None) -> Decision | None:
    """An opt-out that is newer than the preference checker's decision."""
    decision = decide_by_settings(settings, type=delivery.type, channel=delivery.channel)
    return None if decision.status is None else decision


def _ready(devices: Sequence[Device]) -> bool:
    """Whether there are devices, and nothing is still to be learnt of them."""
    return bool(devices) and not any(map(_unregistered, devices))


def _unregistered(device: Device) -> bool:
    return device.enabled and device.endpoint_arn is None


def _decision(said: Sequence[Published]) -> Decision | None:
    """What one recipient's calls come to: sent if any device took it; None where it must be tried again."""
    if any(answer.message_id is not None for answer in said):
        return _SENT
    errors = [answer.error for answer in said if answer.error is not None]
    if any(isinstance(error, Expired) for error in errors):
        return EXPIRED
    if any(isinstance(error, Transient) for error in errors):
        return None
    if all(isinstance(error, TargetGone) for error in errors):
        return _DEVICE_INACTIVE
    rejected = next(error for error in errors if isinstance(error, Rejected))
    reason = Reason.TOO_LARGE if rejected.too_large else Reason.PROVIDER_REJECTED
    return Decision(Status.FAILED, reason, "provider", str(rejected)[:200])


def _misshapen(column: ContentColumn, count: int) -> bool:
    if not column.index:
        return not column.values
    return len(column.index) != count or not all(0 <= place < len(column.values) for place in column.index)


def _user_ids(items: Sequence[Item[DeliveryRequested]]) -> list[int]:
    return list(dict.fromkeys(user_id for item in items for user_id in item.value.user_ids))
