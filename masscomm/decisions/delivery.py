"""Decide about the recipients of a delivery record: pure rules over the directory's data and the time.

ready      the message is published, to the devices that have an endpoint, or to the address
final      nothing is published: suppressed, expired, cancelled, held until quiet hours end …
deferred   a row may still be missing in the directory, or an endpoint of a new device
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

from masscomm.domain.call_results import CallResult, accepted_before_delay
from masscomm.domain.channels import CHANNELS
from masscomm.domain.fallbacks import DELAY_REASON as FALLBACK
from masscomm.domain.memberships import Membership, decide_by_membership, membership_id
from masscomm.domain.outcomes import CANCELLED, EXPIRED
from masscomm.domain.preferences import Decision, decide_by_user_settings
from masscomm.domain.preferences import decide as decide_by_user
from masscomm.domain.records import DeliveryRequested, Withdrawn
from masscomm.domain.sends import SendControl
from masscomm.domain.sms_settings import number_of
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.tenant_preferences import TenantLayers, layers_for, layers_of
from masscomm.domain.time_limits import REGISTRAR_WAIT_S
from masscomm.domain.users import Device, User, UserSettings
from masscomm.errors import Retry

NO_DEVICE = Decision(Status.SUPPRESSED, Reason.NO_DEVICE, "directory")
ADDRESS_SUPPRESSED = Decision(Status.SUPPRESSED, Reason.ADDRESS_SUPPRESSED, "suppressions")
NO_ADDRESS = Decision(Status.SUPPRESSED, Reason.NO_ADDRESS, "directory")
INVALID_ADDRESS = Decision(Status.FAILED, Reason.INVALID_ADDRESS, "directory")
REPLACED = Decision(Status.CANCELLED, Reason.REPLACED, FALLBACK)
DEVICE_INACTIVE = Decision(Status.SUPPRESSED, Reason.DEVICE_INACTIVE, "provider")


class Wait(Enum):
    """The reason why the decision about a recipient is deferred."""

    DIRECTORY = "a row that change data capture may still bring"
    ENDPOINT = "an endpoint from the device registrar"


class DirectoryView(NamedTuple):
    """The directory's rows about the users of a record, and the state of its send, at one moment."""

    settings: Mapping[int, UserSettings]
    # Club → its rules.
    tenants: Mapping[int, UserSettings] = {}
    # (User, club) → the user's settings for the club.
    tenant_users: Mapping[tuple[int, int], UserSettings] = {}
    # Id → the row about an object that a user follows.
    memberships: Mapping[str, Membership] = {}
    devices: Mapping[int, Sequence[Device]] = {}
    # The current rows of the users of a late record (delayed, or built long ago), which may have changed since it was
    # built; None for any other record.
    users: Mapping[int, User] | None = None
    # The addresses of these users that are on the club's suppression list.
    suppressed: Collection[str] = ()
    # The decisions for users in quiet hours: held until quiet hours end, or expired if the notification expires before
    # that.
    quiet: Mapping[int, Decision] = {}
    # Whether the directory is complete up to the send's time, so that a row that is absent now does not arrive later.
    absence_is_confirmed: bool = False
    # Why nothing may be decided: the control of the send cannot be read.
    fault: Retry | None = None
    # Whether the send of the record is cancelled.
    is_cancelled: bool = False
    # Whether the e-mails of the club have been paused for as long as a pause may last.
    is_overdue: bool = False
    # The control that holds the record, if the send or the e-mails of the club are paused.
    paused: SendControl | None = None
    # The positions of recipients whose fallback goes in the place of this notification.
    replaced: Collection[int] = ()
    # Whether recipients may wait for the SNS endpoints of new devices.
    awaits_endpoints: bool = True


class Recipient(NamedTuple):
    """A recipient that is ready, has a final decision, or is deferred."""

    row: int
    position: int
    user_id: int
    decision: Decision | None = None
    deferred: Wait | None = None
    # The recipient's address, for a channel without devices.
    address: str = ""
    # The devices to publish to.
    devices: Sequence[Device] = ()
    # Whether a further active device of the recipient has no SNS endpoint yet.
    unregistered: bool = False
    # The calls that the provider accepted before the record was delayed.
    accepted: tuple[CallResult, ...] = ()


