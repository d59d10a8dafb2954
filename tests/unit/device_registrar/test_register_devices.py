"""Device rows lead to the expected provider calls, stored states and redeliveries, on fakes."""

import threading
from typing import Any

import pytest

from functions.device_registrar import register_devices
from functions.device_registrar.device_states import DeviceState, StatesOfDevice
from functions.device_registrar.endpoints import endpoint_arn
from masscomm.domain.time_limits import MISSED_DELETE_AGE_MS
from masscomm.errors import Retry, Stop
from masscomm.kafka.event import KafkaRecord
from tests.support.harness.device_registrar import Registrar
from tests.support.inputs.debezium_records import record, row


def device(number: int, token: str, *, active: bool = True, platform: str = "gcm") -> dict[str, Any]:
    return {"id": number, "user_id": 1, "platform": platform, "token": token, "active": active}


def _stored_state(
    version: int, reason: str | None = None, *, arn: str | None = endpoint_arn("gcm", "a")
) -> StatesOfDevice:
    state = DeviceState(
        token="a",
        endpoint_arn=arn,
        enabled=reason is None,
        reason=reason,
        updated_at=1,
        generation="g1",
        row_version=version,
    )
    return StatesOfDevice({"g1": state}, (0, 1))


def test_snapshot_and_streamed_rows_are_registered() -> None:
    registrar = Registrar()
    assert registrar.run(row("devices", "r", 9, device(1, "a")), row("devices", "c", 50, device(2, "b"))) == []
    assert {n: (s.token, s.endpoint_arn, s.enabled, s.row_version) for n, s in registrar.states.states.items()} == {
        "1": ("a", endpoint_arn("gcm", "a"), True, 1),
        "2": ("b", endpoint_arn("gcm", "b"), True, 50),
    }


def test_redelivered_row_causes_no_provider_call() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 50, device(1, "a")))
    registrar.take_calls()
    assert registrar.run(row("devices", "c", 50, device(1, "a")), row("devices", "u", 60, device(1, "a"))) == []
    assert registrar.take_calls() == []
    assert registrar.states.states["1"].row_version == 60


@pytest.mark.guarantee("own_documents.published_before_the_answer")
@pytest.mark.kills(guard="devices.published")
def test_row_is_done_when_its_state_is_published() -> None:
    registrar = Registrar()
    registrar.publisher.failing = Retry("Kafka is down")
    change = row("devices", "c", 50, device(1, "a"))
    assert registrar.run(change) == [change.offset]
    registrar.publisher.failing = None
    assert registrar.run(change) == []
    assert registrar.publisher.published == [("device_state", "1")]


def test_redelivered_row_publishes_the_mark_of_a_former_owner() -> None:
    """The first invocation has marked the other device, and could not publish the mark."""
    registrar = Registrar()
    registrar.run(row("devices", "c", 50, device(1, "a")))
    registrar.publisher.published.clear()
    taken = row("devices", "c", 60, device(2, "a") | {"user_id": 2})
    registrar.publisher.failing = Retry("Kafka is down")
    assert registrar.run(taken) == [taken.offset]
    registrar.publisher.failing = None
    assert registrar.run(taken) == []
    assert registrar.publisher.published == [("device_state", "1"), ("device_state", "2")]


def test_row_without_a_token_is_published() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 50, device(1, "")))
    assert registrar.publisher.published == [("device_state", "1")]


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


def test_device_without_a_user_is_handled_as_deleted() -> None:
    """cdc_consumer removes and dead-letters the row; the state keeps no token that erasure could not find."""
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, "a")))
    assert registrar.run(row("devices", "u", 20, device(1, "a") | {"user_id": None})) == []
    state = registrar.states.states["1"]
    assert (state.token, state.enabled, state.reason) == (None, False, "deleted")
    registrar.run(row("devices", "u", 30, device(1, "a") | {"user_id": 2}))
    assert registrar.states.states["1"].endpoint_arn == endpoint_arn("gcm", "a")


def late(registrar: Registrar) -> Registrar:
    """Return a registrar that was away for so long that the topics have lost deletions."""
    registrar.clock.advance((1_700_000_000_000 + MISSED_DELETE_AGE_MS) / 1_000)
    return registrar


def tombstone(number: int) -> KafkaRecord:
    return record("devices", {"id": number}, None)


@pytest.mark.kills(guard="devices.missed_delete")
@pytest.mark.parametrize("batches", ["one", "two"])
def test_tombstone_without_its_delete_ends_the_state(batches: str) -> None:
    registrar = late(Registrar())
    saved = [row("devices", "c", 10, device(1, "a"))]
    if batches == "two":
        assert registrar.run(*saved) == []
        saved = []
    assert registrar.run(*saved, tombstone(1), tombstone(2)) == []
    (state,) = registrar.states.states.values()
    assert (state.token, state.endpoint_arn, state.enabled, state.reason) == (None, None, False, "deleted")
    registrar.clock.advance(1)
    assert registrar.run(tombstone(1)) == []
    assert registrar.states.states["1"].updated_at == state.updated_at


