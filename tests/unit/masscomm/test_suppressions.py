from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import Periods, Suppression, suppressed

NOW = 1_700_000_000_000


def test_suppression_counts_for_its_club_until_its_end() -> None:
    each = Suppression(club_id=7, address="A@b.example", reason=Reason.COMPLAINED, at_ms=0, expires_ms=NOW)
    documents = {each.id: each.source}
    assert suppressed(7, ["a@B.example", "c@b.example"], documents, NOW - 1) == {"a@B.example"}
    assert suppressed(7, ["a@b.example"], documents, NOW) == set()
    assert suppressed(8, ["a@b.example"], documents, NOW - 1) == set()


def test_a_complaint_is_remembered_longer_than_a_bounce() -> None:
    periods = Periods()
    assert periods.end_ms(Reason.BOUNCED_PERMANENT, 0) == 180 * 86_400_000
    assert periods.end_ms(Reason.COMPLAINED, 0) == 730 * 86_400_000
