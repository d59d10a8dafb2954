"""The store of webhook dead letters in memory."""

from uuid import UUID, uuid5

import pytest

from masscomm.stores.webhook_dead_letters.in_memory import InMemoryWebhookDeadLetters
from masscomm.stores.webhook_dead_letters.port import MILLION, WebhookDeadLetters
from tests.support.contracts.webhook_dead_letters import BOUND, WebhookDeadLettersContract, letter


class TestInMemoryWebhookDeadLetters(WebhookDeadLettersContract):
    @pytest.fixture
    def dead_letters(self) -> WebhookDeadLetters:
        return InMemoryWebhookDeadLetters(BOUND)


def test_the_sample_shows_how_many_letters_there_are() -> None:
    """Of 100,000 letters a thousandth is in it, and a million have more than those that are kept."""
    ids = (letter(at_ms, message_id=f"evt_{uuid5(UUID(int=0), str(at_ms)).hex}").id for at_ms in range(100_000))
    estimated = sum(map(MILLION.is_sampled, ids)) * MILLION.sampled_in
    assert abs(estimated - 100_000) < 3 * 10_000
    kept = MILLION.samples * MILLION.sampled_in
    assert kept + 3 * kept / MILLION.samples**0.5 < 1_000_000
