"""The tests that every register of sends must pass, in memory and real."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from masscomm.clock import FixedClock
from masscomm.domain.fallbacks import NO_STATE, Verdict
from masscomm.domain.kept_messages import MAX_MESSAGE_BYTES, KeptMessage
from masscomm.domain.pace import PaceBook
from masscomm.domain.sends import Expansion, Part, Parts, Send, SendControl, SendKey, Source, controlled
from masscomm.domain.statuses import Status
from masscomm.domain.time_limits import (
    CONTROLLED_SENDS_KEPT_S,
    FALLBACKS_KEPT_S,
    MESSAGES_KEPT_S,
    PACE_BOOKS_LONGER_S,
    REGISTERED_SENDS_KEPT_S,
)
from masscomm.stores.sends.port import (
    Announcement,
    ExpandedChunk,
    OtherSend,
    Position,
    Progress,
    Sends,
    change,
    place_part,
)

NOW = 1_700_000_000_500
KEY = SendKey(7, "8a6e0804-2bd0-4672-b79d-d97027f9071a")
SEND = Send(key=KEY, source=Source.KAFKA, requested_at_ms=NOW, content="c", recipients="r", chunks=1, type="news")
NAMED = Send(
    key=KEY,
    source=Source.REST,
    requested_at_ms=NOW,
    type="news",
    users=3,
    channels=("push",),
    content="c",
    parts=Parts(count=3, chunk_size=50),
)
AUDIENCE = Send(key=KEY, source=Source.REST, requested_at_ms=NOW, type="news", content="c", is_to_audience=True)
MESSAGE = KeptMessage(
    type="news",
    channels=("push",),
    template="t",
    locale="de-CH",
    data={"title": "Grüße"},
    push='{"badge":1}',
    user_ids=(1, 2),
)
SAYING = replace(SEND, message=MESSAGE)
ENDED = Expansion(chunks=2, users=3, requested=6, ended_at_ms=NOW)


def chunk(*user_ids: int, before: int = 0) -> ExpandedChunk:
    return ExpandedChunk(user_ids=list(user_ids), up_to=max(user_ids, default=5), users_before=before)


def _of(send_id: str, like: Send = SEND, **changes: Any) -> Send:
    key = SendKey(like.key.club_id, send_id)
    return replace(like, key=key, control=SendControl(send=key), **changes)


def _cancelled(send: Send) -> Send:
    return controlled(send, cancelled_at_ms=NOW, published_before=3)


def _register(sends: Sends, *wanted: Send) -> Sequence[Any]:
    return list(sends.register(wanted).values())


class SendsContract:
    """Subclasses define the fixture `sends`, an empty register with the clock of the fixture `clock`."""

    def test_first_send_keeps_its_id(self, sends: Sends) -> None:
        assert sends.find(KEY.send_id) is None
        assert _register(sends, SEND) == [SEND]
        assert _register(sends, replace(SEND, content="d")) == [SEND]
        assert sends.find(KEY.send_id) == SEND
        assert sends.read([KEY]) == {KEY: SEND}

    def test_each_value_of_a_send_is_read_again(self, sends: Sends) -> None:
        whole = Send(
            key=KEY,
            source=Source.REST,
            requested_at_ms=NOW,
            is_test=True,
            principal="key-1",
            content="c",
            recipients="r",
            chunks=2,
            type="news",
            users=8,
            channels=("push", "email"),
            reference="order-1",
            send_at_ms=NOW + 5,
            send_at_local="2026-11-24T09:00",
            expires_at_ms=NOW + 9,
            per_minute=7,
            spread_over_ms=60_000,
            fallbacks='[{"channel":"email","if":"not_sent","after":"10m"}]',
            parts=Parts(count=3, registered=1, chunks=2, chunk_size=50),
            is_to_audience=True,
            expansion=replace(ENDED, error="why", can_begin_again=True),
            not_kept="critical",
            control=SendControl(
                send=KEY,
                cancelled_at_ms=1,
                published_before=2,
                paused_at_ms=3,
                resumed_at_ms=4,
                send_at_ms=NOW + 5,
                per_minute=8,
                pace_revision=5,
                revision=6,
            ),
        )
        _register(sends, whole)
        assert sends.find(KEY.send_id) == whole
        assert sends.controls([KEY]) == {KEY: whole.control}

    def test_many_sends_are_registered_once_each(self, sends: Sends) -> None:
        """250 sends need several transactions and reads; those that an interrupted attempt recorded stay."""
        first = [_of(f"s{number}", users=number) for number in range(250)]
        later = [replace(each, content="d") for each in first]
        _register(sends, *first[50:60])
        expected = [*later[:50], *first[50:60], *later[60:]]
        assert _register(sends, *later) == expected
        found = sends.read([each.key for each in first])
        assert [found[each.key] for each in first] == expected
        assert sends.register([]) == {}

    @pytest.mark.guarantee("cancelling.only_the_tenants_own_send")
    @pytest.mark.kills(guard="tenancy.registered_send")
    def test_id_of_another_tenant_is_absent(self, sends: Sends) -> None:
        _register(sends, SEND)
        assert change(sends, SEND, _cancelled).control.cancelled
        others = [SendKey(8, KEY.send_id), SendKey(7, f"{KEY.send_id}0")]
        assert list(sends.read([*others, KEY])) == [KEY]
        assert [each.cancelled for each in sends.controls(others).values()] == [False, False]
        taken = replace(SEND, key=others[0], control=SendControl(send=others[0]))
        assert _register(sends, taken)[0].key == KEY
        assert not sends.change(_cancelled(taken), taken)

    @pytest.mark.kills(guard="sends.hostile_send_id")
    @pytest.mark.parametrize("send_id", ["", "i" * 3_000, "a#b", "a\n", "#changed"])
    def test_hostile_id_hides_no_other_send(self, sends: Sends, send_id: str) -> None:
        _register(sends, SEND)
        hostile = SendKey(7, send_id)
        assert sends.read([hostile, KEY]) == {KEY: SEND}
        assert sends.controls([hostile]) == {hostile: SendControl(send=hostile)}
        assert sends.find(send_id) is None

    @pytest.mark.kills(guard="sends.expired_item")
    def test_expired_send_is_absent(self, sends: Sends, clock: FixedClock) -> None:
        _register(sends, SEND)
        clock.advance(REGISTERED_SENDS_KEPT_S - 1)
        assert _register(sends, replace(SEND, content="d")) == [SEND]
        clock.advance(2)
        assert (sends.find(KEY.send_id), sends.read([KEY])) == (None, {})
        later = replace(SEND, content="d", requested_at_ms=clock.now_ms())
        assert _register(sends, later) == [later]

    @pytest.mark.parametrize("name", ["send_at_ms", "expires_at_ms", "requested_at_ms"])
    def test_send_is_kept_after_its_latest_time(self, sends: Sends, clock: FixedClock, name: str) -> None:
        changes: Any = {name: NOW + 86_400_000}
        _register(sends, replace(SEND, **changes))
        clock.advance(REGISTERED_SENDS_KEPT_S + 86_000)
        assert sends.find(KEY.send_id) is not None

    def test_controlled_send_outlives_a_year(self, sends: Sends, clock: FixedClock) -> None:
        _register(sends, SEND)
        change(sends, SEND, _cancelled)
        clock.advance(CONTROLLED_SENDS_KEPT_S - 1)
        assert sends.controls([KEY])[KEY].cancelled

    @pytest.mark.kills(guard="send_controls.previous_revision")
    def test_one_of_concurrent_changes_is_stored(self, sends: Sends) -> None:
        _register(sends, SEND)
        paused = controlled(SEND, paused_at_ms=NOW)
        assert sends.change(paused, SEND)
        assert not sends.change(controlled(SEND, paused_at_ms=NOW + 1), SEND)
        resumed = controlled(paused, paused_at_ms=None, resumed_at_ms=NOW + 2)
        assert sends.change(resumed, paused)
        assert not sends.change(controlled(paused, send_at_ms=NOW), paused)
        assert sends.find(KEY.send_id) == resumed

    def test_change_continues_from_the_stored_send(self, sends: Sends) -> None:
        _register(sends, SEND)
        change(sends, SEND, lambda send: controlled(send, paused_at_ms=NOW))
        moved = change(sends, SEND, lambda send: controlled(send, send_at_ms=NOW))
        assert (moved.control.paused_at_ms, moved.control.revision) == (NOW, 2)
        assert change(sends, SEND, lambda send: send) == SEND

    def test_send_without_an_item_is_controlled(self, sends: Sends) -> None:
        """Metrics know a send longer than the register. A record of it that comes later does not change the control."""
        unknown = Send(key=KEY)
        cancelled = change(sends, unknown, _cancelled)
        assert sends.find(KEY.send_id) == cancelled
        assert _register(sends, SEND) == [cancelled]
        assert cancelled.is_same(SEND)

    @pytest.mark.kills(guard="webhooks.changed_again")
    def test_changed_send_is_announced_until_forgotten(self, sends: Sends, clock: FixedClock) -> None:
        _register(sends, SEND, _of("t", AUDIENCE))
        assert list(sends.announced()) == []
        paused = change(sends, SEND, lambda send: controlled(send, paused_at_ms=NOW))
        audience = _of("t", AUDIENCE)
        assert sends.end_expansion(replace(audience, expansion=ENDED), audience)
        found = list(sends.announced())
        assert found == [Announcement(KEY, NOW), Announcement(audience.key, NOW)]
        sends.forget(found[1])
        clock.advance(1)
        change(sends, paused, _cancelled)
        sends.forget(found[0])
        assert list(sends.announced()) == [Announcement(KEY, NOW + 1_000)]
        sends.announce(audience.key)
        assert len(list(sends.announced())) == 2

    def test_position_is_stored(self, sends: Sends) -> None:
        assert sends.position() is None
        for position in (Position(5, ""), Position(2**62, "a/b")):
            sends.move(position)
            assert sends.position() == position
        assert list(sends.announced()) == []

    # --- messages -----------------------------------------------------------------------------------------------------

    def test_message_is_stored_with_its_send(self, sends: Sends) -> None:
        assert sends.message(KEY) is None
        other = _of("t", message=replace(MESSAGE, template=None, locale=None, user_ids=()))
        _register(sends, SAYING, other, _of("u"))
        assert [sends.message(each) for each in (KEY, other.key, SendKey(7, "u"))] == [MESSAGE, other.message, None]
        assert sends.find(KEY.send_id) == SEND
        assert sends.read([KEY])[KEY].message is None

    def test_repeated_request_writes_no_other_message(self, sends: Sends) -> None:
        """Nor does one that lost its send's registration to another writer, alone or in a transaction of several."""
        _register(sends, SAYING)
        again = replace(SAYING, content="d", message=replace(MESSAGE, data={"title": "other"}))
        for wanted in ([again], [again, _of("t", SAYING)]):
            assert _register(sends, *wanted)[0] == SEND
            assert sends.message(KEY) == MESSAGE
        assert sends.message(SendKey(7, "t")) == MESSAGE

    def test_100_messages_are_registered_once_each(self, sends: Sends) -> None:
        """A transaction has 100 items: 50 sends with their messages."""
        wanted = [_of(f"s{number}", SAYING) for number in range(100)]
        _register(sends, *wanted[20:30])
        assert _register(sends, *wanted) == wanted
        assert [sends.message(each.key) for each in wanted] == [MESSAGE] * 100

    @pytest.mark.kills(guard="tenancy.kept_message")
    def test_message_of_another_tenant_is_absent(self, sends: Sends) -> None:
        _register(sends, SAYING)
        assert sends.message(SendKey(8, KEY.send_id)) is None
        assert sends.message(SendKey(7, "a#b")) is None

    @pytest.mark.kills(guard="sends.expired_message")
    @pytest.mark.parametrize("later_s", [0, 86_400])
    def test_message_is_absent_30_days_after_the_send(self, sends: Sends, clock: FixedClock, later_s: int) -> None:
        _register(sends, replace(SAYING, send_at_ms=NOW + later_s * 1_000 if later_s else None))
        clock.advance(later_s + MESSAGES_KEPT_S - 1)
        assert sends.find(KEY.send_id) is None
        assert sends.message(KEY) == MESSAGE
        clock.advance(2)
        assert sends.message(KEY) is None

    def test_largest_message_fits_an_item(self, sends: Sends) -> None:
        characters = Random(1)  # noqa: S311 - a reproducible text
        text = "".join(chr(characters.randrange(0x4E00, 0x9FFF)) for _ in range(MAX_MESSAGE_BYTES // 3 - 1))
        controls = "".join(chr(characters.randrange(1, 32)) for _ in range(MAX_MESSAGE_BYTES - 1))
        for send_id, value in (("u", text), ("v", controls)):
            large = _of(send_id, message=replace(MESSAGE, data={"t": value}))
            assert _register(sends, large, _of(f"{send_id}2")) == [large, _of(f"{send_id}2")]
            assert sends.message(large.key) == large.message

    def test_message_of_a_send_in_parts_comes_with_the_first(self, sends: Sends) -> None:
        saying = replace(NAMED, message=MESSAGE)
        place_part(sends, saying, 1, "d1", lambda _: 1)
        assert sends.message(KEY) == MESSAGE
        place_part(sends, replace(saying, message=replace(MESSAGE, data={})), 0, "d0", lambda _: 1)
        assert sends.message(KEY) == MESSAGE

    # --- parts --------------------------------------------------------------------------------------------------------

    @pytest.mark.kills(guard="named_sends.whole_with_its_last_part")
    def test_parts_follow_one_another_in_any_order(self, sends: Sends) -> None:
        placed = [place_part(sends, NAMED, index, f"d{index}", lambda size: size // 10)[1] for index in (2, 0, 1)]
        assert placed == [Part("d2", 0, 5, 6), Part("d0", 5, 5, 11), Part("d1", 10, 5, 15)]
        stored, again = place_part(sends, replace(NAMED, requested_at_ms=NOW + 1), 2, "d2", lambda _: 9)
        assert (stored.requested_at_ms, stored.chunks, stored.users, again) == (NOW, 15, 9, placed[0])

    def test_produced_part_is_marked(self, sends: Sends) -> None:
        send, _ = place_part(sends, NAMED, 0, "d0", lambda _: 1)
        place_part(sends, NAMED, 1, "d1", lambda _: 1)
        sends.mark_produced(send, 0)
        parts = [sends.part(KEY.send_id, index) for index in range(3)]
        assert [None if part is None else part.is_produced for part in parts] == [True, False, None]

    @pytest.mark.kills(guard="named_sends.concurrent_parts")
    def test_one_of_concurrent_parts_is_stored(self, sends: Sends) -> None:
        first = replace(NAMED, parts=Parts(count=3, chunk_size=50, registered=1, chunks=5))
        assert sends.add_part(first, None, 0, Part("d0", 0, 5, 6))
        assert not sends.add_part(first, None, 1, Part("d1", 0, 5, 6))
        second = replace(first, parts=Parts(count=3, chunk_size=50, registered=2, chunks=10))
        assert sends.add_part(second, first, 1, Part("d1", 5, 5, 11))
        assert not sends.add_part(second, first, 2, Part("d2", 5, 5, 11))
        assert sends.find(KEY.send_id) == second

    @pytest.mark.kills(guard="named_sends.other_content")
    @pytest.mark.kills(guard="sends.same_send")
    @pytest.mark.kills(guard="named_sends.other_send")
    @pytest.mark.parametrize(
        "other",
        [
            {"expires_at_ms": NOW},
            {"parts": Parts(count=2, chunk_size=50)},
            {"content": "d"},
            {"is_test": True},
            {"source": Source.KAFKA},
            {"key": SendKey(8, KEY.send_id)},
        ],
        ids=lambda other: next(iter(other)),
    )
    def test_other_send_under_the_id_is_refused(self, sends: Sends, other: dict[str, Any]) -> None:
        place_part(sends, NAMED, 0, "d0", lambda _: 1)
        with pytest.raises(OtherSend):
            place_part(sends, replace(NAMED, **other), 1, "d1", lambda _: 1)
        assert place_part(sends, NAMED, 1, "d1", lambda _: 1)[1].first_chunk == 1

    @pytest.mark.kills(guard="named_sends.other_recipients")
    def test_other_recipients_of_a_part_are_refused(self, sends: Sends) -> None:
        place_part(sends, NAMED, 0, "d0", lambda _: 1)
        with pytest.raises(OtherSend):
            place_part(sends, NAMED, 0, "d1", lambda _: 1)

    def test_id_that_the_service_made_is_refused(self, sends: Sends) -> None:
        _register(sends, replace(NAMED, parts=None))
        with pytest.raises(OtherSend):
            place_part(sends, NAMED, 0, "d0", lambda _: 1)

    # --- audiences ----------------------------------------------------------------------------------------------------

    def test_recorded_chunks_are_read_in_order(self, sends: Sends) -> None:
        assert sends.last(KEY.send_id) is None
        chunks = [chunk(1, 2, 9), chunk(before=3), chunk(2**62, 2**63 - 1, before=3)]
        for index, each in enumerate(chunks):
            assert sends.record(AUDIENCE, index, each) == each
            assert sends.last(KEY.send_id) == (index, each)
        assert list(sends.chunks(KEY.send_id, 0, 3)) == chunks
        assert list(sends.chunks(KEY.send_id, 1, 2)) == [chunks[1]]
        assert sends.last("other") is None

    @pytest.mark.kills(guard="audiences.recorded_chunk")
    def test_first_chunk_of_an_index_is_kept(self, sends: Sends) -> None:
        with ThreadPoolExecutor(8) as pool:
            stored = list(pool.map(lambda number: sends.record(AUDIENCE, 0, chunk(number)), range(1, 9)))
        assert all(each == stored[0] for each in stored)
        assert list(sends.chunks(KEY.send_id, 0, 1)) == stored[:1]

    def test_chunks_with_users_are_counted(self, sends: Sends) -> None:
        """Those after the end belong to another invocation, which read the directory at another time."""
        chunks = [chunk(), chunk(1, 2), chunk(before=2), chunk(3, before=2), chunk(4, before=3)]
        for index, each in enumerate(chunks):
            sends.record(AUDIENCE, index, each)
        counted = [
            sends.records(KEY.send_id, replace(ENDED, chunks=end, users=chunks[end - 1].users)) for end in range(1, 6)
        ]
        assert counted == [0, 1, 1, 2, 3]

    def test_largest_chunk_fits_into_an_item(self, sends: Sends) -> None:
        step = 2**63 // 5_001
        largest = chunk(*(step * number + number * number % 9_973 for number in range(1, 5_001)))
        sends.record(AUDIENCE, 0, largest)
        assert sends.last(KEY.send_id) == (0, largest)

    def test_latest_progress_is_read(self, sends: Sends) -> None:
        assert sends.progress(KEY.send_id) == Progress()
        for progress in (Progress(share=1), Progress(share=1, chunks=51, records=50, record_count=90)):
            sends.advance(AUDIENCE, progress)
            assert sends.progress(KEY.send_id) == progress
        assert sends.progress("other") == Progress()

    def test_first_end_of_an_expansion_is_kept(self, sends: Sends) -> None:
        _register(sends, AUDIENCE)
        ended = replace(AUDIENCE, expansion=ENDED)
        assert sends.end_expansion(ended, AUDIENCE)
        assert not sends.end_expansion(replace(AUDIENCE, expansion=replace(ENDED, users=9)), AUDIENCE)
        assert sends.find(KEY.send_id) == ended
        assert sends.end_expansion(AUDIENCE, ended)
        assert sends.find(KEY.send_id) == AUDIENCE

    # --- pace ---------------------------------------------------------------------------------------------------------

    def test_state_of_a_pace_is_read_again(self, sends: Sends) -> None:
        assert sends.pace(KEY) == PaceBook()
        book = PaceBook(minute=1, released=2, planned_minute=3, planned=4, limit=5, pace_revision=6)
        assert sends.set_pace(SEND, book, PaceBook())
        assert sends.pace(KEY) == replace(book, revision=1)
        assert sends.set_pace(SEND, replace(book, released=3), replace(book, revision=1))
        assert sends.pace(KEY) == replace(book, released=3, revision=2)
        assert sends.find(KEY.send_id) is None

    @pytest.mark.kills(guard="sends.changed_meanwhile")
    def test_state_of_a_pace_that_changed_meanwhile_is_kept(self, sends: Sends) -> None:
        book = PaceBook(minute=1, released=2)
        assert sends.set_pace(SEND, book, PaceBook())
        assert not sends.set_pace(SEND, replace(book, released=9), PaceBook())
        assert sends.set_pace(SEND, book, replace(book, revision=1))
        assert not sends.set_pace(SEND, replace(book, released=9), replace(book, revision=1))
        assert sends.pace(KEY) == replace(book, revision=2)

    def test_state_of_a_pace_is_its_tenants(self, sends: Sends) -> None:
        assert sends.set_pace(SEND, PaceBook(minute=1), PaceBook())
        other = SendKey(KEY.club_id + 1, KEY.send_id)
        assert sends.pace(other) == PaceBook()
        assert not sends.set_pace(Send(key=other), PaceBook(minute=2), PaceBook())

    def test_state_of_a_pace_outlives_its_send(self, sends: Sends, clock: FixedClock) -> None:
        assert sends.set_pace(SEND, PaceBook(minute=1), PaceBook())
        clock.advance(REGISTERED_SENDS_KEPT_S + PACE_BOOKS_LONGER_S - 1)
        assert sends.pace(KEY).minute == 1
        clock.advance(2)
        assert sends.pace(KEY) == PaceBook()
        assert sends.set_pace(SEND, PaceBook(minute=2), PaceBook())

    # --- fallbacks ----------------------------------------------------------------------------------------------------

    def test_state_of_fallbacks_is_read_again(self, sends: Sends) -> None:
        assert sends.fallback(KEY, "f") == NO_STATE
        state = NO_STATE.with_statuses({0: Status.SENT, 1: Status.FAILED, 499: Status.FAILED})
        assert sends.set_fallback(KEY, "f", state)
        assert sends.fallback(KEY, "f") == replace(state, revision=1)
        decided = replace(state, revision=1).deciding("o", {1: Verdict.GOES, 0: Verdict.NOT_NEEDED})
        assert sends.set_fallback(KEY, "f", decided)
        assert sends.fallback(KEY, "f") == replace(decided, revision=2)
        assert (sends.fallback(KEY, "g"), sends.find(KEY.send_id)) == (NO_STATE, None)

    @pytest.mark.kills(guard="sends.changed_meanwhile")
    def test_state_of_fallbacks_that_changed_meanwhile_is_kept(self, sends: Sends) -> None:
        state = NO_STATE.with_statuses({0: Status.SENT})
        assert sends.set_fallback(KEY, "f", state)
        assert not sends.set_fallback(KEY, "f", NO_STATE)
        assert sends.set_fallback(KEY, "f", replace(state, revision=1))
        assert not sends.set_fallback(KEY, "f", replace(NO_STATE, revision=1))
        assert sends.fallback(KEY, "f") == replace(state, revision=2)

    def test_state_of_fallbacks_is_its_tenants(self, sends: Sends) -> None:
        assert sends.set_fallback(KEY, "f", NO_STATE.with_statuses({0: Status.SENT}))
        other = SendKey(KEY.club_id + 1, KEY.send_id)
        assert sends.fallback(other, "f") == NO_STATE
        assert not sends.set_fallback(other, "f", NO_STATE.with_statuses({0: Status.FAILED}))

    def test_state_of_fallbacks_expires(self, sends: Sends, clock: FixedClock) -> None:
        assert sends.set_fallback(KEY, "f", NO_STATE.with_statuses({0: Status.SENT}))
        clock.advance(FALLBACKS_KEPT_S - 1)
        assert sends.fallback(KEY, "f").statuses == {0: Status.SENT}
        clock.advance(2)
        assert sends.fallback(KEY, "f") == NO_STATE
        assert sends.set_fallback(KEY, "f", NO_STATE.with_statuses({0: Status.FAILED}))

    def test_changed_control_has_a_pace(self, sends: Sends) -> None:
        _register(sends, SEND)
        paced = change(sends, SEND, lambda send: controlled(send, per_minute=9, pace_revision=1))
        assert sends.find(KEY.send_id) == paced
        again = change(sends, paced, lambda send: controlled(send, per_minute=3, pace_revision=2))
        assert sends.controls([KEY]) == {KEY: again.control}

    # --- the list -----------------------------------------------------------------------------------------------------

    def test_listed_sends_of_a_club_come_latest_first(self, sends: Sends) -> None:
        day_ms = 86_400_000
        audience, large = _of("a", AUDIENCE), _of("l", users=101, requested_at_ms=NOW + 1)
        scheduled = _of("t", send_at_ms=NOW + 9, requested_at_ms=NOW - day_ms)
        controlled_later, small = _of("c", requested_at_ms=NOW - 3 * day_ms), _of("s")
        other = replace(_of("o", AUDIENCE), key=SendKey(8, "o"), control=SendControl(send=SendKey(8, "o")))
        _register(sends, audience, large, scheduled, controlled_later, small, other)
        paused = change(sends, controlled_later, lambda send: controlled(send, paused_at_ms=NOW))
        everything = list(sends.listed(7, start_ms=NOW - 9 * day_ms, before_ms=NOW + 2))
        assert everything == [large, audience, scheduled, paused]
        assert list(sends.listed(7, start_ms=NOW, before_ms=NOW + 1)) == [audience]
