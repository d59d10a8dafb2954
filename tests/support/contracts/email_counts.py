"""The tests that every store of the counts of e-mails must pass, in memory and real."""

import pytest

from masscomm.domain.email_pauses import EmailCounts
from masscomm.stores.email_counts.port import EmailCounter


class EmailCountsContract:
    """Subclasses define the fixture `counter`, an empty store."""

    @pytest.mark.kills(guard="email_pauses.counted_once")
    def test_record_counts_once(self, counter: EmailCounter) -> None:
        for hour in (100, 100, 101):
            counter.add(7, hour, EmailCounts(sent=3), once="r")
        counter.add(7, 100, EmailCounts(bounced=1), once="s")
        assert counter.total(7, range(90, 110)) == EmailCounts(sent=3, bounced=1)

    def test_clubs_and_hours_are_apart(self, counter: EmailCounter) -> None:
        counter.add(7, 100, EmailCounts(sent=1), once="a")
        counter.add(8, 100, EmailCounts(sent=2), once="b")
        counter.add(7, 101, EmailCounts(complained=4), once="c")
        assert counter.total(7, [100]) == EmailCounts(sent=1)
        assert counter.total(7, range(100, 102)) == EmailCounts(sent=1, complained=4)
        assert counter.total(9, range(24)) == EmailCounts()