def test_device_inserted_again_after_a_tombstone_is_registered() -> None:
    registrar = late(Registrar())
    registrar.run(row("devices", "c", 10, device(1, "a")))
    assert registrar.run(tombstone(1), row("devices", "c", 30, device(1, "b"))) == []
    assert registrar.states.states["1"].endpoint_arn == endpoint_arn("gcm", "b")


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
    assert registrar.states.states["1"].row_version == 30
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
@pytest.mark.parametrize("lsn", [4, 90], ids=["lower", "higher"])
def test_new_generation_has_states_of_its_own(lsn: int) -> None:
    """The device changed while no generation captured the table, so only the new snapshot has its token. The log
    positions of a moved or restored database begin lower.
    """
    registrar = Registrar("g1", "g2")
    registrar.run(row("devices", "u", 50, device(1, "old")))
    assert registrar.run(row("devices", "r", lsn, device(1, "new"), generation="g2")) == []
    state = registrar.state("1", "g2")
    assert (state.token, state.endpoint_arn) == ("new", endpoint_arn("gcm", "new"))
    registrar.run(row("devices", "u", lsn + 1, device(1, "newer"), generation="g2"))
    assert registrar.state("1", "g2").token == "newer"


@pytest.mark.guarantee("directory.unserved_generation_hides_no_device")
def test_generation_that_is_given_up_hides_nothing() -> None:
    registrar = Registrar("g1", "g2")
    registrar.run(row("devices", "r", 90, device(1, "a"), generation="g2"))
    registrar.run(row("devices", "u", 900, device(1, "b"), generation="g2"))
    registrar.run(row("devices", "u", 50, device(1, "c")), row("devices", "r", 9, device(1, "x")))
    assert registrar.state("1", "g1").token == "c"
    assert registrar.state("1", "g2").token == "b"


def test_rows_of_two_generations_may_be_in_one_batch() -> None:
    registrar = Registrar("g1", "g2")
    rows = row("devices", "u", 50, device(1, "a")), row("devices", "u", 4, device(1, "b"), generation="g2")
    assert registrar.run(*rows) == []
    assert (registrar.state("1", "g1").token, registrar.state("1", "g2").token) == ("a", "b")


def test_known_token_of_another_generation_needs_no_call() -> None:
    registrar = Registrar("g1", "g2")
    registrar.run(row("devices", "u", 50, device(1, "a")))
    registrar.take_calls()
    registrar.run(row("devices", "r", 4, device(1, "a"), generation="g2"))
    registrar.run(row("devices", "u", 5, device(1, "a"), generation="g2"))
    assert registrar.take_calls() == []
    assert registrar.state("1", "g2").endpoint_arn == endpoint_arn("gcm", "a")


@pytest.mark.kills(guard="devices.later_generation")
def test_environment_with_fewer_generations_keeps_later_states() -> None:
    """While functions are deployed, an environment may not capture the new generation yet."""
    registrar = Registrar("g1", "g2")
    registrar.run(row("devices", "r", 4, device(1, "new"), generation="g2"))
    Registrar("g1", before=registrar).run(row("devices", "u", 60, device(1, "old")))
    assert registrar.state("1", "g2").token == "new"


def test_states_of_earlier_generations_end() -> None:
    registrar = Registrar("g1", "g2")
    registrar.run(row("devices", "u", 50, device(1, "a")), row("devices", "r", 4, device(1, "b"), generation="g2"))
    Registrar("g2", before=registrar).run(row("devices", "u", 5, device(1, "c"), generation="g2"))
    assert registrar.states.stored["1"].by_generation.keys() == {"g2"}


@pytest.mark.parametrize("unknown", ["g1", "g2"])
def test_state_stays_while_its_order_is_unknown(unknown: str) -> None:
    registrar = Registrar("g1", "g2")
    registrar.run(row("devices", "u", 50, device(1, "a")))
    del registrar.created.times[unknown]
    Registrar("g2", before=registrar).run(row("devices", "r", 4, device(1, "b"), generation="g2"))
    assert registrar.states.stored["1"].by_generation.keys() == {"g1", "g2"}


def test_concurrent_change_of_a_state_redelivers_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    registrar = Registrar("g1", "g2")
    register = registrar.endpoints.register

    def registered_meanwhile(platform: str, token: str) -> str:
        monkeypatch.undo()
        Registrar("g1", before=registrar).run(row("devices", "u", 50, device(1, "a")))
        return register(platform, token)

    monkeypatch.setattr(registrar.endpoints, "register", registered_meanwhile)
    changed = row("devices", "r", 4, device(1, "b"), generation="g2")
    assert registrar.run(changed) == [changed.offset]
    assert registrar.run(changed) == []
    assert (registrar.state("1", "g1").token, registrar.state("1", "g2").token) == ("a", "b")


def test_transaction_open_at_the_snapshot_wins() -> None:
    """Debezium streams a transaction that was open at the snapshot with a lower LSN (docs/decisions/085)."""
    registrar = Registrar("g1", "g2")
    registrar.run(row("devices", "u", 50, device(1, "old")))
    registrar.run(row("devices", "r", 90, device(1, "old"), generation="g2"))
    registrar.run(row("devices", "u", 80, device(1, "new"), generation="g2"))
    registrar.run(row("devices", "u", 85, device(1, "newer"), generation="g2"))
    registrar.run(row("devices", "r", 90, device(1, "old"), generation="g2"))
    assert registrar.state("1", "g2").token == "newer"


def test_a_new_snapshot_does_not_try_a_dead_token_again() -> None:
    registrar = Registrar("g1", "g2")
    registrar.states.stored["1"] = _stored_state(50, "takes_nothing")
    assert registrar.run(row("devices", "r", 4, device(1, "a"), generation="g2")) == []
    assert registrar.take_calls() == []
    assert not registrar.state("1", "g2").enabled


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
