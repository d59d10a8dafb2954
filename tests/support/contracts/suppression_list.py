"""The tests that every list of suppressions must pass, in memory and real."""

from collections.abc import Callable, Sequence

from masscomm.directory.suppression_list import StoredSuppression, SuppressionList
from masscomm.domain.ids import address_id

NOW_MS = 1_700_000_000_000
HASH, OTHER_HASH = address_id("ada@example.org"), address_id("bob@example.org")

# Returns a list that contains the given suppressions, written in this order.
type Made = Callable[[Sequence[StoredSuppression]], SuppressionList]


def suppression(club_id: int, hashed: str = HASH, at_ms: int = NOW_MS) -> StoredSuppression:
    return StoredSuppression(
        id=f"{club_id}-{hashed}",
        club_id=club_id,
        address_id=hashed,
        reason="bounced_permanent",
        at_ms=at_ms,
        expires_at_ms=at_ms + 86_400_000,
    )


class SuppressionListContract:
    """Subclasses define the fixture `made`."""

    def test_the_latest_suppressions_come_first(self, made: Made) -> None:
        rows = [suppression(7, at_ms=NOW_MS + 1), suppression(8, at_ms=NOW_MS), suppression(9, at_ms=NOW_MS + 2)]
        found = made(rows).page(clubs=(), address_id=None, limit=10, after=None)
        assert (list(found.rows), found.next) == ([rows[2], rows[0], rows[1]], None)

    def test_suppressions_are_chosen_by_club_and_address(self, made: Made) -> None:
        rows = [suppression(7), suppression(77), suppression(7, OTHER_HASH)]
        listed = made(rows)
        own = listed.page(clubs=(7,), address_id=None, limit=10, after=None)
        assert {row.id for row in own.rows} == {rows[0].id, rows[2].id}
        of_address = listed.page(clubs=(), address_id=HASH, limit=10, after=None)
        assert {row.id for row in of_address.rows} == {rows[0].id, rows[1].id}

    def test_pages_have_each_suppression_once(self, made: Made) -> None:
        """Also if several suppressions have one time."""
        rows = [suppression(club_id, at_ms=NOW_MS + club_id // 3) for club_id in range(1, 8)]
        listed, found, after = made(rows), list[int](), None
        while True:
            page = listed.page(clubs=(), address_id=None, limit=2, after=after)
            found += [row.club_id for row in page.rows]
            if (after := page.next) is None:
                break
        assert sorted(found) == list(range(1, 8))

    def test_only_the_named_suppressions_are_removed(self, made: Made) -> None:
        rows = [suppression(7), suppression(8)]
        listed = made(rows)
        assert listed.remove(rows[0].id)
        assert not listed.remove(rows[0].id)
        assert listed.page(clubs=(), address_id=None, limit=10, after=None).rows == rows[1:]
