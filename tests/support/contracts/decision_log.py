"""The tests that every decision log must pass, in memory and real."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from masscomm.errors import DeadLetter
from masscomm.stores.decision_log.port import DecisionLog


class DecisionLogContract:
    """Subclasses define the fixture `log`."""

    @pytest.mark.parametrize("record_id", ["", "i" * 2049], ids=["empty", "long"])
    def test_id_that_is_an_invalid_key_is_refused(self, log: DecisionLog, record_id: str) -> None:
        with pytest.raises(DeadLetter):
            log.put_if_absent(record_id, b"a")

    def test_first_of_concurrent_decisions_wins(self, log: DecisionLog) -> None:
        record_id = str(uuid4())
        with ThreadPoolExecutor(8) as pool:
            found = set(pool.map(lambda number: log.put_if_absent(record_id, str(number).encode()), range(8)))
        assert len(found) == 1

    def test_first_write_wins(self, log: DecisionLog) -> None:
        record_id = str(uuid4())
        assert log.put_if_absent(record_id, b"\0first") == b"\0first"
        assert log.put_if_absent(record_id, b"second") == b"\0first"
        assert log.put_if_absent(record_id, b"\0first") == b"\0first"

    def test_recorded_decisions_are_found(self, log: DecisionLog) -> None:
        record_id, large = str(uuid4()), hashlib.shake_128(b"found").digest(1_000_000)
        assert log.find(record_id) is None
        log.put_if_absent(record_id, large)
        assert log.find(record_id) == large

    def test_records_have_separate_decisions(self, log: DecisionLog) -> None:
        assert [log.put_if_absent(str(uuid4()), text) for text in (b"a", b"b")] == [b"a", b"b"]

    @pytest.mark.guarantee("decision_log.large_record_is_split")
    def test_record_larger_than_an_item_is_kept_whole(self, log: DecisionLog) -> None:
        """A DynamoDB item holds at most 400 kB."""
        record_id = str(uuid4())
        large = hashlib.shake_128(b"large").digest(1_000_000)
        other = large[:-1] + bytes([large[-1] ^ 1])
        for text in (large, large, other, b"small"):
            assert log.put_if_absent(record_id, text) == large

    def test_large_second_write_returns_the_first(self, log: DecisionLog) -> None:
        record_id = str(uuid4())
        assert log.put_if_absent(record_id, b"small") == b"small"
        assert log.put_if_absent(record_id, bytes(1_000_000)) == b"small"

    def test_decisions_about_ten_thousand_recipients_are_kept_whole(self, log: DecisionLog) -> None:
        record_id, large = str(uuid4()), hashlib.shake_128(b"large").digest(390_000)
        assert log.put_if_absent(record_id, large) == large
        assert log.put_if_absent(record_id, b"") == large
