"""DynamoDB's permanent errors are assigned to the item, to the installation or to a temporary fault.

Source: AWS documentation, "Service, account, and table quotas in Amazon DynamoDB" (400 KB an item, 2,048 and 1,024
bytes a key, 38 digits a number), "Error handling with DynamoDB" and TransactionCanceledException.
"""

from typing import Any

import pytest

from local.devstack.config import StackConfig
from masscomm.aws.dynamodb import ConditionFailed, ItemRefused, answering
from masscomm.errors import Stop
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]

KEY = {"record_id": {"S": "a"}}


@pytest.fixture(scope="module")
def table(localstack: StackConfig) -> str:
    return new_table(dynamodb(localstack), "decisions")


@pytest.mark.guarantee("dynamodb_answer.refused_item")
@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({**KEY, "decided": {"B": b"x" * 409_600}}, "too_large"),
        ({"record_id": {"S": "x" * 2_049}}, "too_large"),
        ({"record_id": {"S": ""}}, "invalid"),
        ({**KEY, "n": {"N": "1e126"}}, "invalid"),
        ({**KEY, "n": {"N": "1" * 39}}, "invalid"),
    ],
    ids=["an item", "a key", "an empty key", "a number too large", "a number too long"],
)
def test_invalid_or_oversized_item_is_refused(
    table: str, functions_client: Any, item: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ItemRefused) as caught, answering("an item"):
        functions_client.put_item(TableName=table, Item=item)
    assert caught.value.reason == reason


@pytest.mark.guarantee("dynamodb_answer.oversized_update")
def test_update_that_makes_an_item_too_large_is_refused(table: str, functions_client: Any) -> None:
    functions_client.put_item(TableName=table, Item={**KEY, "a": {"B": b"x" * 300_000}})
    with pytest.raises(ItemRefused) as caught, answering("an item"):
        functions_client.update_item(
            TableName=table,
            Key=KEY,
            UpdateExpression="SET b = :b",
            ExpressionAttributeValues={":b": {"B": b"x" * 200_000}},
        )
    assert caught.value.reason == "too_large"


@pytest.mark.guarantee("dynamodb_answer.other_key_schema")
@pytest.mark.parametrize(
    "item", [{"another key": {"S": "a"}}, {"record_id": {"N": "1"}}], ids=["another table's", "another type"]
)
def test_table_with_other_keys_stops_the_function(table: str, functions_client: Any, item: dict[str, Any]) -> None:
    with pytest.raises(Stop), answering("an item"):
        functions_client.put_item(TableName=table, Item=item)


@pytest.mark.guarantee("dynamodb_answer.no_table")
def test_absent_table_is_a_stop(functions_client: Any) -> None:
    with pytest.raises(Stop), answering("an item"):
        functions_client.put_item(TableName="absent", Item=KEY)


@pytest.mark.guarantee("dynamodb_answer.failed_condition")
def test_failed_condition_does_not_refuse_the_item(table: str, functions_client: Any) -> None:
    functions_client.put_item(TableName=table, Item=KEY)
    with pytest.raises(ConditionFailed), answering("an item"):
        functions_client.put_item(TableName=table, Item=KEY, ConditionExpression="attribute_not_exists(record_id)")


@pytest.mark.guarantee("dynamodb_answer.cancelled_transaction")
def test_cancelled_transaction_raises_its_reason(localstack: StackConfig, table: str) -> None:
    client: Any = dynamodb(localstack)
    client.put_item(TableName=table, Item=KEY)

    def put(item: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"Put": {"TableName": table, "Item": item, **more}}

    other = put({"record_id": {"S": "other"}})
    taken = put(dict(KEY), ConditionExpression="attribute_not_exists(record_id)")
    with pytest.raises(ConditionFailed), answering("items"):
        client.transact_write_items(TransactItems=[other, taken])
    with pytest.raises(ItemRefused) as caught, answering("items"):
        client.transact_write_items(TransactItems=[other, put({**KEY, "a": {"B": b"x" * 409_600}})])
    assert caught.value.reason == "too_large"
    assert "Item" not in client.get_item(TableName=table, Key={"record_id": {"S": "other"}})
