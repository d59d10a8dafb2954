"""The tests that every store of controls must pass, in memory and real."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from masscomm.domain.send_controls import SendControl, SendKey
from masscomm.stores.send_controls import (
    AcceptedSend,
    Cancellation,
    NamedSend,
    OtherSend,
    Part,
    SendControls,
    change,
    place_part,
)

NOW = 1_700_000_000_500
SEND = SendKey(7, "8a6e0804-2bd0-4672-b79d-d97027f9071a")
NAMED = AcceptedSend(
    send=SEND,
    accepted_at_ms=NOW,
    type="news",
    users=3,
    channels=("push",),
    content="c",
    named=NamedSend(chunk_size=50, part_count=3, parts={}),
)
# A send that its producer wrote to Kafka.
BY_KAFKA = AcceptedSend(send=SEND, accepted_at_ms=NOW, content="c", by_kafka=True)
CANCELLED = Cancellation(send=SEND, requested_at_ms=NOW, published_before=3)


def _cancelled(controls: SendControls, sends: Iterable[SendKey]) -> set[SendKey]:
    return {send for send, control in controls.read(sends).items() if control.cancelled}


class SendControlsContract:
    """Subclasses define the fixture `controls`, an empty store."""

    def test_first_cancellation_is_kept(self, controls: SendControls) -> None:
        assert controls.find(SEND) is None
        assert controls.record(CANCELLED) == CANCELLED
        assert controls.record(replace(CANCELLED, requested_at_ms=NOW + 1, published_before=9)) == CANCELLED
        assert controls.find(SEND) == CANCELLED

    def test_cancelled_sends_are_found_among_others(self, controls: SendControls) -> None:
        """150 sends need more than one read of DynamoDB."""
        sends = [SendKey(7, f"s-{number}") for number in range(150)]
        for each in sends[::30]:
            controls.record(replace(CANCELLED, send=each))
        assert _cancelled(controls, sends) == set(sends[::30])
        assert _cancelled(controls, []) == set()

    @pytest.mark.guarantee("cancelling.only_the_tenants_own_send")
    @pytest.mark.kills(guard="cancellations.tenants_send")
    def test_another_tenants_send_is_not_cancelled(self, controls: SendControls) -> None:
        """Two tenants may use the same id, and club 7 with id "7x" is not club 77 with id "x"."""
        controls.record(CANCELLED)
        others = [SendKey(8, SEND.send_id), SendKey(77, SEND.send_id), SendKey(7, f"{SEND.send_id}0")]
        assert _cancelled(controls, [SEND, *others]) == {SEND}
        assert [controls.find(other) for other in others] == [None] * 3

    @pytest.mark.kills(guard="cancellations.hostile_send_id")
    @pytest.mark.parametrize("send_id", ["", "i" * 3_000, "a#b", "a\n"], ids=["empty", "long", "sign", "line"])
    def test_an_id_that_no_send_has_hides_no_other(self, controls: SendControls, send_id: str) -> None:
        """Any producer can write an id that is no valid key; the other records of its batch must be processed."""
        controls.record(CANCELLED)
        assert _cancelled(controls, [SendKey(7, send_id), SEND]) == {SEND}
        assert controls.find(SendKey(7, send_id)) is None
        assert controls.read([SendKey(7, send_id)]) == {SendKey(7, send_id): SendControl(send=SendKey(7, send_id))}

    def test_a_control_has_every_field_again(self, controls: SendControls) -> None:
        assert controls.read([SEND]) == {SEND: SendControl(send=SEND)}
        paused = SendControl(send=SEND, paused_at_ms=NOW, resumed_at_ms=NOW - 1, send_at_ms=NOW + 1, revision=1)
        assert controls.replace(paused, now_ms=NOW)
        assert controls.read([SEND, SendKey(8, SEND.send_id)]) == {
            SEND: paused,
            SendKey(8, SEND.send_id): SendControl(send=SendKey(8, SEND.send_id)),
        }
        controls.record(CANCELLED)
        assert controls.read([SEND])[SEND] == replace(paused, cancelled=True)

    @pytest.mark.kills(guard="send_controls.previous_revision")
    def test_of_concurrent_changes_one_is_stored(self, controls: SendControls) -> None:
        first = SendControl(send=SEND, paused_at_ms=NOW, revision=1)
        assert controls.replace(first, now_ms=NOW)
        assert not controls.replace(replace(first, paused_at_ms=NOW + 1), now_ms=NOW)
        resumed = replace(first, paused_at_ms=None, resumed_at_ms=NOW + 2, revision=2)
        assert controls.replace(resumed, now_ms=NOW)
        assert not controls.replace(replace(resumed, send_at_ms=NOW + 3), now_ms=NOW)
        assert controls.read([SEND])[SEND] == resumed

    def test_a_change_continues_from_the_stored_control(self, controls: SendControls) -> None:
        paused = change(controls, SEND, lambda stored: replace(stored, paused_at_ms=NOW), now_ms=NOW)
        assert change(controls, SEND, lambda stored: stored, now_ms=NOW) == paused
        moved = change(controls, SEND, lambda stored: replace(stored, send_at_ms=NOW), now_ms=NOW)
        assert moved == replace(paused, send_at_ms=NOW, revision=2)

    def test_an_accepted_send_is_found_by_its_id(self, controls: SendControls) -> None:
        """Another tenant's send with the same id does not replace it."""
        accepted = AcceptedSend(
            send=SEND, accepted_at_ms=NOW, send_at_ms=NOW + 5, expires_at_ms=NOW + 9, reference="order-1", is_test=True
        )
        controls.accept([accepted])
        of_audience = AcceptedSend(
            send=SendKey(7, "audience"), accepted_at_ms=NOW, send_at_local="2026-11-24T09:00", type="news"
        )
        controls.accept([of_audience])
        assert controls.accepted("audience") == of_audience
        controls.accept([AcceptedSend(send=SendKey(8, SEND.send_id), accepted_at_ms=NOW)])
        assert controls.accepted(SEND.send_id) == accepted
        assert controls.accepted("unknown") is None

    def test_many_accepted_sends_are_recorded_once_each(self, controls: SendControls) -> None:
        """Those that are recorded before, by an interrupted attempt, stay as they are."""
        sends = [
            AcceptedSend(
                send=SendKey(7, f"s{number}"), accepted_at_ms=NOW, type="news", users=number, channels=("push", "email")
            )
            for number in range(250)
        ]
        controls.accept(sends[50:60])
        controls.accept([replace(each, accepted_at_ms=NOW + 1) for each in sends])
        found = [controls.accepted(each.send.send_id) for each in sends]
        later = [replace(each, accepted_at_ms=NOW + 1) for each in sends]
        assert found == [*later[:50], *sends[50:60], *later[60:]]
        controls.accept([])

    def test_an_accepted_send_is_no_control(self, controls: SendControls) -> None:
        controls.accept([AcceptedSend(send=SEND, accepted_at_ms=NOW)])
        assert controls.read([SEND]) == {SEND: SendControl(send=SEND)}

    @pytest.mark.kills(guard="named_sends.whole_with_its_last_part")
    def test_parts_of_a_send_follow_one_another(self, controls: SendControls) -> None:
        """They may arrive in any order. Until the last one, the send has more records than are known."""
        placed = [place_part(controls, NAMED, index, f"d{index}", lambda size: size // 10)[1] for index in (2, 0, 1)]
        assert placed == [Part("d2", 0, 5, 6), Part("d0", 5, 5, 11), Part("d1", 10, 5, 15)]
        later = replace(NAMED, accepted_at_ms=NOW + 1)
        stored, again = place_part(controls, later, 2, "d2", lambda _: 9)
        assert (stored.accepted_at_ms, again) == (NOW, placed[0])
        assert controls.accepted(SEND.send_id) == stored

    def test_the_parts_of_a_send_add_up_to_its_users(self, controls: SendControls) -> None:
        """An interrupted request may have registered the send without its part."""
        controls.register(replace(NAMED, users=8))
        for index, users in ((1, 8), (0, 2), (0, 2)):
            place_part(controls, replace(NAMED, users=users), index, f"d{index}", lambda _: 1)
        found = controls.accepted(SEND.send_id)
        assert found is not None
        assert found.users == 10

    @pytest.mark.kills(guard="named_sends.concurrent_parts")
    def test_of_concurrent_parts_one_is_stored(self, controls: SendControls) -> None:
        stored = controls.register(NAMED)
        assert stored == NAMED == controls.register(replace(NAMED, accepted_at_ms=NOW + 1))
        assert controls.add_part(stored, 0, Part("d0", 0, 5, 6), users=3)
        assert not controls.add_part(stored, 1, Part("d1", 0, 5, 6), users=3)
        found = controls.register(NAMED)
        assert controls.add_part(found, 1, Part("d1", 5, 5, 11), users=6)

    @pytest.mark.kills(guard="named_sends.other_content")
    @pytest.mark.parametrize("other", [{"expires_at_ms": NOW}, {"part_count": 2}])
    def test_other_content_under_a_sends_id_is_refused(self, controls: SendControls, other: dict[str, Any]) -> None:
        assert NAMED.named is not None
        place_part(controls, NAMED, 0, "d0", lambda _: 1)
        asked: dict[str, Any] = {"named": replace(NAMED.named, **other)} if "part_count" in other else other
        with pytest.raises(OtherSend):
            place_part(controls, replace(NAMED, **asked), 1, "d1", lambda _: 1)
        assert place_part(controls, NAMED, 1, "d1", lambda _: 1)[1].first_chunk == 1

    @pytest.mark.kills(guard="named_sends.content_of_chunks")
    def test_another_content_of_the_records_is_refused(self, controls: SendControls) -> None:
        """Of the send of an earlier version, the content is not known."""
        place_part(controls, NAMED, 0, "d0", lambda _: 1)
        with pytest.raises(OtherSend):
            place_part(controls, replace(NAMED, content="d"), 1, "d1", lambda _: 1)
        earlier = replace(NAMED, send=SendKey(7, "earlier"), content=None)
        place_part(controls, earlier, 0, "d0", lambda _: 1)
        assert place_part(controls, replace(earlier, content="d"), 1, "d1", lambda _: 1)[1].first_chunk == 1

    def test_a_send_by_kafka_is_read_with_the_controls(self, controls: SendControls) -> None:
        assert controls.register(BY_KAFKA) == BY_KAFKA
        assert controls.register(replace(BY_KAFKA, content="d")) == BY_KAFKA
        controls.record(CANCELLED)
        found, registered = controls.read_with_registered([SEND], [SEND.send_id, "unknown"])
        assert found == {SEND: SendControl(send=SEND, cancelled=True)}
        assert registered == {SEND.send_id: BY_KAFKA}
        assert (controls.registered(SEND.send_id), controls.accepted(SEND.send_id)) == (BY_KAFKA, None)
        with pytest.raises(OtherSend):
            place_part(controls, NAMED, 0, "d0", lambda _: 1)

    def test_many_controls_and_sends_are_read(self, controls: SendControls) -> None:
        """150 sends with two keys each and 150 ids need more than one read of DynamoDB."""
        sends = [SendKey(7, f"s-{number}") for number in range(150)]
        for each in sends[::30]:
            controls.register(replace(BY_KAFKA, send=each))
        found, registered = controls.read_with_registered(sends, [each.send_id for each in sends])
        assert (set(found), set(registered)) == (set(sends), {each.send_id for each in sends[::30]})

    @pytest.mark.kills(guard="named_sends.other_recipients")
    def test_other_recipients_of_a_part_are_refused(self, controls: SendControls) -> None:
        place_part(controls, NAMED, 0, "d0", lambda _: 1)
        with pytest.raises(OtherSend):
            place_part(controls, NAMED, 0, "d1", lambda _: 1)

    @pytest.mark.kills(guard="named_sends.other_send")
    def test_the_id_of_another_send_is_refused(self, controls: SendControls) -> None:
        """That of another tenant, and one that the service made: records of both would have the same ids."""
        place_part(controls, NAMED, 0, "d0", lambda _: 1)
        with pytest.raises(OtherSend):
            place_part(controls, replace(NAMED, send=SendKey(8, SEND.send_id)), 0, "d0", lambda _: 1)
        with pytest.raises(OtherSend):
            place_part(controls, replace(NAMED, is_test=True), 0, "d0", lambda _: 1)
        made = SendKey(7, "made")
        controls.accept([AcceptedSend(send=made, accepted_at_ms=NOW, type="news", users=1)])
        with pytest.raises(OtherSend):
            place_part(controls, replace(NAMED, send=made), 0, "d0", lambda _: 1)
