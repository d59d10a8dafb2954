"""Two environments that find the same lease free: one of them acquires it."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from masscomm.clock import FixedClock
from masscomm.domain.time_limits import CLOCK_SKEW_S, LEASE_S
from masscomm.stores.delivery_ledger.dynamodb import DynamoDbDeliveryLedger
from masscomm.stores.delivery_ledger.port import LeasedElsewhere
from tests.support.servers.dynamodb_table import new_table


class OvertakenClient:
    """A client that runs `overtake` before its first update of an item."""

    def __init__(self, client: Any, overtake: Callable[[], object]) -> None:
        self._client = client
        self._overtake: list[Callable[[], object]] = [overtake]

    def update_item(self, **request: Any) -> Any:
        if self._overtake:
            self._overtake.pop()()
        return self._client.update_item(**request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.mark.kills(guard="lease.one_holder")
@pytest.mark.parametrize("together", [True, False])
def test_an_expired_lease_has_one_next_holder(moto_dynamodb: Any, together: bool) -> None:
    """Another environment acquires the lease after this one has found it expired."""
    clock, table = FixedClock(), new_table(moto_dynamodb, "delivery_ledger")

    def ledger(owner: str, used: Any) -> DynamoDbDeliveryLedger:
        return DynamoDbDeliveryLedger(table=table, owner=owner, clock=clock, client=cast(Any, used))

    other = ledger("b", moto_dynamodb)
    ledger("a", moto_dynamodb).acquire("record")
    clock.advance(LEASE_S + CLOCK_SKEW_S)
    late = ledger("c", OvertakenClient(moto_dynamodb, lambda: other.acquire("record")))
    found = late.acquire_all(["record", "new"])["record"] if together else late.acquire("record")
    assert isinstance(found, LeasedElsewhere)
    assert other.renew("record") is not None