def decide(
    delivery: DeliveryRequested,
    view: DirectoryView,
    *,
    rows: Iterable[int],
    now_ms: int,
    was_deferred: bool = False,
) -> list[Recipient]:
    """Decide about the recipients at these indices of a delivery record.

    Args:
        was_deferred: Whether these recipients were deferred earlier in this invocation. Then expires_at is not compared
            here, because it is compared again before each provider call.
    """
    rules = _Rules(
        delivery=delivery,
        view=view,
        now_ms=now_ms,
        was_deferred=was_deferred,
        withdrawn={entry.position: _withdrawn(entry) for entry in delivery.withdrawn},
        accepted=accepted_before_delay(delivery),
        to_devices=CHANNELS[delivery.channel].to_devices,
        tenant=layers_of(view.tenants, delivery.club_id),  # guard: preferences.tenant_before_publishing
    )
    return [rules.recipient(row) for row in rows]


def address_of(delivery: DeliveryRequested, users: Mapping[int, User] | None, row: int) -> str:
    """Return the address of a message: a phone number in the form of E.164. A late message goes to the user's current
    address; it is empty if the user has none.
    """
    channel = CHANNELS[delivery.channel]
    if channel.to_devices:
        return ""
    if users is None:
        address = delivery.addresses[row]
    else:
        user = users.get(delivery.user_ids[row])
        address = channel.address_of(user) if user else ""
    # guard: phone_numbers.one_form
    return number_of(delivery.club_id, address) if address and channel.to_phone_numbers else address


def endpoint_due_s(devices: Sequence[Device], now_ms: int) -> float:
    """Return the seconds for which delivery still waits for the SNS endpoint of a user without a ready device; 0 or
    less if it does not wait.
    """
    if any(map(_is_ready, devices)):
        return 0.0
    changed_ms = [device.changed_at_ms or 0 for device in devices if _is_unregistered(device)]
    return max(changed_ms, default=0) / 1000 + REGISTRAR_WAIT_S - now_ms / 1000


