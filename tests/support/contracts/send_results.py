"""The tests that every store of the results of small sends must pass, in memory and real."""

from array import array

import pytest

from masscomm.clock import FixedClock
from masscomm.domain.notification_codes import code_of
from masscomm.domain.send_results import SendResult
from masscomm.domain.sends import SendKey
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.time_limits import REGISTERED_SENDS_KEPT_S
from masscomm.stores.send_results.port import SendResults

NOW = 1_700_000_000_500
KEY = SendKey(7, "8a6e0804-2bd0-4672-b79d-d97027f9071a")
SENT, NO_DEVICE = code_of(Status.SENT, None), code_of(Status.SUPPRESSED, Reason.NO_DEVICE)
RESULT = SendResult(send=KEY, record_id="r1", channel="push", first=3, codes=array("H", [SENT, 0, NO_DEVICE]))


class SendResultsContract:
    """Subclasses define the fixture `results`, an empty store with the clock of the fixture `clock`."""

    def test_results_are_read_again(self, results: SendResults) -> None:
        other = RESULT._replace(record_id="r2", channel="email", first=0, codes=array("H", [SENT]))
        results.put([RESULT, other])
        assert sorted(results.since(KEY, None), key=lambda each: each.record_id) == [RESULT, other]

    def test_repeated_record_replaces_its_results(self, results: SendResults) -> None:
        """Two results with one id may be in one batch; BatchWriteItem would refuse it."""
        changed = RESULT._replace(codes=array("H", [NO_DEVICE]))
        results.put([RESULT, RESULT])
        results.put([RESULT, changed])
        assert results.since(KEY, None) == [changed]

    def test_results_are_read_since_a_time(self, results: SendResults, clock: FixedClock) -> None:
        results.put([RESULT])
        clock.advance(1)
        later = RESULT._replace(record_id="r2")
        results.put([later])
        assert results.since(KEY, NOW + 1_000) == [later]
        assert results.since(KEY, NOW + 1_001) == []

    @pytest.mark.kills(guard="tenancy.send_results")
    def test_results_of_other_sends_and_tenants_are_absent(self, results: SendResults) -> None:
        results.put([RESULT, RESULT._replace(send=KEY._replace(send_id="other"), record_id="r2")])
        assert results.since(KEY._replace(club_id=8), None) == []
        assert results.since(KEY, None) == [RESULT]

    def test_results_expire_with_a_registered_send(self, results: SendResults, clock: FixedClock) -> None:
        results.put([RESULT])
        clock.advance(REGISTERED_SENDS_KEPT_S - 1)
        assert results.since(KEY, None) == [RESULT]
        clock.advance(1)
        assert results.since(KEY, None) == []

    def test_more_results_than_one_request_writes_or_reads(self, results: SendResults) -> None:
        many = [RESULT._replace(record_id=f"r{number:04}") for number in range(60)]
        results.put(many)
        assert sorted(results.since(KEY, None), key=lambda each: each.record_id) == many
        results.put([])
