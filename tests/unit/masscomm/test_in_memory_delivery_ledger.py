import pytest

from masscomm.clock import FixedClock
from masscomm.stores.delivery_ledger.in_memory import InMemoryDeliveryLedger, LedgerTable
from tests.support.contracts.delivery_ledger import DeliveryLedgerContract, Ledgers, RoundTrips


class TestInMemoryDeliveryLedger(DeliveryLedgerContract):
    @pytest.fixture
    def clock(self) -> FixedClock:
        return FixedClock()

    @pytest.fixture
    def made(self) -> list[InMemoryDeliveryLedger]:
        return []

    @pytest.fixture
    def ledgers(self, clock: FixedClock, made: list[InMemoryDeliveryLedger]) -> Ledgers:
        table = LedgerTable()

        def ledger(owner: str) -> InMemoryDeliveryLedger:
            made.append(InMemoryDeliveryLedger(clock=clock, owner=owner, table=table))
            return made[-1]

        return ledger

    @pytest.fixture
    def round_trips(self, made: list[InMemoryDeliveryLedger]) -> RoundTrips:
        return lambda: sum(ledger.calls.total() for ledger in made)
