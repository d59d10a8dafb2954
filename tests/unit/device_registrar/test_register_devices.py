"""Device rows lead to the expected provider calls, stored states and redeliveries, on fakes."""

import threading
from typing import Any

import pytest

from functions.device_registrar import register_devices
from functions.device_registrar.device_states import DeviceState
from functions.device_registrar.endpoints import endpoint_arn
from masscomm.errors import Retry, Stop
from tests.support.harness.device_registrar import Registrar
from tests.support.inputs.debezium_records import record, row


def device(number: int, token: str, *, active: bool = True, platform: str = "gcm") -> dict[str, Any]:
    return {"id": number, "user_id": 1, "platform": platform, "token": token, "active": active}


def test_snapshot_and_streamed_rows_are_registered() -> None:
    registrar = Registrar()
    assert registrar.run(row("devices", "r", 9, device(1, "a")), row("devices", "c", 50, device(2, "b"))) == []
    assert {n: (s.token, s.endpoint_arn, s.enabled, s.version) for n, s in registrar.states.states.items()} == {
        "1": ("a", endpoint_arn("gcm", "a"), True, 9),
        "2": ("b", endpoint_arn("gcm", "b"), True, 50),
    }


def test_redelivered_row_causes_no_provider_call() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 50, device(1, "a")))
    registrar.take_calls()
    assert registrar.run(row("devices", "c", 50, device(1, "a")), row("devices", "u", 60, device(1, "a"))) == []
    assert registrar.take_calls() == []
    assert registrar.states.states["1"].version == 60


def test_older_row_changes_nothing() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "u", 60, device(1, "new")))
    registrar.take_calls()
    assert registrar.run(row("devices", "c", 50, device(1, "old")), row("devices", "d", 55, None, device(1, "x"))) == []
    assert registrar.take_calls() == []
    assert registrar.states.states["1"].token == "new"


def test_late_row_does_not_replace_a_newer_token() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, "a")))
    registrar.run(row("devices", "u", 30, device(1, "a")))
    registrar.run(row("devices", "u", 20, device(1, "b")))
    assert registrar.states.states["1"].token == "a"


def test_device_without_a_user_is_no_device() -> None:
    """cdc_consumer removes and dead-letters the row; the state keeps no token that erasure could not find."""
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, "a")))
    assert registrar.run(row("devices", "u", 20, device(1, "a") | {"user_id": None})) == []
    state = registrar.states.states["1"]
    assert (state.token, state.enabled, state.reason) == (None, False, "deleted")
    registrar.run(row("devices", "u", 30, device(1, "a") | {"user_id": 2}))
    assert registrar.states.states["1"].endpoint_arn == endpoint_arn("gcm", "a")


def test_a_new_token_is_a_new_endpoint() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, "a")))
    registrar.run(row("devices", "u", 20, device(1, "b")))
    assert registrar.states.states["1"].endpoint_arn == endpoint_arn("gcm", "b")


def test_changes_of_a_device_in_one_batch_make_one_call() -> None:
    registrar = Registrar()
    rows = [row("devices", "u", lsn, device(1, token)) for lsn, token in ((10, "a"), (30, "c"), (20, "b"))]
    assert registrar.run(*rows) == []
    assert registrar.take_calls() == [("register", "c")]


def test_inactive_device_is_disabled_until_active() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, "a")))
    registrar.run(row("devices", "u", 20, device(1, "a", active=False)))
    assert (registrar.states.states["1"].enabled, registrar.states.states["1"].reason) == (False, "inactive")
    registrar.run(row("devices", "u", 30, device(1, "a")))
    assert registrar.states.states["1"].enabled


def test_a_deleted_device_keeps_a_state_against_older_rows() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, "a")))
    registrar.run(row("devices", "d", 20, None, device(1, "a")), record("devices", {"id": 1}, None))
    registrar.run(row("devices", "c", 10, device(1, "a")))
    assert registrar.states.states["1"].reason == "deleted"


@pytest.mark.guarantee("sns_answer.invalid_token")
def test_an_invalid_token_is_kept_as_such_and_blocks_nothing() -> None:
    registrar = Registrar()
    registrar.endpoints.invalid = {"bad"}
    rows = [device(1, "bad"), device(2, "good")]
    assert registrar.run(*(row("devices", "c", 10 + n, columns) for n, columns in enumerate(rows))) == []
    assert {n: (s.enabled, s.reason) for n, s in registrar.states.states.items()} == {
        "1": (False, "invalid_token"),
        "2": (True, None),
    }
    assert registrar.states.states["1"].token == "bad"


def test_provider_outage_redelivers_only_rows_that_need_it() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, "a")))
    registrar.endpoints.failing = Retry("throttled")
    new, again = row("devices", "c", 20, device(2, "b")), row("devices", "u", 30, device(1, "a"))
    assert registrar.run(new, again) == [new.offset]
    assert "2" not in registrar.states.states
    registrar.endpoints.failing = None
    assert registrar.run(new) == []
    assert registrar.states.states["2"].enabled


