"""The store of dead letters in memory keeps the contract."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from masscomm.kafka.avro import Codec
from masscomm.operations.dead_letter_store import DeadLetterStore, InMemoryDeadLetters
from tests.support.contracts.dead_letter_store import DeadLetterStoreContract, Made
from tests.support.harness.operations_api import LETTERS_AT, letter, registry

LETTER = letter(Codec(registry()))


class TestInMemoryDeadLetters(DeadLetterStoreContract):
    @pytest.fixture
    def made(self) -> Made:
        def of(values: Sequence[bytes]) -> DeadLetterStore:
            letters = [replace(LETTER, position=f"0@{offset}", value=value) for offset, value in enumerate(values)]
            return InMemoryDeadLetters(letters, allowed=frozenset({LETTER.topic}), now=LETTERS_AT)

        return of
