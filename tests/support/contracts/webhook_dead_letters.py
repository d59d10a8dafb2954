"""The tests that every store of webhook dead letters must pass, in memory and real."""

from typing import Any

from masscomm.domain.records import EventOccurred
from masscomm.domain.webhooks import EndpointKey
from masscomm.stores.webhook_dead_letters.port import WebhookDeadLetter, WebhookDeadLetters

NOW = 1_700_000_000_500
KEY, OTHER = EndpointKey(7, "ep_7_aaaaaaaaaaaaaaaaaaaa"), EndpointKey(8, "ep_8_aaaaaaaaaaaaaaaaaaaa")
LATER_MS = NOW + 1_000_000


def letter(number: int = 1, **fields: Any) -> WebhookDeadLetter:
    event = EventOccurred(event_id=f"e{number}", type="match.goal", club_id=7, occurred_at=NOW, data='{"a": "ö"}')
    given: dict[str, Any] = {"endpoint": KEY, "event": event, "reason": "all attempts failed", "attempts": 8}
    given |= {"produced_at_ms": NOW - 5, "at_ms": NOW + number, "status": 500}
    return WebhookDeadLetter(message_id=f"evt_{number:032x}", **given | fields)


class WebhookDeadLettersContract:
    """Subclasses define the fixture `dead_letters`, an empty store."""

    def test_stored_letters_are_listed_in_their_order(self, dead_letters: WebhookDeadLetters) -> None:
        of_other = letter(9, endpoint=OTHER)
        dead_letters.put([letter(2), letter(1, status=None), of_other, letter(3)])
        page = dead_letters.page(KEY, limit=10, before_ms=LATER_MS)
        assert list(page.letters) == [letter(1, status=None), letter(2), letter(3)]
        assert (page.more, page.last) == (False, letter(3).id)
        assert list(dead_letters.page(OTHER, limit=10, before_ms=LATER_MS).letters) == [of_other]
        assert dead_letters.page(KEY, limit=10, before_ms=NOW).last is None

    def test_a_page_begins_after_an_id(self, dead_letters: WebhookDeadLetters) -> None:
        dead_letters.put([letter(number) for number in range(60)])
        first = dead_letters.page(KEY, limit=50, before_ms=LATER_MS)
        assert (len(first.letters), first.more, first.last) == (50, True, letter(49).id)
        second = dead_letters.page(KEY, limit=50, before_ms=LATER_MS, after=first.last)
        assert ([each.id for each in second.letters], second.more) == ([letter(n).id for n in range(50, 60)], False)

    def test_letters_before_a_time_and_of_a_type_are_listed(self, dead_letters: WebhookDeadLetters) -> None:
        dead_letters.put([letter(number) for number in range(5)])
        assert len(dead_letters.page(KEY, limit=10, before_ms=NOW + 3).letters) == 3
        none = dead_letters.page(KEY, limit=2, before_ms=LATER_MS, event_type="match.finished")
        assert (list(none.letters), none.more, none.last) == ([], True, letter(1).id)
        assert len(dead_letters.page(KEY, limit=10, before_ms=LATER_MS, event_type="match.goal").letters) == 5

    def test_deleted_letters_are_not_found(self, dead_letters: WebhookDeadLetters) -> None:
        dead_letters.put([letter(number) for number in range(3)])
        dead_letters.put([letter(1)])
        dead_letters.delete(KEY, [letter(1).id, "unknown"])
        assert [each.id for each in dead_letters.find(KEY, [letter(n).id for n in range(3)])] == [
            letter(0).id,
            letter(2).id,
        ]
        assert list(dead_letters.find(OTHER, [letter(0).id])) == []
