"""No device is registered before the first snapshot of the directory is complete."""

from typing import Any, cast

import pytest

from masscomm.clock import FixedClock
from masscomm.directory.client import OpenSearch
from masscomm.directory.generations import OpenSearchCreationTimes
from masscomm.domain.time_limits import FIRST_CAPTURE_POLL_S
from tests.support.fakes.opensearch import FakeOpenSearch
from tests.support.harness.device_registrar import Registrar
from tests.support.inputs.debezium_records import row

DEVICE: dict[str, Any] = {"id": 1, "user_id": 1, "platform": "gcm", "token": "a", "active": True}


class Waiting(FixedClock):
    """A clock whose waits take time of the invocation, and after which the snapshot may be complete."""

    def __init__(self, registrar: Registrar, *, complete_after_s: float) -> None:
        super().__init__()
        self._registrar, self._complete_after_s = registrar, complete_after_s
        self.waited_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.waited_s += seconds
        self._registrar.context.remaining_ms -= round(seconds * 1000)
        self._registrar.created.complete = self.waited_s >= self._complete_after_s


def _waiting(complete_after_s: float) -> tuple[Registrar, Waiting]:
    registrar = Registrar()
    registrar.created.complete = False
    clock = Waiting(registrar, complete_after_s=complete_after_s)
    registrar.use_case._clock = clock
    return registrar, clock


@pytest.mark.kills(guard="devices.directory_first")
def test_devices_are_registered_after_the_snapshot() -> None:
    registrar, clock = _waiting(complete_after_s=2)
    assert registrar.run(row("devices", "r", 9, DEVICE)) == []
    assert clock.waited_s == 2
    assert registrar.take_calls() == [("register", "a")]
    registrar.created.complete = False
    assert registrar.run(row("devices", "u", 20, {**DEVICE, "token": "b"})) == []
    assert clock.waited_s == 2


def test_record_is_redelivered_if_the_snapshot_takes_longer() -> None:
    registrar, clock = _waiting(complete_after_s=1_000)
    record = row("devices", "r", 9, DEVICE)
    assert registrar.run(record) == [record.offset]
    assert registrar.take_calls() == []
    assert 30 < clock.waited_s < 60
    assert clock.waited_s % FIRST_CAPTURE_POLL_S == 0


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({}, False),
        ({"g1": {"created_at": 1}}, False),
        ({"g1": {"created_at": 1, "complete": False}, "g2": {"created_at": 2, "complete": True}}, True),
        ({"g3": {"created_at": 1, "complete": True}}, False),
    ],
)
def test_a_captured_generation_has_to_be_complete(states: dict[str, Any], expected: bool) -> None:
    cluster = FakeOpenSearch()
    for name, state in states.items():
        cluster.documents["directory_state", f"generation-{name}"] = (1, state)
    assert OpenSearchCreationTimes(cast(OpenSearch, cluster)).is_any_complete(["g1", "g2"]) is expected
