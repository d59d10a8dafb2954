"""The registrar marks endpoints by the device statuses that delivery emits, and delivery stops calling them."""

from typing import Any

import pytest

from functions.device_registrar.device_states import DeviceState, InMemoryDeviceStates
from functions.device_registrar.endpoints import InMemoryEndpoints, endpoint_arn
from functions.device_registrar.register_devices import RegisterDevices
from functions.device_registrar.token_holders import InMemoryTokenHolders
from masscomm.directory.document_publisher import InMemoryDocumentPublisher
from masscomm.directory.generations import InMemoryCreationTimes
from masscomm.domain.records import DeviceStatusChanged
from masscomm.errors import Retry
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, SEND_ID, Chain, entry
from tests.support.inputs.debezium_records import row

ARN = endpoint_arn("gcm", "a")


class Registrar(Chain):
    """A registrar that knows device 1, with token `a` and an endpoint created at NOW."""

    def __init__(self) -> None:
        super().__init__()
        self.states = InMemoryDeviceStates()
        self.endpoints = InMemoryEndpoints()
        self.use_case = RegisterDevices(
            generations=["g1"],
            created=InMemoryCreationTimes(),
            states=self.states,
            holders=InMemoryTokenHolders(),
            endpoints=self.endpoints,
            publisher=InMemoryDocumentPublisher(),
            clock=self.clock,
            workers=4,
        )
        self.follow_row(50)
        self.endpoints.calls.clear()

    def follow_row(self, version: int) -> None:
        after = {"id": 1, "user_id": 1, "platform": "gcm", "token": "a", "active": True}
        record = row("devices", "u", version, after)
        assert self.run(self.use_case, entry(record.value, topic=record.topic, key=record.key)) == []

    def status_changed(self, **values: Any) -> list[int]:
        """Consume a status of device 1. Returns the offsets to be redelivered."""
        usual: dict[str, Any] = {
            "record_id": "r",
            "device_id": 1,
            "user_id": 1,
            "club_id": 7,
            "platform": "gcm",
            "endpoint_arn": ARN,
            "status": "inactive",
            "timestamp": self.clock.now_ms(),
            "send_id": SEND_ID,
        }
        status = DeviceStatusChanged(**usual | values)
        return self.run(self.use_case, self.encoded(status, topics.DEVICE_STATUS))

    @property
    def state(self) -> DeviceState:
        return self.states.states["1"]


@pytest.mark.guarantee("devices.disabled_endpoint_stays_inactive")
def test_inactive_endpoint_is_marked_disabled() -> None:
    registrar = Registrar()
    registrar.clock.advance(1)
    assert registrar.status_changed() == []
    assert (registrar.state.enabled, registrar.state.reason) == (False, "takes_nothing")
    assert (registrar.state.endpoint_arn, registrar.state.row_version) == (ARN, 50)
    assert registrar.endpoints.calls == []


@pytest.mark.parametrize(
    "values",
    [
        {"endpoint_arn": endpoint_arn("gcm", "another")},
        {"timestamp": NOW - 1},
        {"device_id": 2},
        {"status": "something new"},
    ],
)
def test_status_of_an_outdated_endpoint_changes_nothing(values: dict[str, Any]) -> None:
    registrar = Registrar()
    before = registrar.state
    assert registrar.status_changed(**values) == []
    assert registrar.states.states == {"1": before}


def test_only_a_newer_row_enables_the_endpoint_again() -> None:
    registrar = Registrar()
    registrar.status_changed()
    registrar.follow_row(50)
    assert not registrar.state.enabled
    assert registrar.endpoints.calls == []
    registrar.clock.advance(1)
    registrar.follow_row(60)
    assert registrar.state.enabled
    assert registrar.endpoints.calls == [("register", "a")]
    assert registrar.status_changed(timestamp=NOW) == []
    assert registrar.state.enabled


def test_unwritable_device_state_redelivers_the_status() -> None:
    registrar = Registrar()
    registrar.states.failing = Retry("OpenSearch is down")
    assert registrar.status_changed() == [0]
    registrar.states.failing = None
    assert registrar.status_changed() == []
    assert not registrar.state.enabled


def test_an_operator_lets_a_disabled_device_be_tried_again() -> None:
    registrar = Registrar()
    registrar.status_changed()
    registrar.clock.advance(1)
    assert registrar.status_changed(status="active") == []
    assert (registrar.state.enabled, registrar.state.reason) == (True, None)
    assert registrar.endpoints.calls == [("register", "a")]
    # A redelivery changes nothing.
    assert registrar.status_changed(status="active") == []
    assert registrar.endpoints.calls == [("register", "a")]
    # The provider reports the endpoint as inactive once more.
    assert registrar.status_changed() == []
    assert not registrar.state.enabled


@pytest.mark.kills(guard="devices.enabled_on_request")
def test_an_operator_enables_no_device_that_its_row_disables() -> None:
    registrar = Registrar()
    after = {"id": 1, "user_id": 1, "platform": "gcm", "token": "a", "active": False}
    record = row("devices", "u", 60, after)
    registrar.run(registrar.use_case, entry(record.value, topic=record.topic, key=record.key))
    before = registrar.state
    assert (before.enabled, before.endpoint_arn) == (False, ARN)
    registrar.clock.advance(1)
    assert registrar.status_changed(status="active") == []
    assert registrar.state == before
    assert registrar.endpoints.calls == []


def test_a_token_that_the_provider_refuses_stays_disabled() -> None:
    registrar = Registrar()
    registrar.status_changed()
    registrar.endpoints.invalid.add("a")
    assert registrar.status_changed(status="active") == []
    assert (registrar.state.enabled, registrar.state.reason) == (False, "invalid_token")


def test_a_request_to_enable_waits_for_the_provider() -> None:
    registrar = Registrar()
    registrar.status_changed()
    registrar.endpoints.failing = Retry("SNS is down")
    assert registrar.status_changed(status="active") == [0]
    registrar.endpoints.failing = None
    assert registrar.status_changed(status="active") == []
    assert registrar.state.enabled
