"""The recipients of one record, a slice at a time: publish, record what came of it, then the next.

First the devices that are ready: a device without an endpoint holds up neither the user's other devices nor other
users, nor must one that the provider takes nothing for. After the retry budget, the
remaining recipients are recorded as delayed; they continue in a retry record (functions/delivery/retry_scheduler.py).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import batched

from functions.delivery.calls import Call, Caller, Expired
from functions.delivery.publishing import NotTried, Published, Publisher
from masscomm.channels.provider import ProviderError, Rejected, TargetGone, Transient
from masscomm.channels.provider_errors import code_of
from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.domain.outcomes import EXPIRED, SENT
from masscomm.domain.preferences import Decision, decide, decide_by_user_settings
from masscomm.domain.records import DeliveryRequested, Withdrawn
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.users import Device, User, UserSettings
from masscomm.errors import Retry
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import LEASE_LOSSES
from masscomm.stores.delivery_ledger import (
    CallResult,
    DeliveryLedger,
    RecipientResult,
    RenewingLease,
    SliceConflict,
    accepted_before_delay,
)

logger = logs.logger("delivery")

_NO_DEVICE = Decision(Status.SUPPRESSED, Reason.NO_DEVICE, "directory")
_SUPPRESSED = Decision(Status.SUPPRESSED, Reason.ADDRESS_SUPPRESSED, "suppressions")
_NO_ADDRESS = Decision(Status.SUPPRESSED, Reason.NO_ADDRESS, "directory")
_DEVICE_INACTIVE = Decision(Status.SUPPRESSED, Reason.DEVICE_INACTIVE, "provider")
_WAITS = Decision(Status.SENDING, None, "provider")

# The age of a device's row up to which the invocation waits for its endpoint: the device registrar takes seconds.
_REGISTRAR_WAIT_S = 10.0
_REGISTRAR_POLL_S = 0.25
# How long a slice waits for its last recipient while other slices have not had their turn.
_RETRY_BUDGET_S = 3.0
_FIRST_WRITE_PAUSE_S = 0.1
_LONGEST_WRITE_PAUSE_S = 2.0
# A write of the ledger with its repetition.
_WRITE_S = 6.0
# Reserved from the calls' time: to record the delayed recipients and to put them into the delay store.
_RESERVE_S = 3.0


@dataclass(frozen=True, kw_only=True)
class _Recipient:
    """devices: for push, those that are ready; decision: where there is nothing to publish.

    unregistered: whether another active device has no endpoint yet; taken: of devices that have the message already,
    from before the record waited.
    """

    row: int
    position: int
    user_id: int
    devices: Sequence[Device] = ()
    unregistered: bool = False
    decision: Decision | None = None
    taken: tuple[CallResult, ...] = ()

    @property
    def left(self) -> list[Device]:
        """The devices that do not have the message yet."""
        return [device for device in self.devices if str(device.device_id) not in {each.target for each in self.taken}]


@dataclass(kw_only=True)
class Slices:
    """A record's recipients under its lease.

    done: by position, what is recorded; invocation_s: seconds left of the invocation; confirm: makes sure that the
    directory has everything up to a time (masscomm.chain.batch.Batch.confirm); gone: told of each device whose
    endpoint takes nothing any more, with the provider's word; retry_at_ms: when the remaining recipients are
    retried, by whether they wait for an endpoint alone; None where nothing is tried any more; users: of a delayed
    record, those in the directory, else None.
    """

    delivery: DeliveryRequested
    directory: Directory
    ledger: DeliveryLedger
    lease: RenewingLease
    publisher: Publisher
    caller: Caller
    clock: Clock
    size: int
    done: dict[int, RecipientResult]
    invocation_s: Callable[[], float]
    confirm: Callable[[int], None]
    gone: Callable[[Device, TargetGone], None]
    retry_at_ms: Callable[[bool], int | None]
    users: Mapping[int, User] | None = None
    _errors: set[str] = field(default_factory=set)

    def finish(
        self,
        settings: Mapping[int, UserSettings],
        devices: Mapping[int, list[Device]],
        asleep: Mapping[int, Decision],
    ) -> None:
        """Decide about everybody who is left, be it that they wait. Errors: Retry: what was decided is recorded.

        asleep: by user, what becomes of whoever is in their quiet hours and may be notified.
        """
        now, behind, left = [], [], []
        unsure, settings = self._look_up_absent(settings)
        for who in self._undecided(settings):
            if who.user_id in unsure and who.decision is not EXPIRED:
                left.append(who)
            elif who.decision is None and self.delivery.channel == "push":
                owned = devices.get(who.user_id, ())
                if not owned or self._endpoints_due_s(owned) > 0:
                    behind.append(who)
                    continue
                now.append(_unless_asleep(_with_devices(who, owned), asleep))
            else:
                now.append(_unless_asleep(who, asleep))
        left += self._decide_all(now)
        if behind:
            registered, unregistered = self._registered(behind, devices, asleep)
            left += self._decide_all(registered) + unregistered
        if left:
            self._let_wait(left)

    def _look_up_absent(self, settings: Mapping[int, UserSettings]) -> tuple[set[int], Mapping[int, UserSettings]]:
        """Look up once more the users of a delayed record who are not in the directory, with their settings.

        Returns: the users who may still be on their way into it, and everybody's settings. A user who is absent once
        the directory is past the send has been erased. Errors: Retry.
        """
        delivery = self.delivery
        if self.users is None:
            return set(), settings
        pairs = zip(delivery.positions, delivery.user_ids, strict=True)
        absent = [user_id for position, user_id in pairs if position not in self.done and user_id not in self.users]
        if not absent:
            return set(), settings
        try:
            self.confirm(min(delivery.timestamp, self.clock.now_ms()))
        except Retry as error:
            self._errors.add(str(error))
            return set(absent), settings
        users, wishes = self.directory.users_and_settings(absent)
        self.users = {**self.users, **users}
        return set(), {**settings, **wishes}

    def _undecided(self, settings: Mapping[int, UserSettings]) -> Iterable[_Recipient]:
        delivery = self._with_current_addresses()
        withdrawn = {entry.position: _withdrawn(entry) for entry in delivery.withdrawn}
        taken = accepted_before_delay(delivery)
        # Whatever the category: who opted out may have to be told, an address that takes nothing cannot be.
        now_ms, suppressed, addressed = self.clock.now_ms(), set[str](), delivery.channel == "email"
        if addressed:
            addresses = list(filter(None, delivery.addresses))
            suppressed = self.directory.suppressed(delivery.club_id, addresses, now_ms)
        expired = delivery.expires_at is not None and delivery.expires_at <= now_ms
        for row, (position, user_id) in enumerate(zip(delivery.positions, delivery.user_ids, strict=True)):
            if position not in self.done:  # guard: delivery_ledger.first_write_wins
                wanted = self._wanted(user_id, settings.get(user_id))
                decision = EXPIRED if expired else withdrawn.get(position)
                # guard: suppressions.before_publishing
                if decision is None and suppressed and delivery.addresses[row] in suppressed:
                    decision = _SUPPRESSED
                if decision is None and wanted.status is not None:  # guard: preferences.opt_out_before_publishing
                    decision = wanted
                if decision is None and self.users is not None and addressed and not delivery.addresses[row]:
                    decision = _NO_ADDRESS
                yield _Recipient(
                    row=row, position=position, user_id=user_id, decision=decision, taken=taken.get(position, ())
                )

    def _with_current_addresses(self) -> DeliveryRequested:
        """The record; a delayed one goes to the addresses that its users have now, empty where they have none."""
        delivery = self.delivery
        if self.users is not None and delivery.channel == "email":
            users = [self.users.get(user_id) for user_id in delivery.user_ids]
            self.delivery = delivery = replace(
                delivery, addresses=[(user.email or "") if user else "" for user in users]
            )
        return delivery

    def _wanted(self, user_id: int, wishes: UserSettings | None) -> Decision:
        """An opt-out may be newer than the preference checker's decision; so may the user's erasure, after a delay."""
        delivery = self.delivery
        if self.users is None:
            return decide_by_user_settings(wishes, type=delivery.type, channel=delivery.channel)
        user = self.users.get(user_id)
        return decide(user, wishes, club_id=delivery.club_id, type=delivery.type, channel=delivery.channel)

    def _decide_all(self, recipients: Sequence[_Recipient]) -> list[_Recipient]:
        """Answers whom the provider took nothing for. Errors: Retry."""
        if len(recipients) > self.size:
            recipients = self._decide(recipients, _RETRY_BUDGET_S)
        return self._decide(recipients, math.inf)

    def _decide(self, recipients: Sequence[_Recipient], retry_budget_s: float) -> list[_Recipient]:
        """Publish and record slice by slice; answers those who are left. Errors: Retry."""
        left: list[_Recipient] = []
        for part in batched(recipients, self.size, strict=False):
            decided, undecided = self._publish(part, retry_budget_s)
            if decided:
                self._record(decided)
            left += undecided
        return left

    def _let_wait(self, left: Sequence[_Recipient]) -> None:
        """Record that they wait. Errors: Retry where nothing speaks against going on at once; SliceConflict.

        Whoever took the record over while we were asleep began with the first of these: both write that slice.
        """
        if not self._errors:
            raise Retry("the invocation's time is used up")
        retry_at_ms = self.retry_at_ms(False)
        left = sorted(left, key=lambda who: who.position)
        self._record([_let_wait(who, who.taken, retry_at_ms) for who in left])
        logger.info(
            "waits for its next try",
            recipients=len(left),
            waits=self.delivery.waits,
            error=min(self._errors),
        )

    def _publish(
        self, part: Sequence[_Recipient], retry_budget_s: float
    ) -> tuple[list[RecipientResult], list[_Recipient]]:
        calls: list[tuple[_Recipient, Call]] = [
            (who, call)
            for who in part
            if who.decision is None
            for call in self.caller.calls(self.delivery, who.row, who.left)
        ]
        published = self.publisher.publish_all(
            (call.make for _, call in calls),
            self._remaining_s,
            channel=self.delivery.channel,
            retry_budget_s=retry_budget_s,
        )
        said: dict[int, list[tuple[Call, Published]]] = {}
        for (who, call), answer in zip(calls, published, strict=True):
            said.setdefault(who.position, []).append((call, answer))
            if call.device is not None and isinstance(answer.error, TargetGone):
                self.gone(call.device, answer.error)  # guard: endpoints.dead_endpoint
        decided, left = [], []
        for who in part:
            answers = said.get(who.position, [])
            decision = who.decision or _decision(who, [answer for _, answer in answers])
            told = (*who.taken, *(_answer(call, answer) for call, answer in answers))
            refused = any(isinstance(answer.error, Transient) for _, answer in answers)
            if decision is not None:
                decided.append(_decided(who, decision, told))
            elif not refused or any(answer.message_id is not None for _, answer in answers):
                # Recorded with this slice: who has it on one device and not yet on another would else be in danger of
                # getting it twice for as long as the record lasts.
                decided.append(_let_wait(who, told, self.retry_at_ms(not refused)))
            else:
                left.append(who)
                self._errors.update(str(answer.error) for _, answer in answers if _is_refusal(answer.error))
        return decided, left

    def _record(self, decided: Sequence[RecipientResult]) -> None:
        """Keep a slice; what cannot be kept is published again, so it is tried for as long as the invocation lasts.

        Errors: Retry: no further slice is begun.
        """
        pause = _FIRST_WRITE_PAUSE_S
        while True:
            try:
                self.ledger.record(self.delivery.record_id, decided)  # guard: delivery_ledger.slice_by_slice
            except SliceConflict:
                metrics.add(LEASE_LOSSES)
                raise
            except Retry:
                if self.invocation_s() < pause + _WRITE_S:  # guard: delivery_ledger.write_retry
                    raise
                self.clock.sleep(pause)
                pause = min(_LONGEST_WRITE_PAUSE_S, pause * 2)
            else:
                break
        self.done.update((entry.position, entry) for entry in decided)

    def _remaining_s(self) -> float:
        """Seconds in which a provider call must have ended."""
        # Renewed with some seconds in hand, so that a slice is not stopped over a renewal that is answered late.
        # guard: lease.lost_lease
        return min(self.invocation_s() - _RESERVE_S, self.lease.remaining_s(self.publisher.call_s + 2))

    def _registered(
        self,
        behind: Sequence[_Recipient],
        devices: Mapping[int, list[Device]],
        asleep: Mapping[int, Decision],
    ) -> tuple[list[_Recipient], list[_Recipient]]:
        """(who can be decided about, who must wait) once there has been time for the directory and the registrar.

        Errors: Retry where devices cannot be looked up.
        """
        devices = dict(devices)
        without = [who.user_id for who in behind if not devices.get(who.user_id)]
        unknown: set[int] = set()
        if without:
            try:
                self.confirm(min(self.delivery.timestamp, self.clock.now_ms()))
            except Retry as error:
                self._errors.add(str(error))
                unknown.update(without)
            devices |= self.directory.devices(without)
            unknown = {user_id for user_id in unknown if not devices.get(user_id)}
        devices |= self._with_endpoints(behind, devices)
        ready, waiting = [], []
        for who in behind:
            if who.user_id in unknown:
                waiting.append(who)
            else:
                ready.append(_unless_asleep(_with_devices(who, devices.get(who.user_id, ())), asleep))
        return ready, waiting

    def _with_endpoints(
        self, behind: Sequence[_Recipient], devices: Mapping[int, list[Device]]
    ) -> dict[int, list[Device]]:
        """The devices for which the registrar was waited for, as they are then. Errors: Retry."""
        found = {who.user_id: devices.get(who.user_id, []) for who in behind}
        while pending := [user_id for user_id, owned in found.items() if self._endpoints_due_s(owned) > 0]:
            if self._remaining_s() < _REGISTRAR_POLL_S:
                break
            self.clock.sleep(_REGISTRAR_POLL_S)
            found |= self.directory.devices(pending)
        return found

    def _endpoints_due_s(self, owned: Sequence[Device]) -> float:
        """Seconds for which an endpoint of a user without a ready device is waited for in the invocation."""
        if any(map(_ready, owned)):
            return 0.0
        changed_ms = [device.changed_at_ms or 0 for device in owned if _unregistered(device)]
        return max(changed_ms, default=0) / 1000 + _REGISTRAR_WAIT_S - self.clock.now_ms() / 1000


def _withdrawn(entry: Withdrawn) -> Decision:
    reason = None if entry.reason is None else Reason(entry.reason)
    return Decision(Status(entry.status), reason, entry.layer, entry.rule)


def _with_devices(who: _Recipient, devices: Sequence[Device]) -> _Recipient:
    """The recipient with the devices that are ready; one without any enabled device is decided about."""
    if who.decision is not None:
        return who
    if not devices:
        return replace(who, decision=_NO_DEVICE)
    if not any(device.enabled for device in devices):
        return replace(who, decision=_DEVICE_INACTIVE)
    return replace(
        who,
        devices=list(filter(_ready, devices)),  # guard: endpoints.ready_devices
        unregistered=any(map(_unregistered, devices)),
    )


def _unless_asleep(who: _Recipient, asleep: Mapping[int, Decision]) -> _Recipient:
    """After everything else, so that nobody waits a night to be told that they have no device."""
    return who if who.decision is not None else replace(who, decision=asleep.get(who.user_id))


def _ready(device: Device) -> bool:
    return device.enabled and device.endpoint_arn is not None  # guard: endpoints.disabled_endpoint


def _unregistered(device: Device) -> bool:
    return device.enabled and device.endpoint_arn is None


def _is_refusal(error: ProviderError | None) -> bool:
    """Whether somebody said no, and not our own clock."""
    return error is not None and not isinstance(error, NotTried)


def _answer(call: Call, published: Published) -> CallResult:
    error = None if published.error is None else type(published.error).__name__
    return CallResult(target=call.target, message_id=published.message_id, error=error)


def _decided(who: _Recipient, decision: Decision, answers: tuple[CallResult, ...]) -> RecipientResult:
    """Whoever is held waits; of everybody else it is the end, and whoever has it on a device was sent to."""
    if decision.until_ms is None and who.taken:
        decision = SENT
    return RecipientResult(
        position=who.position,
        user_id=who.user_id,
        decision=replace(decision, until_ms=None),
        call_results=answers,
        retry_at_ms=decision.until_ms,
    )


def _let_wait(who: _Recipient, answers: tuple[CallResult, ...], retry_at_ms: int | None) -> RecipientResult:
    """That they wait for the devices that are left, or what becomes of them where nothing is tried any more."""
    decision = _WAITS
    if retry_at_ms is None:
        decision = SENT if any(answer.message_id is not None for answer in answers) else EXPIRED
    return RecipientResult(
        position=who.position, user_id=who.user_id, decision=decision, call_results=answers, retry_at_ms=retry_at_ms
    )


def _decision(who: _Recipient, said: Sequence[Published]) -> Decision | None:
    """What one recipient's calls come to: sent if any device took it; None where a device must be tried (again)."""
    errors = [answer.error for answer in said if answer.error is not None]
    expired = any(isinstance(error, Expired) for error in errors)
    # guard: endpoints.each_device
    if not expired and (who.unregistered or any(isinstance(error, Transient) for error in errors)):
        return None
    if who.taken or any(answer.message_id is not None for answer in said):
        return SENT
    if expired:
        return EXPIRED
    if all(isinstance(error, TargetGone) for error in errors):
        return _DEVICE_INACTIVE
    rejected = next(error for error in errors if isinstance(error, Rejected))
    reason = Reason.TOO_LARGE if rejected.too_large else Reason.PROVIDER_REJECTED
    return Decision(Status.FAILED, reason, "provider", code_of(rejected))  # guard: masking.provider_errors
