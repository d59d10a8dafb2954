"""The tests that every store of saved audiences must pass, in memory and real."""

from dataclasses import replace

import pytest

from masscomm.domain.saved_audiences import SavedAudience
from masscomm.stores.saved_audiences.port import SavedAudiences

GERMANS = SavedAudience(
    club_id=7, name="germans", definition={"where": {"field": "locale", "is": "de"}}, changed_at_ms=1
)


class SavedAudiencesContract:
    @pytest.fixture
    def audiences(self) -> SavedAudiences:
        raise NotImplementedError

    def test_last_definition_of_a_name_is_found(self, audiences: SavedAudiences) -> None:
        assert audiences.find(7, "germans") is None
        assert audiences.put(replace(GERMANS, definition={"all_users": True}))
        assert not audiences.put(GERMANS)
        assert audiences.find(7, "germans") == GERMANS

    @pytest.mark.kills(guard="audiences.changed_meanwhile")
    def test_change_needs_the_audience_as_it_was_read(self, audiences: SavedAudiences) -> None:
        changed = replace(GERMANS, definition={"all_users": True})
        assert not audiences.put_if(changed, GERMANS)
        assert audiences.put_if(GERMANS, None)
        assert not audiences.put_if(changed, None)
        assert not audiences.put_if(changed, changed)
        assert not audiences.put_if(changed, replace(GERMANS, changed_at_ms=2))
        assert audiences.find(7, "germans") == GERMANS
        assert audiences.put_if(changed, GERMANS)
        assert not audiences.delete_if(GERMANS)
        assert audiences.delete_if(changed)
        assert not audiences.delete_if(changed)
        assert audiences.find(7, "germans") is None

    def test_audiences_of_a_club_are_listed_by_name(self, audiences: SavedAudiences) -> None:
        first, other = replace(GERMANS, name="italians"), replace(GERMANS, club_id=77)
        for each in (first, GERMANS, other):
            audiences.put(each)
        assert list(audiences.of_club(7)) == [GERMANS, first]
        assert audiences.find(77, "germans") == other

    def test_deleted_audience_is_absent(self, audiences: SavedAudiences) -> None:
        audiences.put(GERMANS)
        assert not audiences.delete(77, "germans")
        assert audiences.delete(7, "germans")
        assert not audiences.delete(7, "germans")
        assert list(audiences.of_club(7)) == []
