"""Delivery decides from directory data and the time whether a recipient is ready, final or deferred."""

from dataclasses import replace
from typing import Any

import pytest

from masscomm.decisions.delivery import (
    ADDRESS_SUPPRESSED,
    DEVICE_INACTIVE,
    NO_ADDRESS,
    NO_DEVICE,
    DirectoryView,
    Recipient,
    Wait,
    decide,
)
from masscomm.domain.outcomes import EXPIRED
from masscomm.domain.preferences import UNKNOWN, Decision
from masscomm.domain.records import DeliveryRequested, Taken, Withdrawn
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.users import Device, User, UserSettings
from tests.support.harness.chain import NOW, delivery
from tests.support.harness.delivery import by_email

HELD = Decision(Status.HELD, None, "user", until_ms=NOW + 1)
TEMPLATE_ERROR = Decision(Status.FAILED, Reason.TEMPLATE_ERROR, "builder")
OPTED_OUT = UserSettings(user_id=1, channels={"push": False, "email": False})
USER = User(user_id=1, club_id=7, email="new@example.com")
NEW: dict[str, Any] = {"endpoint_arn": None, "changed_at_ms": NOW}
OLD: dict[str, Any] = {"endpoint_arn": None, "changed_at_ms": NOW - 60_000}


def _device(number: int = 1, **columns: Any) -> Device:
    usual: dict[str, Any] = {"platform": "gcm", "endpoint_arn": f"arn-{number}"}
    return Device(device_id=number, user_id=1, **usual | columns)


def _view(**values: Any) -> DirectoryView:
    devices = values.pop("devices", [_device()])
    return DirectoryView(**{"settings": {}, "devices": {1: devices} if devices else {}} | values)


def _decided(record: DeliveryRequested, view: DirectoryView) -> Recipient:
    (recipient,) = decide(record, view, rows=[0], now_ms=NOW)
    return recipient


PUSH, EMAIL, LATE = delivery([1]), by_email([1]), delivery([1], expires_at=NOW)
WITHDRAWN = replace(PUSH, withdrawn=[Withdrawn(position=0, status="failed", reason="template_error", layer="builder")])
TAKEN = replace(PUSH, taken=[Taken(position=0, target="1", message_id="m")])
OLD_ADDRESS, NEW_ADDRESS = {"user1@example.com"}, {"new@example.com"}

CASES: dict[str, tuple[DeliveryRequested, DirectoryView, Decision | Wait | list[int]]] = {
    "a ready device": (PUSH, _view(), [1]),
    "several devices, one without endpoint": (PUSH, _view(devices=[_device(1), _device(2, **NEW)]), [1]),
    "a disabled device and a ready one": (PUSH, _view(devices=[_device(1, enabled=False), _device(2)]), [2]),
    "two devices with one endpoint": (PUSH, _view(devices=[_device(1), _device(2, endpoint_arn="arn-1")]), [2]),
    "only disabled devices": (PUSH, _view(devices=[_device(enabled=False)]), DEVICE_INACTIVE),
    "a new device without endpoint": (PUSH, _view(devices=[_device(**NEW)]), Wait.ENDPOINT),
    "an old device without endpoint": (PUSH, _view(devices=[_device(**OLD)]), []),
    "a new device after the wait": (PUSH, _view(devices=[_device(**NEW)], awaits_endpoints=False), []),
    "no device yet": (PUSH, _view(devices=[]), Wait.DIRECTORY),
    "no device, confirmed": (PUSH, _view(devices=[], absence_is_confirmed=True), NO_DEVICE),
    "expired": (LATE, _view(devices=[]), EXPIRED),
    "withdrawn by builder": (WITHDRAWN, _view(), TEMPLATE_ERROR),
    "in quiet hours": (PUSH, _view(quiet={1: HELD}), HELD),
    "in quiet hours without device": (PUSH, _view(quiet={1: HELD}, devices=[], absence_is_confirmed=True), NO_DEVICE),
    "accepted by one device before": (TAKEN, _view(devices=[_device(1), _device(2)]), [2]),
    "accepted before by another device with the endpoint": (
        TAKEN,
        _view(devices=[_device(1), _device(2, endpoint_arn="arn-1"), _device(3)]),
        [3],
    ),
    "an address": (EMAIL, _view(), []),
    "a suppressed address": (EMAIL, _view(suppressed=OLD_ADDRESS), ADDRESS_SUPPRESSED),
    "delayed, user not there yet": (PUSH, _view(users={}), Wait.DIRECTORY),
    "delayed, user erased": (PUSH, _view(users={}, absence_is_confirmed=True), UNKNOWN),
    "delayed and expired, user not there": (LATE, _view(users={}), EXPIRED),
    "delayed, user without address": (EMAIL, _view(users={1: USER._replace(email=None)}), NO_ADDRESS),
    "delayed, new address suppressed": (EMAIL, _view(users={1: USER}, suppressed=NEW_ADDRESS), ADDRESS_SUPPRESSED),
    "delayed, old address suppressed": (EMAIL, _view(users={1: USER}, suppressed=OLD_ADDRESS), []),
}


@pytest.mark.parametrize("name", CASES)
def test_recipient_is_ready_final_or_deferred(name: str) -> None:
    record, view, expected = CASES[name]
    recipient = _decided(record, view)
    if isinstance(expected, Wait):
        assert (recipient.deferred, recipient.decision) == (expected, None)
    elif isinstance(expected, Decision):
        assert (recipient.decision, recipient.deferred) == (expected, None)
    else:
        assert (recipient.decision, recipient.deferred) == (None, None)
        assert [device.device_id for device in recipient.devices] == expected


@pytest.mark.parametrize("record", [PUSH, EMAIL], ids=["push", "email"])
def test_opt_out_after_the_check_is_final(record: DeliveryRequested) -> None:
    decision = _decided(record, _view(settings={1: OPTED_OUT})).decision
    assert decision is not None
    assert (decision.status, decision.reason) == (Status.SUPPRESSED, Reason.OPTED_OUT)


def test_delayed_email_goes_to_the_present_address() -> None:
    assert _decided(EMAIL, _view(users={1: USER})).address == "new@example.com"
    assert _decided(EMAIL, _view()).address == "user1@example.com"


def test_only_the_given_rows_are_decided() -> None:
    view = _view(devices=[], absence_is_confirmed=True)
    found = decide(delivery([1, 2, 3]), view, rows=[0, 2], now_ms=NOW)
    assert [recipient.position for recipient in found] == [0, 2]
