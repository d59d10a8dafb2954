"""The store of webhook dead letters in memory."""

import pytest

from masscomm.stores.webhook_dead_letters.in_memory import InMemoryWebhookDeadLetters
from masscomm.stores.webhook_dead_letters.port import WebhookDeadLetters
from tests.support.contracts.webhook_dead_letters import WebhookDeadLettersContract


class TestInMemoryWebhookDeadLetters(WebhookDeadLettersContract):
    @pytest.fixture
    def dead_letters(self) -> WebhookDeadLetters:
        return InMemoryWebhookDeadLetters()
