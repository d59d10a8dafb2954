"""Cancel, pause, resume and move a send over HTTP."""

from typing import Any

import pytest

from masscomm.domain.pace import PaceBook
from masscomm.domain.sends import Send, SendControl, SendKey, Source
from masscomm.domain.time_limits import PAUSE_LIMIT_S
from masscomm.errors import Retry
from masscomm.http.parameters import time_of_ms
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from tests.support.contracts.delay_store import delayed_record
from tests.support.harness.control_api import OWN, ControlApi

KEY, NEW = SendKey(7, "s"), SendKey(7, "new")
OTHER = Clubs(frozenset({8}))
AT = "2023-11-14T22:13:20Z"
HOUR = 3_600_000
FALLBACKS = '[{"channel":"email","if":"not_sent","after":"10m"}]'


@pytest.fixture
def api() -> ControlApi:
    return ControlApi()


def accept(api: ControlApi, key: SendKey = NEW, source: Source = Source.REST, **values: Any) -> None:
    """Register a send, by default `new`, which metrics have not counted."""
    api.register.put(Send(key=key, source=source, requested_at_ms=api.clock.now_ms(), **values))


def control_of(api: ControlApi, key: SendKey) -> SendControl:
    return api.register.controls([key])[key]


def pause(api: ControlApi, send_id: str = "s", clubs: Clubs = OWN, content: str | None = None) -> Any:
    return api.pause_route.answer(send_id, {}, clubs, content)


def resume(api: ControlApi, send_id: str = "s", clubs: Clubs = OWN) -> Any:
    return api.resume_route.answer(send_id, {}, clubs, None)


def move(api: ControlApi, content: str | None, send_id: str = "new", clubs: Clubs = OWN) -> Any:
    return api.reschedule_route.answer(send_id, {}, clubs, content)


