"""The tests that every delivery ledger must pass, in memory and real.

Source of the limits: AWS documentation, "Service, account, and table quotas in Amazon DynamoDB" (400 KB an item) and
API reference of TransactWriteItems (100 actions, 4 MB).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from masscomm.clock import FixedClock
from masscomm.domain.call_results import CallResult, RecipientResult
from masscomm.domain.preferences import Decision
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.time_limits import CLOCK_SKEW_S, LEASE_S
from masscomm.errors import DeadLetter
from masscomm.stores.delivery_ledger.port import DeliveryLedger, Lease, LeasedElsewhere, SliceConflict

SENT = Decision(Status.SENT, None, "provider")
OPTED_OUT = Decision(Status.SUPPRESSED, Reason.OPTED_OUT, "user", "category:news", 7)

type Ledgers = Callable[[str], DeliveryLedger]
type RoundTrips = Callable[[], int]


def result(position: int, decision: Decision = SENT, *calls: CallResult) -> RecipientResult:
    """Return the result of one recipient; the user id is the position plus 1,000."""
    return RecipientResult(position=position, user_id=1000 + position, decision=decision, call_results=calls)


def _calls(count: int) -> list[CallResult]:
    """Return an error text of about 100 bytes, different for each number."""
    return [CallResult(target=str(10**9 + device), message_id=f"{device:060}") for device in range(count)]


class DeliveryLedgerContract:
    """Subclasses define three fixtures: `ledgers` (returns a ledger for each owner, all on one table), `clock` (the
    clock of the ledgers) and `round_trips` (returns the number of requests of these ledgers so far).
    """

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
        clock.advance(LEASE_S)  # The clock of the lease's owner may be behind ours.
        assert isinstance(ledgers("b").acquire(record_id), LeasedElsewhere)
        clock.advance(CLOCK_SKEW_S)
        lease = ledgers("b").acquire(record_id)
        assert isinstance(lease, Lease)
        assert not lease.fresh

    def test_owner_acquires_its_lease_again_and_not_as_fresh(self, ledgers: Ledgers, record_id: str) -> None:
        ledgers("a").acquire(record_id)
        second = ledgers("a").acquire(record_id)
        assert isinstance(second, Lease)
        assert not second.fresh

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
        """A DynamoDB item holds 400 kB; a user may have any number of devices, and ids of any length."""
        large = [result(position, SENT, *_calls(16_000 // recipients)) for position in range(recipients)]
        for _ in range(2):
            ledgers("a").record(record_id, large)
        ledgers("a").record(record_id, [result(recipients)])
        assert ledgers("b").results(record_id) == [*large, result(recipients)]

    def test_first_of_two_large_slices_wins(self, ledgers: Ledgers, record_id: str) -> None:
        """The results differ only in the last device, which no longer fits in the first item."""
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
        # The results need more than one page of a DynamoDB query (1 MB).
        assert ledgers("a").results(record_id) == whole

    @pytest.mark.parametrize("record_id", ["", "i" * 2049], ids=["empty", "long"])
    def test_id_that_is_an_invalid_key_is_refused(self, ledgers: Ledgers, record_id: str) -> None:
        """A DeadLetter error fails one record and stops no other."""
        with pytest.raises(DeadLetter):
            ledgers("a").acquire(record_id)

    def test_one_of_concurrent_owners_acquires_the_lease(self, ledgers: Ledgers, record_id: str) -> None:
        ledger_of = {owner: ledgers(owner) for owner in "abcdefgh"}
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda owner: ledger_of[owner].acquire(record_id), ledger_of))
        assert [type(each) for each in found].count(Lease) == 1

    # --- many records ---

    @pytest.fixture
    def record_ids(self) -> list[str]:
        return [str(uuid4()) for _ in range(100)]

    def test_first_leases_take_one_round_trip(
        self, ledgers: Ledgers, clock: FixedClock, round_trips: RoundTrips, record_ids: list[str]
    ) -> None:
        found = ledgers("a").acquire_all([*record_ids, *reversed(record_ids)])
        assert round_trips() == 1
        assert found == dict.fromkeys(record_ids, Lease(valid_until=clock.monotonic() + LEASE_S, fresh=True))
        leased = ledgers("b").acquire(record_ids[50])
        assert leased == LeasedElsewhere(free_in_s=LEASE_S + CLOCK_SKEW_S)
        assert ledgers("a").renew(record_ids[99]) is not None

    @pytest.mark.kills(guard="dynamodb.transaction_size")
    def test_leases_of_250_records_take_three_round_trips(
        self, ledgers: Ledgers, round_trips: RoundTrips, record_ids: list[str]
    ) -> None:
        more = [str(uuid4()) for _ in range(150)]
        found = ledgers("a").acquire_all([*record_ids, *more])
        assert round_trips() == 3
        assert all(isinstance(lease, Lease) and lease.fresh for lease in found.values())
        assert list(found) == [*record_ids, *more]

    def test_no_record_takes_no_round_trip(self, ledgers: Ledgers, round_trips: RoundTrips) -> None:
        assert ledgers("a").acquire_all([]) == {}
        assert ledgers("a").record_all({}) == {}
        assert round_trips() == 0

    def test_one_record_takes_one_round_trip(self, ledgers: Ledgers, round_trips: RoundTrips, record_id: str) -> None:
        lease = ledgers("a").acquire_all([record_id, record_id])[record_id]
        assert isinstance(lease, Lease)
        assert lease.fresh
        assert ledgers("a").record_all({record_id: [result(0)]}) == {record_id: None}
        assert round_trips() == 2

    @pytest.mark.kills(guard="delivery_ledger.absent_item")
    def test_other_leases_are_answered_alone_and_exactly(
        self, ledgers: Ledgers, clock: FixedClock, round_trips: RoundTrips, record_ids: list[str]
    ) -> None:
        """Two transactions answer for leases of others; each own, expired or released lease needs one more request."""
        expired, released, ours, theirs, *first = record_ids
        ledgers("b").acquire(expired)
        clock.advance(LEASE_S + CLOCK_SKEW_S)
        ledgers("b").acquire(theirs)
        ledgers("b").acquire(released)
        ledgers("b").release(released)
        ledgers("a").acquire(ours)
        clock.advance(1)
        before = round_trips()
        found = ledgers("a").acquire_all([*record_ids, ""])
        assert round_trips() - before <= 2 + 3 + 1
        lease = Lease(valid_until=clock.monotonic() + LEASE_S)
        assert {each: found.pop(each) for each in (expired, released, ours)} == {
            expired: lease,
            released: lease,
            ours: lease,
        }
        assert found.pop(theirs) == ledgers("a").acquire(theirs) == LeasedElsewhere(free_in_s=LEASE_S)
        assert isinstance(found.pop(""), DeadLetter)
        assert found == dict.fromkeys(first, Lease(valid_until=clock.monotonic() + LEASE_S, fresh=True))

    def test_concurrent_owners_share_no_lease(self, ledgers: Ledgers, record_ids: list[str]) -> None:
        """Each record has one owner, and every other environment sees the lease of that owner."""
        sets = {owner: record_ids[start : start + 10] for start, owner in enumerate("abcdefgh")}
        ledger_of = {owner: ledgers(owner) for owner in sets}
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda owner: ledger_of[owner].acquire_all(sets[owner]), sets))
        for record_id in record_ids[:17]:
            answers = [each[record_id] for each in found if record_id in each]
            leases = [answer for answer in answers if isinstance(answer, Lease)]
            assert len(leases) == 1
            assert leases[0].fresh
            assert all(isinstance(answer, Lease | LeasedElsewhere) for answer in answers)

    def test_slices_of_100_records_take_one_round_trip(
        self, ledgers: Ledgers, round_trips: RoundTrips, record_ids: list[str]
    ) -> None:
        slices = {record_id: [result(0, SENT, *_calls(1)), result(1, OPTED_OUT)] for record_id in record_ids}
        assert ledgers("a").record_all(slices) == dict.fromkeys(record_ids)
        assert round_trips() == 1
        assert ledgers("b").results(record_ids[99]) == slices[record_ids[99]]

    @pytest.mark.guarantee("delivery_ledger.first_write_wins", "delivery_ledger.conflict_fails_no_other")
    @pytest.mark.kills(guard="delivery_ledger.absent_item")
    def test_first_write_wins_and_fails_no_other_record(
        self, ledgers: Ledgers, round_trips: RoundTrips, record_ids: list[str]
    ) -> None:
        theirs, ours, *first = record_ids
        ledgers("b").record(theirs, [result(0, OPTED_OUT)])
        ledgers("a").record(ours, [result(0)])
        before = round_trips()
        found = ledgers("a").record_all({record_id: [result(0)] for record_id in record_ids})
        assert round_trips() - before == 2
        assert isinstance(found.pop(theirs), SliceConflict)
        assert found == dict.fromkeys([ours, *first])
        assert ledgers("a").results(theirs) == [result(0, OPTED_OUT)]
        assert [ledgers("a").results(record_id) for record_id in (ours, first[97])] == [[result(0)]] * 2

    @pytest.mark.kills(guard="dynamodb.transaction_size")
    def test_slices_beyond_a_transactions_size_are_split(
        self, ledgers: Ledgers, round_trips: RoundTrips, record_ids: list[str]
    ) -> None:
        """14 items below 350 kB exceed a transaction's 4 MB; a larger slice needs several items."""
        slices = {record_id: [result(0, SENT, *_calls(3_800))] for record_id in record_ids[:14]}
        assert ledgers("a").record_all(slices) == dict.fromkeys(slices)
        assert round_trips() == 2
        large, small = [result(0, SENT, *_calls(16_000))], [result(0)]
        more = {record_ids[20]: small, record_ids[21]: large, record_ids[22]: small}
        assert ledgers("a").record_all(more) == dict.fromkeys(more)
        for record_id, written in (slices | more).items():
            assert ledgers("b").results(record_id) == written

    def test_record_and_record_all_agree_on_the_first(self, ledgers: Ledgers, record_ids: list[str]) -> None:
        """If both methods write one record concurrently, one of them has a conflict and no other record fails."""
        ours, theirs = ledgers("a"), ledgers("b")

        def record(record_id: str) -> bool:
            try:
                theirs.record(record_id, [result(0, OPTED_OUT)])
            except SliceConflict:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            single = [pool.submit(record, record_id) for record_id in record_ids[3:7]]
            found = ours.record_all({record_id: [result(0)] for record_id in record_ids[:10]})
        won = dict(zip(record_ids[3:7], (each.result() for each in single), strict=True))
        for record_id in record_ids[:10]:
            is_theirs = won.get(record_id, False)
            assert isinstance(found[record_id], SliceConflict) if is_theirs else found[record_id] is None
            assert ours.results(record_id) == [result(0, OPTED_OUT if is_theirs else SENT)]
