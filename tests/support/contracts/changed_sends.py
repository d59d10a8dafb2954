"""The tests that every store of changed sends must pass, in memory and real."""

import pytest

from masscomm.domain.send_controls import SendKey
from masscomm.stores.changed_sends import ChangedSend, ChangedSends, Position

NOW = 1_700_000_000_500


def changed(send_id: str = "s", at_ms: int = NOW) -> ChangedSend:
    return ChangedSend(send=SendKey(7, send_id), changed_at_ms=at_ms)


class ChangedSendsContract:
    """Subclasses define the fixture `changes`, an empty store."""

    def test_a_recorded_send_is_returned_until_removed(self, changes: ChangedSends) -> None:
        assert list(changes.all()) == []
        for each in (changed(), changed("t")):
            changes.put(each)
        assert list(changes.all()) == [changed(), changed("t")]
        changes.remove(changed())
        assert list(changes.all()) == [changed("t")]

    def test_many_recorded_sends_are_all_returned(self, changes: ChangedSends) -> None:
        sends = [changed(f"s{number:04d}") for number in range(300)]
        for each in sends:
            changes.put(each)
        assert list(changes.all()) == sends

    @pytest.mark.kills(guard="webhooks.changed_again")
    def test_a_send_that_changed_again_is_not_removed(self, changes: ChangedSends) -> None:
        changes.put(changed())
        changes.put(changed(at_ms=NOW + 1))
        changes.remove(changed())
        assert list(changes.all()) == [changed(at_ms=NOW + 1)]

    def test_the_position_is_stored(self, changes: ChangedSends) -> None:
        assert changes.position() is None
        for position in (Position(5, ""), Position(2**62, "a/b")):
            changes.move(position)
            assert changes.position() == position
        assert list(changes.all()) == []