def test_unreachable_device_states_redeliver_all() -> None:
    registrar = Registrar()
    registrar.states.failing = Retry("OpenSearch is down")
    rows = [row("devices", "c", 10, device(1, "a")), row("devices", "c", 11, device(2, "b"))]
    assert registrar.run(*rows) == [r.offset for r in rows]
    assert registrar.take_calls() == []


def test_refused_provider_access_redelivers_all() -> None:
    registrar = Registrar()
    registrar.endpoints.failing = Stop("no such application")
    record = row("devices", "c", 10, device(1, "a"))
    assert registrar.run(record) == [record.offset]


def test_no_provider_call_begins_without_enough_time() -> None:
    registrar = Registrar()
    registrar.context.remaining_ms = 10_000
    late = row("devices", "c", 10, device(1, "a"))
    assert registrar.run(late) == [late.offset]
    assert registrar.take_calls() == []


@pytest.mark.guarantee("device_registrar.refused_row_is_skipped")
@pytest.mark.kills(guard="endpoints.refused_row")
@pytest.mark.parametrize("change", [{"token": None}, {"token": ""}, {"platform": None}, {"platform": ""}])
def test_refused_row_is_dead_lettered_and_marked_in_its_state(change: dict[str, Any]) -> None:
    """Without a mark in its state, delivery would wait for the device's endpoint until the message has expired."""
    registrar = Registrar()
    bad, good = row("devices", "c", 10, device(1, "a") | change), row("devices", "c", 11, device(2, "b"))
    assert registrar.run(bad, good) == []
    assert [dict(p[3])["masscomm.reason"] for p in registrar.producer.produced] == [b"invalid"]
    assert {name: state.enabled for name, state in registrar.states.states.items()} == {"1": False, "2": True}
    assert (registrar.states.states["1"].token, registrar.states.states["1"].reason) == (
        (device(1, "a") | change)["token"],
        "invalid_row",
    )


@pytest.mark.kills(guard="devices.platform_words")
@pytest.mark.parametrize(
    ("word", "platform"), [("ios", "apns"), (" APNS ", "apns"), ("Android", "gcm"), ("fcm", "gcm")]
)
def test_other_word_for_a_platform_is_understood(word: str, platform: str) -> None:
    registrar = Registrar()
    assert registrar.run(row("devices", "c", 10, device(1, "a", platform=word))) == []
    assert registrar.states.states["1"].endpoint_arn == endpoint_arn(platform, "a")


@pytest.mark.guarantee("device_registrar.corrected_platform_is_registered")
@pytest.mark.kills(guard="devices.corrected_platform")
@pytest.mark.parametrize(("wrong", "right", "platform"), [("gcm", "ios", "apns"), ("apns", "fcm", "gcm")])
def test_corrected_platform_gets_an_endpoint_of_its_own(wrong: str, right: str, platform: str) -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, "a", platform=wrong)))
    assert registrar.run(row("devices", "u", 20, device(1, "a", platform=right))) == []
    assert registrar.states.states["1"].endpoint_arn == endpoint_arn(platform, "a")


def test_inactive_row_of_a_corrected_platform_keeps_no_endpoint() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, "a")))
    registrar.run(row("devices", "u", 20, device(1, "a", platform="ios", active=False)))
    assert registrar.states.states["1"].endpoint_arn is None
    registrar.run(row("devices", "u", 30, device(1, "a", platform="ios")))
    assert registrar.states.states["1"].endpoint_arn == endpoint_arn("apns", "a")


def test_another_word_for_the_platform_causes_no_call() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, "a", platform="ios")))
    registrar.take_calls()
    assert registrar.run(row("devices", "u", 20, device(1, "a", platform="APNS"))) == []
    assert registrar.take_calls() == []


@pytest.mark.parametrize(("operation", "lsn", "generation"), [("u", 50, "g1"), ("r", 90, "g2")])
def test_invalid_token_by_another_word_heals_with_its_row(operation: str, lsn: int, generation: str) -> None:
    """Earlier versions stored `invalid_token` for platforms that are named by other words."""
    registrar = Registrar("g1", "g2")
    registrar.states.states["1"] = DeviceState(
        token="a", endpoint_arn=None, enabled=False, reason="invalid_token", version=50, updated_at=1
    )
    again = row("devices", operation, lsn, device(1, "a", platform="ios"), generation=generation)
    assert registrar.run(again) == []
    state = registrar.states.states["1"]
    assert (state.enabled, state.reason, state.endpoint_arn) == (True, None, endpoint_arn("apns", "a"))


@pytest.mark.guarantee("device_registrar.unknown_platform_is_dead_lettered")
@pytest.mark.kills(guard="devices.unknown_platform")
def test_unknown_platform_is_dead_lettered_with_its_word() -> None:
    registrar = Registrar()
    assert registrar.run(row("devices", "c", 10, device(1, "a", platform="windows"))) == []
    (produced,) = registrar.producer.produced
    assert "'windows'" in dict(produced[3])["masscomm.error"].decode()
    assert registrar.states.states["1"].reason == "invalid_row"
    assert registrar.take_calls() == []


