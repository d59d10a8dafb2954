"""DynamoDB's errors in AWS' own form, which DynamoDB Local does not produce.

Source: AWS documentation, "Error handling with DynamoDB" and TransactWriteItems.
"""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from masscomm.aws.dynamodb import ConditionFailed, ItemRefused, answering
from masscomm.errors import DeadLetter, Retry, Stop, Unlisted


def _answered(code: str, message: str = "", **more: Any) -> Exception:
    response: Any = {"Error": {"Code": code, "Message": message}, **more}
    with pytest.raises((DeadLetter, Retry, Stop, ConditionFailed)) as caught, answering("an item"):
        raise ClientError(response, "PutItem")
    return caught.value


@pytest.mark.kills(guard="dynamodb.refused_item")
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Item size has exceeded the maximum allowed size", "too_large"),
        ("Item size to update has exceeded the maximum allowed size", "too_large"),
        ("One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit", "too_large"),
        ("Aggregated size of all range keys has exceeded the size limit of 1024 bytes", "too_large"),
        ("Number overflow. Attempting to store a number with magnitude larger than supported range", "invalid"),
        ("Attempting to store more than 38 significant digits in a Number", "invalid"),
        ("The AttributeValue for a key attribute cannot contain an empty string value. Key: id", "invalid"),
    ],
)
def test_invalid_or_oversized_item_is_a_dead_letter(message: str, reason: str) -> None:
    error = _answered("ValidationException", message)
    assert isinstance(error, ItemRefused)
    assert error.reason == reason


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("ValidationException", "The provided key element does not match the schema"),
        ("ValidationException", "Invalid UpdateExpression: Syntax error"),
        ("ResourceNotFoundException", "Requested resource not found"),
        ("AccessDeniedException", "User is not authorized"),
    ],
)
def test_a_wrong_request_or_table_stops_the_function(code: str, message: str) -> None:
    assert isinstance(_answered(code, message), Stop)


@pytest.mark.guarantee("dynamodb_answer.unlisted")
@pytest.mark.kills(guard="dynamodb.unlisted_refusal")
@pytest.mark.parametrize("message", ["Supplied AttributeValue has more than one datatypes set", ""])
def test_unlisted_refusal_concerns_one_item(message: str) -> None:
    assert type(_answered("ValidationException", message)) is Unlisted


@pytest.mark.guarantee("dynamodb_answer.unavailable")
@pytest.mark.parametrize(
    "code",
    ["ProvisionedThroughputExceededException", "ThrottlingException", "InternalServerError"],
)
def test_transient_dynamodb_error_is_a_retry(code: str) -> None:
    assert isinstance(_answered(code), Retry)


@pytest.mark.parametrize(
    ("reasons", "kind"),
    [
        ([{"Code": "None"}, {"Code": "ConditionalCheckFailed"}], ConditionFailed),
        ([{"Code": "ValidationError", "Message": "Item size has exceeded the maximum allowed size"}], ItemRefused),
        ([{"Code": "ValidationError", "Message": "Type mismatch for key"}], Stop),
        ([{"Code": "TransactionConflict"}, {"Code": "None"}], Retry),
        ([{"Code": "ThrottlingError"}], Retry),
        ([], Retry),
    ],
)
def test_cancelled_transaction_raises_its_reason(reasons: list[dict[str, str]], kind: type[Exception]) -> None:
    assert type(_answered("TransactionCanceledException", CancellationReasons=reasons)) is kind
