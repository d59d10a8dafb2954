"""Disabled devices over HTTP: a caller reads, counts and enables those of its clubs."""

from typing import Any

import pytest

from functions.operations_handler import handler as operations_handler
from functions.operations_handler.routes.devices import DevicesRoute
from masscomm.clock import FixedClock
from masscomm.directory.disabled_devices import DisabledDevice, InMemoryDisabledDevices
from masscomm.domain.records import DeviceStatusChanged
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import InMemoryProducer
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from tests.support.contracts.disabled_devices import device
from tests.support.harness.operations_api import registry

SEVEN = Clubs(frozenset({7}))


class Setting:
    """Devices of the clubs 7 and 8, and one of no club."""

    def __init__(self, *more: DisabledDevice) -> None:
        self.codec, self.producer, self.audit_log = Codec(registry()), InMemoryProducer(), InMemoryAuditLog()
        devices = InMemoryDisabledDevices(
            [device(1), device(2, 8), device(3, None, "deleted"), device(4, 7, "inactive"), *more]
        )
        self.route = DevicesRoute(devices, self.codec, self.producer, FixedClock(5))
        self.audit = operations_handler.audits(self.audit_log, FixedClock())("k7")

    def ids(self, clubs: Clubs = SEVEN, **parameters: Any) -> list[int]:
        body = self.route.answer({name: [str(value)] for name, value in parameters.items()}, clubs)
        return sorted(row["device_id"] for row in body["rows"])

    def enable(self, device_id: str, clubs: Clubs = SEVEN) -> Any:
        return self.route.enable(device_id, None, clubs, self.audit)


@pytest.fixture
def setting() -> Setting:
    return Setting()


@pytest.mark.kills(guard="tenancy.disabled_devices")
def test_a_caller_reads_the_devices_of_its_clubs(setting: Setting) -> None:
    assert setting.ids() == [1, 4]
    assert setting.ids(ALL_CLUBS) == [1, 2, 3, 4]
    assert setting.ids(reason="inactive") == [4]
    with pytest.raises(Problem) as raised:
        setting.ids(club_id=8)
    assert raised.value.status == 403


@pytest.mark.kills(guard="tenancy.disabled_device_counts")
def test_a_caller_counts_the_devices_of_its_clubs(setting: Setting) -> None:
    rows = setting.route.counts({}, SEVEN)["rows"]
    assert {(row["club_id"], row["reason"], row["devices"]) for row in rows} == {
        (7, "takes_nothing", 1),
        (7, "inactive", 1),
    }
    assert len(setting.route.counts({}, ALL_CLUBS)["rows"]) == 4


def test_a_row_shows_neither_token_nor_endpoint(setting: Setting) -> None:
    assert "arn" not in str(setting.route.answer({}, ALL_CLUBS))


def test_pages_of_devices_continue_by_cursor(setting: Setting) -> None:
    first = setting.route.answer({"limit": ["1"]}, SEVEN)
    assert first["truncated"]
    rest = setting.ids(limit=1, cursor=first["next_cursor"])
    assert sorted([first["rows"][0]["device_id"], *rest]) == [1, 4]
    with pytest.raises(Problem, match="cursor"):
        setting.ids(limit=1, cursor=first["next_cursor"], reason="inactive")


def test_enabling_asks_the_registrar_and_is_audited(setting: Setting) -> None:
    assert setting.enable("1") == {"device_id": 1, "status": "requested"}
    ((topic, key, value, _),) = setting.producer.produced
    assert (topic, key) == (topics.DEVICE_STATUS, b"1")
    asked = DeviceStatusChanged.from_avro(setting.codec.decode("DeviceStatusChanged", value))
    assert (asked.status, asked.endpoint_arn, asked.platform, asked.timestamp) == ("active", "arn:1", "gcm", 5)
    (entry,) = setting.audit_log.entries
    assert (entry.action, entry.subject, entry.club_id) == ("device.enabled", "1", 7)


@pytest.mark.kills(guard="tenancy.enabled_device")
@pytest.mark.parametrize("device_id", ["2", "3", "99", "x", "1x", "-1", "9" * 19])
def test_other_and_unknown_devices_are_not_enabled(setting: Setting, device_id: str) -> None:
    with pytest.raises(Problem, match="unknown") as raised:
        setting.enable(device_id)
    assert raised.value.status == 404
    assert setting.producer.produced == []
    assert setting.audit_log.entries == []


@pytest.mark.parametrize("device_id", ["3", "4"])
def test_a_device_that_its_row_disables_stays_so(setting: Setting, device_id: str) -> None:
    with pytest.raises(Problem, match="only a change of the monolith's row") as raised:
        setting.enable(device_id, ALL_CLUBS)
    assert raised.value.status == 409


def test_a_request_that_kafka_refuses_is_not_audited(setting: Setting) -> None:
    setting.producer.fail = lambda _topic, _value: Retry("down")
    with pytest.raises(Retry):
        setting.enable("1")
    assert setting.audit_log.entries == []


@pytest.mark.parametrize("parameters", [{"club_id": "x"}, {"reason": "tired"}, {"limit": 0}, {"cursor": "x"}, {"a": 1}])
def test_wrong_parameters_of_devices_are_named(setting: Setting, parameters: dict[str, Any]) -> None:
    with pytest.raises(Problem) as raised:
        setting.ids(**parameters)
    assert (raised.value.status, [error.field for error in raised.value.errors]) == (400, list(parameters))