class _Rules(NamedTuple):
    delivery: DeliveryRequested
    view: DirectoryView
    now_ms: int
    was_deferred: bool
    withdrawn: Mapping[int, Decision]
    accepted: Mapping[int, tuple[CallResult, ...]]
    # Whether the channel sends to devices, and not to an address.
    to_devices: bool
    # The layers of the club.
    tenant: TenantLayers

    def recipient(self, row: int) -> Recipient:
        delivery = self.delivery
        position, user_id = delivery.positions[row], delivery.user_ids[row]
        # `replace` of a dataclass takes as long as all rules together, so one object is created for each recipient.
        make = partial(
            Recipient,
            row=row,
            position=position,
            user_id=user_id,
            address=(address := address_of(delivery, self.view.users, row)),
            accepted=(accepted := self.accepted.get(position, ())),
        )
        if not self.was_deferred and delivery.expires_at is not None and delivery.expires_at <= self.now_ms:
            return make(decision=EXPIRED)
        if self.view.is_cancelled:  # guard: cancellations.before_publishing
            return make(decision=CANCELLED)
        if self.view.is_overdue:  # guard: email_pauses.overdue
            return make(decision=EXPIRED)
        if position in self.view.replaced:  # guard: fallbacks.replaced
            return make(decision=REPLACED)
        if self._user_may_be_missing(user_id) or self._may_follow(user_id):
            return make(deferred=Wait.DIRECTORY)
        decision = (
            self.withdrawn.get(position)
            or self._by_address(address)
            or self._by_membership(user_id)
            or self._by_wish(user_id)
        )
        if decision is not None:
            return make(decision=decision)
        # Quiet hours are the last rule: a user without a device is suppressed now, and not held until the morning.
        quiet = self.view.quiet.get(user_id)
        if self.to_devices:
            return self._with_devices(make, self.view.devices.get(user_id, ()), accepted, quiet)
        if self.view.users is not None and not address:
            return make(decision=NO_ADDRESS)
        return make(decision=quiet)

    def _user_may_be_missing(self, user_id: int) -> bool:
        """Return whether an absent user may still arrive in the directory. This concerns only late records, until the
        absence is confirmed.
        """
        users = self.view.users
        return users is not None and user_id not in users and not self.view.absence_is_confirmed

    def _membership(self, user_id: int) -> Membership | None:
        follows = self.delivery.follows
        return None if follows is None else self.view.memberships.get(membership_id(user_id, follows))

    def _may_follow(self, user_id: int) -> bool:
        """Return whether the row about the object that the user must follow may still arrive in the directory."""
        if self.delivery.follows is None or self.view.absence_is_confirmed:  # guard: follows.held_before_publishing
            return False
        return self._membership(user_id) is None

    def _by_membership(self, user_id: int) -> Decision | None:
        """Return the decision for a user who has unfollowed the object of the send, or muted it."""
        delivery = self.delivery
        if delivery.follows is None:
            return None
        return decide_by_membership(  # guard: follows.before_publishing
            self._membership(user_id),
            follows=delivery.follows,
            club_id=delivery.club_id,
            type=delivery.type,
            at_ms=delivery.timestamp,
        )

    def _by_address(self, address: str) -> Decision | None:
        """Return the decision that follows from the suppression list. It applies to every category, because such an
        address accepts no message.
        """
        # guard: suppressions.before_publishing
        if address and address in self.view.suppressed:
            return ADDRESS_SUPPRESSED
        return None

    def _by_wish(self, user_id: int) -> Decision | None:
        """Return the decision that follows from the layers of preferences. An opt-out may be newer than the preference
        checker's decision; after a delay, the user may also have been erased.
        """
        delivery, settings = self.delivery, self.view.settings.get(user_id)
        club_id, category, channel, at_ms = delivery.club_id, delivery.type, delivery.channel, delivery.timestamp
        # guard: preferences.tenant_user_before_publishing
        tenant = layers_for(self.tenant, self.view.tenant_users, user_id, club_id)
        if self.view.users is None:
            wish = decide_by_user_settings(
                settings, club_id=club_id, type=category, channel=channel, at_ms=at_ms, tenant=tenant
            )
        else:
            user = self.view.users.get(user_id)
            wish = decide_by_user(
                user, settings, club_id=club_id, type=category, channel=channel, at_ms=at_ms, tenant=tenant
            )
        if wish.status is not None:  # guard: preferences.opt_out_before_publishing
            return wish
        return None

    def _with_devices(
        self,
        make: Callable[..., Recipient],
        devices: Sequence[Device],
        accepted: Sequence[CallResult],
        quiet: Decision | None,
    ) -> Recipient:
        if not devices:
            if self.view.absence_is_confirmed:
                return make(decision=NO_DEVICE)
            return make(deferred=Wait.DIRECTORY)
        if self.view.awaits_endpoints and endpoint_due_s(devices, self.now_ms) > 0:
            return make(deferred=Wait.ENDPOINT)
        if not any(device.enabled for device in devices):
            return make(decision=DEVICE_INACTIVE)
        ready = list(filter(_is_ready, devices))  # guard: endpoints.ready_devices
        if accepted:
            targets = {call.target for call in accepted}
            reached = {device.endpoint_arn for device in devices if str(device.device_id) in targets}
            ready = [device for device in ready if device.endpoint_arn not in reached]
        if len(ready) > 1:
            # Devices with one token have one endpoint, such as the rows of several logins on a phone.
            # guard: endpoints.one_push_a_phone
            ready = list({device.endpoint_arn: device for device in ready}.values())
        return make(decision=quiet, devices=ready, unregistered=any(map(_is_unregistered, devices)))


def _withdrawn(entry: Withdrawn) -> Decision:
    reason = None if entry.reason is None else Reason(entry.reason)
    return Decision(Status(entry.status), reason, entry.layer, entry.rule)


def _is_ready(device: Device) -> bool:
    return device.enabled and device.endpoint_arn is not None  # guard: endpoints.disabled_endpoint


def _is_unregistered(device: Device) -> bool:
    return device.enabled and device.endpoint_arn is None
