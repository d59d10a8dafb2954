"""The delivery ledger that unit tests use keeps the contract."""

import pytest

from masscomm.clock import FixedClock
from masscomm.stores.delivery_ledger_in_memory import InMemoryDeliveryLedger, LedgerTable
from tests.support.contracts.delivery_ledger import DeliveryLedgerContract, Ledgers


class TestInMemoryDeliveryLedger(DeliveryLedgerContract):
    @pytest.fixture
    def clock(self) -> FixedClock:
        return FixedClock()

    @pytest.fixture
    def ledgers(self, clock: FixedClock) -> Ledgers:
        table = LedgerTable()
        return lambda owner: InMemoryDeliveryLedger(clock=clock, owner=owner, table=table)
