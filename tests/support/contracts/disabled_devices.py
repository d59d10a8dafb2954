"""The tests that every list of disabled devices must pass, in memory and real."""

from collections.abc import Callable, Sequence

import pytest

from masscomm.directory import disabled_devices
from masscomm.directory.disabled_devices import DisabledDevice, DisabledDevices

NOW_MS = 1_700_000_000_000

# Returns the store that contains the given devices, and one that is enabled with the id 900.
type Made = Callable[[Sequence[DisabledDevice]], DisabledDevices]


def device(
    device_id: int, club_id: int | None = 7, reason: str = "takes_nothing", at_ms: int = NOW_MS
) -> DisabledDevice:
    """Return a disabled device, each of another user. Without a club, the monolith has deleted its row."""
    is_gone = club_id is None
    return DisabledDevice(
        device_id=device_id,
        user_id=None if is_gone else device_id * 10,
        club_id=club_id,
        platform=None if is_gone else "gcm",
        reason=reason,
        since_ms=at_ms,
        endpoint_arn=f"arn:{device_id}",
    )


class DisabledDevicesContract:
    """Subclasses define the fixture `made`."""

    def test_devices_disabled_last_come_first(self, made: Made) -> None:
        rows = [device(1, at_ms=NOW_MS + 1), device(2, 8), device(3, None, "deleted", NOW_MS + 2)]
        page = made(rows).page(clubs=(), reason=None, limit=10, after=None)
        assert (list(page.rows), page.next) == ([rows[2], rows[0], rows[1]], None)

    def test_devices_are_chosen_by_club_and_reason(self, made: Made) -> None:
        rows = [device(1), device(2, 77), device(3, 7, "invalid_token"), device(4, None, "deleted")]
        listed = made(rows)
        own = listed.page(clubs=(7,), reason=None, limit=10, after=None)
        assert {row.device_id for row in own.rows} == {1, 3}
        refused = listed.page(clubs=(), reason="invalid_token", limit=10, after=None)
        assert {row.device_id for row in refused.rows} == {3}

    def test_pages_have_each_device_once(self, made: Made) -> None:
        """Also if several were disabled at one time, and other clubs' devices are between them."""
        rows = [device(number, 7 + number % 2, at_ms=NOW_MS + number // 3) for number in range(1, 10)]
        listed, found, after = made(rows), list[int](), None
        while True:
            page = listed.page(clubs=(8,), reason=None, limit=2, after=after)
            found += [row.device_id for row in page.rows]
            if (after := page.next) is None:
                break
        assert sorted(found) == [1, 3, 5, 7, 9]

    def test_a_page_ends_after_the_examined_devices(self, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(disabled_devices, "MAX_EXAMINED", 3)
        listed = made([device(number, 8, at_ms=NOW_MS - number) for number in range(1, 5)])
        page = listed.page(clubs=(7,), reason=None, limit=2, after=None)
        assert (list(page.rows), page.next is None) == ([], False)
        assert listed.page(clubs=(8,), reason=None, limit=2, after=page.next).rows[0].device_id == 4
        counts = listed.counts(clubs=(8,))
        assert (counts.devices, counts.examined, counts.complete) == ({(8, "takes_nothing"): 3}, 3, False)

    def test_devices_are_counted_by_club_and_reason(self, made: Made) -> None:
        listed = made([device(1), device(2), device(3, 8), device(4, 7, "inactive"), device(5, None, "deleted")])
        everything = listed.counts(clubs=())
        assert (everything.examined, everything.complete) == (5, True)
        assert everything.devices == {
            (7, "takes_nothing"): 2,
            (8, "takes_nothing"): 1,
            (7, "inactive"): 1,
            (None, "deleted"): 1,
        }
        assert listed.counts(clubs=(8,)).devices == {(8, "takes_nothing"): 1}

    def test_a_disabled_device_is_found_by_its_id(self, made: Made) -> None:
        listed = made([device(1)])
        assert listed.find(1) == device(1)
        assert listed.find(2) is None
        assert listed.find(900) is None
