"""The tests that every store of webhook dead letters must pass, in memory and real."""

from typing import Any
from uuid import UUID, uuid5

import pytest

from masscomm.domain.records import EventOccurred
from masscomm.domain.webhooks import EndpointKey
from masscomm.stores.webhook_dead_letters.port import (
    Bound,
    DeadLetterPage,
    WebhookDeadLetter,
    WebhookDeadLetters,
    position_at,
)

NOW = 1_700_000_000_500
KEY, OTHER = EndpointKey(7, "ep_7_aaaaaaaaaaaaaaaaaaaa"), EndpointKey(8, "ep_8_aaaaaaaaaaaaaaaaaaaa")
LATER_MS = NOW + 1_000_000
# Of about 60 letters.
BOUND = Bound(sampled_in=6, samples=10)


def letter(number: int = 1, **fields: Any) -> WebhookDeadLetter:
    event = EventOccurred(event_id=f"e{number}", type="match.goal", club_id=7, occurred_at=NOW, data='{"a": "ö"}')
    given: dict[str, Any] = {"endpoint": KEY, "event": event, "reason": "all attempts failed", "attempts": 8}
    given |= {"produced_at_ms": NOW - 5, "at_ms": NOW + number, "status": 500, "message_id": f"evt_{number:032x}"}
    return WebhookDeadLetter(**given | fields)


def page(store: WebhookDeadLetters, key: EndpointKey = KEY, **options: Any) -> DeadLetterPage:
    given: dict[str, Any] = {"limit": 10, "after": "", "up_to": position_at(LATER_MS)}
    return store.page(key, **given | options)


class WebhookDeadLettersContract:
    """Subclasses define the fixture `dead_letters`, an empty store with BOUND."""

    def test_stored_letters_are_listed_in_their_order(self, dead_letters: WebhookDeadLetters) -> None:
        of_other = letter(9, endpoint=OTHER)
        dead_letters.put([letter(2), letter(1, status=None), of_other, letter(3)])
        found = page(dead_letters)
        assert list(found.letters) == [letter(1, status=None), letter(2), letter(3)]
        assert (found.more, found.last) == (False, letter(3).id)
        assert list(page(dead_letters, OTHER).letters) == [of_other]
        assert page(dead_letters, up_to=position_at(NOW)).last is None

    def test_a_page_begins_after_an_id_or_a_time(self, dead_letters: WebhookDeadLetters) -> None:
        """The letter at which the page before ended may be deleted meanwhile."""
        dead_letters.put([letter(number) for number in range(60)])
        first = page(dead_letters, limit=50)
        assert (len(first.letters), first.more, first.last) == (50, True, letter(49).id)
        dead_letters.delete(KEY, [letter(49).id])
        for after in (letter(49).id, position_at(NOW + 49)):
            second = page(dead_letters, limit=50, after=after)
            assert ([each.id for each in second.letters], second.more) == ([letter(n).id for n in range(50, 60)], False)

    def test_letters_of_a_span_and_a_type_are_listed(self, dead_letters: WebhookDeadLetters) -> None:
        dead_letters.put([letter(number) for number in range(5)])
        for up_to in (letter(2).id, position_at(NOW + 2)):
            assert [each.id for each in page(dead_letters, up_to=up_to).letters] == [letter(n).id for n in range(3)]
        assert page(dead_letters, after=letter(3).id, up_to=letter(2).id).last is None
        none = page(dead_letters, limit=2, event_type="match.finished")
        assert (list(none.letters), none.more, none.last) == ([], True, letter(1).id)
        assert len(page(dead_letters, event_type="match.goal").letters) == 5

    def test_deleted_letters_are_not_found(self, dead_letters: WebhookDeadLetters) -> None:
        dead_letters.put([letter(number) for number in range(3)])
        dead_letters.put([letter(1)])
        dead_letters.delete(KEY, [letter(1).id, letter(50).id])
        assert [each.id for each in dead_letters.find(KEY, [letter(n).id for n in range(3)])] == [
            letter(0).id,
            letter(2).id,
        ]
        assert list(dead_letters.find(OTHER, [letter(0).id])) == []

    @pytest.mark.kills(guard="events.kept_dead_letters")
    def test_the_oldest_letters_beyond_the_bound_go(self, dead_letters: WebhookDeadLetters) -> None:
        """The bound is a sample of the letters, which deleted ones leave, too."""
        letters = [letter(n, message_id=f"evt_{uuid5(UUID(int=0), str(n)).hex}") for n in range(120)]
        sampled = [each.id for each in letters if BOUND.is_sampled(each.id)]
        dead_letters.put([*letters, letter(1, endpoint=OTHER)])
        dead_letters.delete(KEY, sampled[-3:])
        without = [each.id for each in letters if not BOUND.is_sampled(each.id)]
        assert dead_letters.remove_oldest(KEY, without) == 0
        oldest = [each.id for each in letters if each.id <= sampled[-4 - BOUND.samples]]
        assert 0 < len(oldest) == dead_letters.remove_oldest(KEY, sampled)
        assert dead_letters.remove_oldest(KEY, sampled) == 0
        left = [each.id for each in page(dead_letters, limit=200).letters]
        assert left == [each.id for each in letters if each.id not in {*oldest, *sampled[-3:]}]
        assert len(page(dead_letters, OTHER).letters) == 1
