"""The tests that every store of cancellations must pass, in memory and real."""

from dataclasses import replace

import pytest

from masscomm.stores.cancellations import Cancellation, Cancellations, SendKey

NOW = 1_700_000_000_500
SEND = SendKey(7, "8a6e0804-2bd0-4672-b79d-d97027f9071a")
CANCELLED = Cancellation(send=SEND, requested_at_ms=NOW, published_before=3)


class CancellationsContract:
    """Subclasses define the fixture `cancellations`, an empty store."""

    def test_first_cancellation_is_kept(self, cancellations: Cancellations) -> None:
        assert cancellations.find(SEND) is None
        assert cancellations.record(CANCELLED) == CANCELLED
        assert cancellations.record(replace(CANCELLED, requested_at_ms=NOW + 1, published_before=9)) == CANCELLED
        assert cancellations.find(SEND) == CANCELLED

    def test_cancelled_sends_are_found_among_others(self, cancellations: Cancellations) -> None:
        """150 sends need more than one read of DynamoDB."""
        sends = [SendKey(7, f"s-{number}") for number in range(150)]
        for each in sends[::30]:
            cancellations.record(replace(CANCELLED, send=each))
        assert set(cancellations.cancelled(sends)) == set(sends[::30])
        assert set(cancellations.cancelled([])) == set()

    @pytest.mark.guarantee("cancelling.only_the_tenants_own_send")
    @pytest.mark.kills(guard="cancellations.tenants_send")
    def test_another_tenants_send_is_not_cancelled(self, cancellations: Cancellations) -> None:
        """Two tenants may use the same id, and club 7 with id "7x" is not club 77 with id "x"."""
        cancellations.record(CANCELLED)
        others = [SendKey(8, SEND.send_id), SendKey(77, SEND.send_id), SendKey(7, f"{SEND.send_id}0")]
        assert set(cancellations.cancelled([SEND, *others])) == {SEND}
        assert [cancellations.find(other) for other in others] == [None] * 3

    @pytest.mark.kills(guard="cancellations.hostile_send_id")
    @pytest.mark.parametrize("send_id", ["", "i" * 3_000, "a#b", "a\n"], ids=["empty", "long", "sign", "line"])
    def test_an_id_that_no_send_has_hides_no_other(self, cancellations: Cancellations, send_id: str) -> None:
        """Any producer can write an id that is no valid key; the other records of its batch must be processed."""
        cancellations.record(CANCELLED)
        assert set(cancellations.cancelled([SendKey(7, send_id), SEND])) == {SEND}
        assert cancellations.find(SendKey(7, send_id)) is None
