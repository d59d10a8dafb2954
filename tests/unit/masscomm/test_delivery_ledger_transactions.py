"""The ledger handles answers to transactions, in AWS' own words, that DynamoDB Local never returns.

Source: AWS documentation, API reference of TransactWriteItems and TransactionCanceledException (a reason for each item,
in the order of the request; the code "None" for an item without an error).
"""

from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from masscomm.clock import FixedClock
from masscomm.domain.time_limits import LEASE_S
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.stores.delivery_ledger.dynamodb import DynamoDbDeliveryLedger
from masscomm.stores.delivery_ledger.port import Lease
from tests.support.contracts.delivery_ledger import result

type Refusal = dict[str, Any]


class AnsweringClient:
    """A fake client that answers transactions with these refusals in turn, then accepts.

    asked: the records of each request. refused: the error of a single write, by record.
    """

    def __init__(self, *refusals: Refusal) -> None:
        self.refusals = list(refusals)
        self.refused: dict[str, Refusal] = {}
        self.asked: list[list[str]] = []

    def transact_write_items(self, **request: Any) -> Any:
        self.asked.append([item["Put"]["Item"]["record_id"]["S"] for item in request["TransactItems"]])
        if self.refusals:
            raise ClientError(cast(Any, self.refusals.pop(0)), "TransactWriteItems")
        return {}

    def update_item(self, **request: Any) -> Any:
        return self._alone(request["Key"])

    def put_item(self, **request: Any) -> Any:
        return self._alone(request["Item"])

    def _alone(self, item: Any) -> Any:
        record_id = item["record_id"]["S"]
        self.asked.append([record_id])
        if record_id in self.refused:
            raise ClientError(cast(Any, self.refused[record_id]), "PutItem")
        return {}


def _error(code: str, message: str = "", **more: Any) -> Refusal:
    return {"Error": {"Code": code, "Message": message}, **more}


def _cancelled(*codes: str) -> Refusal:
    return _error("TransactionCanceledException", CancellationReasons=[{"Code": code} for code in codes])


def _ledger(client: Any) -> DynamoDbDeliveryLedger:
    return DynamoDbDeliveryLedger(table="t", owner="a", clock=FixedClock(), client=client)


IDS = ["r1", "r2", "r3", "r4"]
SLICES = {record_id: [result(0)] for record_id in IDS}


@pytest.mark.guarantee("delivery_ledger.conflict_fails_no_other")
@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_item_that_cancels_is_written_alone(code: str) -> None:
    client = AnsweringClient(_cancelled("None", code, "None", "None"))
    lease = Lease(valid_until=FixedClock().monotonic() + LEASE_S, fresh=True)
    assert _ledger(client).acquire_all(IDS) == dict.fromkeys(IDS, lease)
    assert client.asked == [IDS, ["r1", "r3", "r4"], ["r2"]]


def test_two_cancelled_transactions_end_in_single_writes() -> None:
    client = AnsweringClient(
        _cancelled("TransactionConflict", "None", "None", "None"), _cancelled("None", "TransactionConflict", "None")
    )
    assert _ledger(client).record_all(SLICES) == dict.fromkeys(IDS)
    assert client.asked == [IDS, IDS[1:], *([record_id] for record_id in IDS)]


def test_item_that_dynamodb_refuses_fails_its_record_alone() -> None:
    """DynamoDB's error for an invalid transaction does not name the item, so the items are written one by one."""
    refusal = _error("ValidationException", "Item size has exceeded the maximum allowed size")
    client = AnsweringClient(refusal)
    client.refused = {"r2": refusal}
    found = _ledger(client).record_all(SLICES)
    assert isinstance(found.pop("r2"), DeadLetter)
    assert found == dict.fromkeys(["r1", "r3", "r4"])


@pytest.mark.parametrize(
    ("code", "kind"),
    [("InternalServerError", Retry), ("TransactionInProgressException", Retry), ("AccessDeniedException", Stop)],
)
def test_failing_dynamodb_is_called_once_for_all_records(code: str, kind: type[Exception]) -> None:
    client = AnsweringClient(_error(code))
    found = _ledger(client).record_all(SLICES)
    assert {type(error) for error in found.values()} == {kind}
    assert client.asked == [IDS]


def test_conflict_of_a_single_write_is_a_retry_of_its_record() -> None:
    client = AnsweringClient(_cancelled("None", "TransactionConflict", "None", "None"))
    client.refused = {"r2": _error("TransactionConflictException")}
    found = _ledger(client).acquire_all(IDS)
    assert type(found.pop("r2")) is Retry
    assert all(isinstance(lease, Lease) and lease.fresh for lease in found.values())
