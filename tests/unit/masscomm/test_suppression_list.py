"""The list of suppressions in memory keeps the contract."""

import pytest

from masscomm.directory.suppression_list import InMemorySuppressionList
from tests.support.contracts.suppression_list import Made, SuppressionListContract


class TestInMemorySuppressionList(SuppressionListContract):
    @pytest.fixture
    def made(self) -> Made:
        return InMemorySuppressionList
