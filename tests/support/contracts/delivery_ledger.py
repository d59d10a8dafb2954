"""The contract of every delivery ledger: the in-memory and the real one run the same tests."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from masscomm.clock import FixedClock
from masscomm.domain.preferences import Decision
from masscomm.domain.statuses import Reason, Status
from masscomm.errors import DeadLetter
from masscomm.stores.delivery_ledger import (
    CLOCK_SKEW_S,
    LEASE_S,
    CallResult,
    DeliveryLedger,
    Lease,
    LeasedElsewhere,
    RecipientResult,
    SliceConflict,
)

SENT = Decision(Status.SENT, None, "provider")
OPTED_OUT = Decision(Status.SUPPRESSED, Reason.OPTED_OUT, "user", "category:news", 7)

type Ledgers = Callable[[str], DeliveryLedger]


def result(position: int, decision: Decision = SENT, *calls: CallResult) -> RecipientResult:
    """A recipient's decision; the user's id is the position and 1,000."""
    return RecipientResult(position=position, user_id=1000 + position, decision=decision, call_results=calls)


def _calls(count: int) -> list[CallResult]:
    """Some 100 bytes each."""
    return [CallResult(target=str(10**9 + device), message_id=f"{device:060}") for device in range(count)]


class DeliveryLedgerContract:
    """Subclasses give the fixtures `ledgers` (a ledger by its owner, all of one table) and `clock`, their time."""

    @pytest.fixture
    def record_id(self) -> str:
        return str(uuid4())

    def test_first_owner_gets_a_fresh_lease(self, ledgers: Ledgers, clock: FixedClock, record_id: str) -> None:
        assert ledgers("a").acquire(record_id) == Lease(valid_until=clock.monotonic() + LEASE_S, fresh=True)
        assert ledgers("a").results(record_id) == []

    def test_leased_record_is_refused_to_others_until_expiry(
        self, ledgers: Ledgers, clock: FixedClock, record_id: str
    ) -> None:
        ledgers("a").acquire(record_id)
        leased = ledgers("b").acquire(record_id)
        assert isinstance(leased, LeasedElsewhere)
        assert leased.free_in_s == pytest.approx(LEASE_S + CLOCK_SKEW_S)
        clock.advance(LEASE_S)  # their clock may be behind ours
        assert isinstance(ledgers("b").acquire(record_id), LeasedElsewhere)
        clock.advance(CLOCK_SKEW_S)
        lease = ledgers("b").acquire(record_id)
        assert isinstance(lease, Lease)
        assert not lease.fresh

    def test_owner_acquires_its_lease_again_and_not_as_fresh(self, ledgers: Ledgers, record_id: str) -> None:
        ledgers("a").acquire(record_id)
        again = ledgers("a").acquire(record_id)
        assert isinstance(again, Lease)
        assert not again.fresh

    def test_renewed_lease_lasts_longer(self, ledgers: Ledgers, clock: FixedClock, record_id: str) -> None:
        ledgers("a").acquire(record_id)
        clock.advance(LEASE_S - 1)
        assert ledgers("a").renew(record_id) == Lease(valid_until=clock.monotonic() + LEASE_S)
        clock.advance(LEASE_S - 1)
        assert isinstance(ledgers("b").acquire(record_id), LeasedElsewhere)

    def test_expired_lease_is_renewed_unless_acquired_by_another(
        self, ledgers: Ledgers, clock: FixedClock, record_id: str
    ) -> None:
        ledgers("a").acquire(record_id)
        clock.advance(2 * LEASE_S)
        assert ledgers("a").renew(record_id) is not None
        clock.advance(2 * LEASE_S)
        ledgers("b").acquire(record_id)
        assert ledgers("a").renew(record_id) is None
        assert isinstance(ledgers("a").acquire(record_id), LeasedElsewhere)

    def test_only_the_owner_releases_a_lease_at_once(self, ledgers: Ledgers, record_id: str) -> None:
        ledgers("a").acquire(record_id)
        ledgers("b").release(record_id)
        assert isinstance(ledgers("b").acquire(record_id), LeasedElsewhere)
        ledgers("a").release(record_id)
        assert isinstance(ledgers("b").acquire(record_id), Lease)

    def test_recorded_results_are_read_unchanged_by_position(self, ledgers: Ledgers, record_id: str) -> None:
        first = [
            result(0, SENT, CallResult(target="7", message_id="m-7"), CallResult(target="8", error="TargetGone")),
            result(2, OPTED_OUT),
        ]
        ledgers("a").record(record_id, [result(1), result(100_000)])
        ledgers("a").record(record_id, first)
        assert ledgers("b").results(record_id) == [first[0], result(1), first[1], result(100_000)]
        assert ledgers("b").results(str(uuid4())) == []

    def test_slice_recorded_twice_is_stored_once(self, ledgers: Ledgers, record_id: str) -> None:
        for _ in range(2):
            ledgers("a").record(record_id, [result(0), result(1, OPTED_OUT)])
        assert ledgers("a").results(record_id) == [result(0), result(1, OPTED_OUT)]

    def test_delayed_recipient_is_recorded_with_its_time(self, ledgers: Ledgers, record_id: str) -> None:
        delayed = RecipientResult(
            position=3, user_id=1003, decision=Decision(Status.SENDING), retry_at_ms=1_700_000_060_000
        )
        ledgers("a").record(record_id, [result(1)])
        ledgers("a").record(record_id, [delayed, result(4)])
        assert ledgers("b").results(record_id) == [result(1), delayed, result(4)]

    @pytest.mark.guarantee("delivery_ledger.first_write_wins")
    def test_first_write_wins(self, ledgers: Ledgers, clock: FixedClock, record_id: str) -> None:
        ledgers("a").record(record_id, [result(5)])
        with pytest.raises(SliceConflict):
            ledgers("b").record(record_id, [result(5, OPTED_OUT)])
        clock.advance(1)
        ledgers("b").record(record_id, [result(4, OPTED_OUT), result(5, OPTED_OUT)])
        assert ledgers("a").results(record_id) == [result(4, OPTED_OUT), result(5)]

    @pytest.mark.guarantee("delivery_ledger.large_slice_is_split")
    @pytest.mark.parametrize("recipients", [1, 40])
    def test_a_slice_larger_than_an_item_is_kept_whole(self, ledgers: Ledgers, record_id: str, recipients: int) -> None:
        """An item of DynamoDB takes 400 kB; a user may have any number of devices, and ids any length."""
        large = [result(position, SENT, *_calls(16_000 // recipients)) for position in range(recipients)]
        for _ in range(2):
            ledgers("a").record(record_id, large)
        ledgers("a").record(record_id, [result(recipients)])
        assert ledgers("b").results(record_id) == [*large, result(recipients)]

    def test_first_of_two_large_slices_wins(self, ledgers: Ledgers, record_id: str) -> None:
        """They differ in their last answer alone, far behind what one item holds."""
        calls = _calls(8_000)
        first = result(0, SENT, *calls)
        ledgers("a").record(record_id, [first])
        with pytest.raises(SliceConflict):
            ledgers("b").record(record_id, [result(0, SENT, *calls[:-1], CallResult(target="1", message_id="z" * 60))])
        assert ledgers("b").results(record_id) == [first]

    def test_a_whole_records_decisions_are_read_at_once(self, ledgers: Ledgers, record_id: str) -> None:
        calls = tuple(CallResult(target=str(device), message_id=str(uuid4())) for device in range(40))
        whole = [result(position, SENT, *calls) for position in range(500)]
        for start in range(0, 500, 100):
            ledgers("a").record(record_id, whole[start : start + 100])
        assert ledgers("a").results(record_id) == whole  # more than a page of DynamoDB's (1 MB)

    @pytest.mark.parametrize("record_id", ["", "i" * 2049], ids=["empty", "long"])
    def test_an_id_that_is_no_key_is_refused(self, ledgers: Ledgers, record_id: str) -> None:
        """It belongs to the record, and stops no other."""
        with pytest.raises(DeadLetter):
            ledgers("a").acquire(record_id)

    def test_one_of_concurrent_owners_acquires_the_lease(self, ledgers: Ledgers, record_id: str) -> None:
        ledger_of = {owner: ledgers(owner) for owner in "abcdefgh"}
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda owner: ledger_of[owner].acquire(record_id), ledger_of))
        assert [type(each) for each in found].count(Lease) == 1