def refused(call: Any, *arguments: Any, **named: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as raised:
        call(*arguments, **named)
    return raised.value.status, raised.value.detail


def at(api: ControlApi, after_ms: int) -> str:
    """Return a body with a time, relative to now."""
    return f'{{"send_at": "{time_of_ms(api.clock.now_ms() + after_ms)}"}}'


# --- sends that are not counted yet -----------------------------------------------------------------------------------


@pytest.mark.guarantee("cancelling.accepted_send_is_cancelled")
def test_an_accepted_send_is_cancelled_before_it_is_counted(api: ControlApi) -> None:
    accept(api)
    body = api.cancel("new")
    assert (body["status"], body["published_before"]) == ("cancelling", 0)
    assert control_of(api, NEW).cancelled
    assert list(api.delay_store.changed) == [NEW]


@pytest.mark.kills(guard="tenancy.other_tenants_send")
def test_another_tenants_send_is_not_controlled(api: ControlApi) -> None:
    accept(api, send_at_ms=api.clock.now_ms() + HOUR)
    unknown = refused(api.cancel, "unknown")
    assert unknown[0] == 404
    for send_id in ("s", "new"):
        assert refused(api.cancel, send_id, clubs=OTHER) == unknown
        assert refused(pause, api, send_id, OTHER) == unknown
        assert refused(resume, api, send_id, OTHER) == unknown
        assert refused(move, api, at(api, HOUR), send_id, OTHER) == unknown
    assert (api.register.changed, api.delay_store.changed) == ({}, {})


def test_another_tenants_send_with_the_same_id_is_not_moved(api: ControlApi) -> None:
    """The counts of club 7 have the id, which club 8 has registered."""
    accept(api, key=SendKey(8, "s"), send_at_ms=api.clock.now_ms() + HOUR)
    assert refused(move, api, at(api, 2 * HOUR), "s")[0] == 404


# --- pause and resume -------------------------------------------------------------------------------------------------


def test_a_send_is_paused_and_resumed(api: ControlApi) -> None:
    body = pause(api)
    assert body == {
        "send_id": "s",
        "status": "paused",
        "paused_at": AT,
        "published_before": 40,
        "links": {"self": "/v1/sends/s"},
    }
    assert control_of(api, KEY).is_paused(api.clock.now_ms())
    assert list(api.delay_store.controlled()) == []
    # The events of webhooks see the change.
    assert list(api.register.changed) == [KEY]
    api.clock.advance(60)
    assert pause(api) == body
    assert api.send_route.answer("s", {}, OWN)["control"] == {"paused_at": AT, "resumed_at": None, "send_at": None}
    api.register.changed.clear()
    resumed = resume(api)
    assert (resumed["status"], resumed["resumed_at"]) == ("resumed", "2023-11-14T22:14:20Z")
    assert list(api.delay_store.changed) == [KEY]
    assert list(api.register.changed) == [KEY]
    api.clock.advance(60)
    assert resume(api) == resumed
    assert not control_of(api, KEY).is_paused(api.clock.now_ms())
    assert pause(api)["paused_at"] == "2023-11-14T22:15:20Z"


def test_controls_are_in_the_audit_log_once(api: ControlApi) -> None:
    accept(api, send_at_ms=api.clock.now_ms() + HOUR)
    move(api, at(api, 2 * HOUR))
    for _ in range(2):
        pause(api)
        api.clock.advance(1)
    for _ in range(2):
        resume(api)
        api.clock.advance(1)
    assert [(entry.action, entry.subject) for entry in api.audit_log.entries] == [
        ("send.moved", "new"),
        ("send.paused", "s"),
        ("send.resumed", "s"),
    ]


def test_a_send_that_was_never_paused_is_not_resumed(api: ControlApi) -> None:
    assert refused(resume, api) == (409, "The send is not paused.")


@pytest.mark.kills(guard="send_controls.pause_of_an_ended_send")
def test_an_ended_send_is_not_paused(api: ControlApi) -> None:
    api.count(sent=100)
    assert refused(pause, api)[0] == 409
    assert api.register.changed == {}


def test_a_cancelled_send_is_not_controlled_further(api: ControlApi) -> None:
    accept(api, send_at_ms=api.clock.now_ms() + HOUR)
    api.cancel()
    api.cancel("new")
    for refusal in (refused(pause, api), refused(resume, api), refused(move, api, at(api, 2 * HOUR))):
        assert refusal == (409, "The send is cancelled.")


def test_a_pause_at_its_limit_is_not_resumed(api: ControlApi) -> None:
    pause(api)
    api.clock.advance(PAUSE_LIMIT_S)
    assert refused(resume, api)[0] == 409


def test_a_paused_send_is_cancelled(api: ControlApi) -> None:
    pause(api)
    api.cancel()
    assert control_of(api, KEY).is_cancelled(api.clock.now_ms())
    assert api.delay_store.changed


@pytest.mark.parametrize("content", ["[]", '{"reason": "x"}', "{"])
def test_a_pause_with_content_is_refused(api: ControlApi, content: str) -> None:
    assert refused(pause, api, content=content)[0] == 400


def test_the_scheduler_is_informed_before_the_control_is_stored(api: ControlApi) -> None:
    """After a crash in between, no record is left in the store without a sweep."""
    pause(api)
    accept(api, send_at_ms=api.clock.now_ms() + HOUR)
    api.delay_store.failing = Retry("DynamoDB does not answer")
    with pytest.raises(Retry):
        resume(api)
    with pytest.raises(Retry):
        api.cancel()
    with pytest.raises(Retry):
        move(api, at(api, 2 * HOUR))
    control = control_of(api, KEY)
    assert (control.is_paused(api.clock.now_ms()), control.cancelled) == (True, False)
    assert control_of(api, NEW).send_at_ms is None


# --- another send_at --------------------------------------------------------------------------------------------------


def test_a_scheduled_send_is_moved(api: ControlApi) -> None:
    accept(api, send_at_ms=api.clock.now_ms() + HOUR)
    body = move(api, at(api, 3 * HOUR))
    assert (body["status"], body["send_at"]) == ("scheduled", "2023-11-15T01:13:20Z")
    assert control_of(api, NEW).send_at_ms == api.clock.now_ms() + 3 * HOUR
    assert list(api.delay_store.changed) == [NEW]
    assert move(api, at(api, HOUR // 2))["send_at"] == "2023-11-14T22:43:20Z"


@pytest.mark.parametrize("local", [None, "2023-11-15T00:13"])
def test_a_send_has_its_time_and_then_the_moved_one(api: ControlApi, local: str | None) -> None:
    """Of a send_at_local, the time on the last clocks is not its send_at. A move has one time for all."""
    accept(api, type="news", send_at_ms=api.clock.now_ms() + HOUR, send_at_local=local)

    def times() -> tuple[str | None, str | None]:
        body = api.send_route.answer("new", {}, OWN)
        return body["send_at"], body["send_at_local"]

    assert times() == (None if local else "2023-11-14T23:13:20Z", local)
    move(api, at(api, 3 * HOUR))
    assert times() == ("2023-11-15T01:13:20Z", None)
    assert api.send_route.answer("s", {}, OWN)["send_at"] is None


@pytest.mark.kills(guard="send_controls.repeated_move")
@pytest.mark.parametrize("after_s", [0, 2, 6])
def test_a_repeated_move_gets_the_same_body(api: ControlApi, after_s: int) -> None:
    """The new time is close at the repetition, or has passed."""
    accept(api, send_at_ms=api.clock.now_ms() + HOUR)
    content = at(api, 5_000)
    first = move(api, content)
    api.clock.advance(after_s)
    assert move(api, content) == first
    assert [entry.action for entry in api.audit_log.entries] == ["send.moved"]
    api.cancel("new")
    assert refused(move, api, content) == (409, "The send is cancelled.")


def test_a_scheduled_send_of_the_monolith_is_moved(api: ControlApi) -> None:
    """send_handler did not accept it; its records in the delay store have its send_at."""
    assert refused(move, api, at(api, HOUR), "s") == (409, "The send is not scheduled.")
    api.delay_store.put(delayed_record(api.clock.now_ms() + HOUR, send=KEY), api.clock.now_ms())
    assert move(api, at(api, 2 * HOUR), "s")["status"] == "scheduled"


@pytest.mark.kills(guard="send_controls.released_send")
@pytest.mark.parametrize("after_s", [3_600, 3_591])
def test_a_released_send_is_not_moved(api: ControlApi, after_s: int) -> None:
    """Another function's clock may be ahead of this one."""
    accept(api, send_at_ms=api.clock.now_ms() + HOUR)
    api.clock.advance(after_s)
    assert refused(move, api, at(api, HOUR)) == (409, "The send is released: its send_at was 2023-11-14T23:13:20Z.")


def test_a_send_without_send_at_is_not_moved(api: ControlApi) -> None:
    accept(api)
    assert refused(move, api, at(api, HOUR)) == (409, "The send is not scheduled.")


@pytest.mark.parametrize(
    "content",
    [None, "", "[]", "{}", '{"send_at": 1}', '{"send_at": "noon"}', '{"send_at": null}', '{"send_at": "2023-'],
)
def test_a_body_without_a_time_is_refused(api: ControlApi, content: str | None) -> None:
    accept(api, send_at_ms=api.clock.now_ms() + HOUR)
    assert refused(move, api, content)[0] == 400


def test_an_invalid_time_is_refused(api: ControlApi) -> None:
    now_ms = api.clock.now_ms()
    accept(api, send_at_ms=now_ms + HOUR, expires_at_ms=now_ms + 2 * HOUR)
    for after_ms in (-1_000, 0, 2 * HOUR, 400 * 24 * HOUR):
        status, detail = refused(move, api, at(api, after_ms))
        assert (status, detail.startswith("send_at: must")) == (400, True)
    extra = '{"send_at": "2023-11-14T23:13:20Z", "x": 1}'
    assert refused(move, api, extra) == (400, "x: is not a field; allowed is send_at")
    assert api.register.changed == {}


# --- pace -------------------------------------------------------------------------------------------------------------


@pytest.mark.kills(guard="pace.released_to_be_planned")
def test_pace_of_a_send_is_changed(api: ControlApi) -> None:
    accept(api, type="news", per_minute=10, users=500)
    body = move(api, '{"per_minute": 50}')
    assert (body["status"], body["send_at"], body["per_minute"]) == ("paced", None, 50)
    control = control_of(api, NEW)
    assert (control.per_minute, control.pace_revision, control.revision) == (50, 1, 1)
    assert list(api.delay_store.changed) == [NEW]
    assert move(api, '{"per_minute": 50}') == body
    pause(api, "new")
    move(api, '{"per_minute": 5}')
    assert (control_of(api, NEW).per_minute, control_of(api, NEW).pace_revision) == (5, 3)
    assert [entry.action for entry in api.audit_log.entries] == ["send.paced", "send.paused", "send.paced"]


def test_send_without_a_pace_is_refused_one(api: ControlApi) -> None:
    accept(api)
    assert refused(move, api, '{"per_minute": 5}') == (409, "The send has no pace.")
    accept(api, per_minute=10)
    api.cancel("new")
    assert refused(move, api, '{"per_minute": 5}') == (409, "The send is cancelled.")


@pytest.mark.parametrize(
    "value", ["0", "1000001", "1.5", "null", '"5"', "true", '5, "send_at": "2026-01-01T00:00:00Z"']
)
def test_invalid_pace_is_refused(api: ControlApi, value: str) -> None:
    accept(api, per_minute=10)
    assert refused(move, api, f'{{"per_minute": {value}}}')[0] == 400
    assert control_of(api, NEW).revision == 0


@pytest.mark.parametrize(
    ("fallbacks", "found"),
    [
        (FALLBACKS, [{"channel": "email", "waits_for": "push", "if": "not_sent", "after": "10m"}]),
        (None, []),
        ('[{"channel":"email","if":"of a later version","after":"10m"}]', []),
    ],
)
def test_send_shows_the_conditions_of_its_channels(api: ControlApi, fallbacks: str | None, found: Any) -> None:
    accept(api, channels=("push", "email"), fallbacks=fallbacks)
    assert api.send_route.answer("new", {}, OWN)["fallbacks"] == found


def test_send_shows_its_pace_and_its_expected_end(api: ControlApi) -> None:
    def pace() -> Any:
        return api.send_route.answer("new", {}, OWN)["pace"]

    accept(api, type="news")
    assert pace() is None
    accept(api, type="news", spread_over_ms=2 * HOUR)
    assert pace() == {"per_minute": None, "spread_over": "2h", "expected_end": "2023-11-15T00:13:20Z"}
    accept(api, type="news", per_minute=10)
    assert pace() == {"per_minute": 10, "spread_over": None, "expected_end": None}
    minute = api.clock.now_ms() // 60_000 + 5
    api.register.set_pace(Send(key=NEW), PaceBook(planned_minute=minute, planned=1), PaceBook())
    assert pace() == {"per_minute": 10, "spread_over": None, "expected_end": "2023-11-14T22:19:00Z"}
    move(api, '{"per_minute": 50}')
    assert pace() == {"per_minute": 50, "spread_over": None, "expected_end": None}