def test_refused_row_replaces_the_endpoint_of_earlier_rows() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, "a")))
    rows = row("devices", "u", 20, device(1, "b")), row("devices", "u", 30, device(1, ""), device(1, "b"))
    assert registrar.run(*rows) == []
    assert len(registrar.producer.produced) == 1
    assert registrar.states.states["1"].version == 30
    assert not registrar.states.states["1"].enabled


def test_refused_row_is_redelivered_until_its_state_is_stored() -> None:
    registrar = Registrar()
    registrar.states.failing = Retry("OpenSearch is down")
    bad = row("devices", "c", 10, device(1, ""))
    assert registrar.run(bad) == [bad.offset]
    registrar.states.failing = None
    assert registrar.run(bad) == []
    assert registrar.states.states.keys() == {"1"}


@pytest.mark.guarantee("directory.snapshot_renews_device_states")
@pytest.mark.kills(guard="devices.lsn_order")
def test_new_snapshot_is_newer_than_rows_streamed_before() -> None:
    """The device changed while no generation captured the table, so only the new snapshot has its token."""
    registrar = Registrar("g1", "g2")
    registrar.run(row("devices", "u", 50, device(1, "old")))
    assert registrar.run(row("devices", "r", 90, device(1, "new"), generation="g2")) == []
    state = registrar.states.states["1"]
    assert (state.token, state.endpoint_arn, state.generation) == ("new", endpoint_arn("gcm", "new"), "g2")


def test_old_generation_applies_until_the_new_one_has_streamed() -> None:
    registrar = Registrar("g1", "g2")
    registrar.run(row("devices", "r", 90, device(1, "a"), generation="g2"))
    registrar.run(row("devices", "u", 100, device(1, "b")))
    registrar.run(row("devices", "r", 90, device(1, "a"), generation="g2"))
    assert registrar.states.states["1"].token == "b"
    registrar.run(row("devices", "u", 100, device(1, "b"), generation="g2"))
    registrar.run(row("devices", "u", 110, device(1, "c"), generation="g2"), row("devices", "u", 95, device(1, "x")))
    assert registrar.states.states["1"].token == "c"


def test_transaction_open_at_the_snapshot_wins() -> None:
    """Debezium streams a transaction that was open at the snapshot with a lower LSN (docs/decisions/011)."""
    registrar = Registrar("g1", "g2")
    registrar.run(row("devices", "u", 50, device(1, "old")))
    registrar.run(row("devices", "r", 90, device(1, "old"), generation="g2"))
    registrar.run(row("devices", "u", 80, device(1, "new"), generation="g2"))
    registrar.run(row("devices", "u", 85, device(1, "newer"), generation="g2"))
    registrar.run(row("devices", "r", 90, device(1, "old"), generation="g2"))
    assert registrar.states.states["1"].token == "newer"


@pytest.mark.parametrize(("version", "lsn", "token"), [(1, 40, "new"), (50, 60, "new"), (50, 40, "old")])
def test_a_state_without_a_generation_is_read(version: int, lsn: int, token: str) -> None:
    """An earlier version's state has no generation; its version is 1 after a snapshot's row, else the change's LSN."""
    registrar = Registrar()
    registrar.states.states["1"] = DeviceState(
        token="old", endpoint_arn=endpoint_arn("gcm", "old"), enabled=True, reason=None, version=version, updated_at=1
    )
    assert registrar.run(row("devices", "u", lsn, device(1, "new"))) == []
    assert registrar.states.states["1"].token == token


def test_a_new_snapshot_does_not_try_a_dead_token_again() -> None:
    registrar = Registrar("g1", "g2")
    registrar.states.states["1"] = DeviceState(
        token="a",
        endpoint_arn=endpoint_arn("gcm", "a"),
        enabled=False,
        reason="takes_nothing",
        version=50,
        updated_at=1,
    )
    assert registrar.run(row("devices", "r", 90, device(1, "a"), generation="g2")) == []
    assert registrar.take_calls() == []
    assert not registrar.states.states["1"].enabled


def test_call_beyond_the_invocation_fails_only_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    registrar, ended = Registrar(), threading.Event()
    register = registrar.endpoints.register

    def slow(platform: str, token: str) -> str:
        if token == "slow":
            registrar.context.remaining_ms = 0
            ended.wait(30)
        return register(platform, token)

    monkeypatch.setattr(registrar.endpoints, "register", slow)
    monkeypatch.setattr(register_devices, "ENDPOINT_CALL_S", 0.1)
    registrar.context.remaining_ms = 2_500
    slow_row, other = row("devices", "c", 50, device(1, "slow")), row("devices", "c", 51, device(2, "b"))
    try:
        assert registrar.run(other, slow_row) == [slow_row.offset]
        assert registrar.states.states.keys() == {"2"}
    finally:
        ended.set()
