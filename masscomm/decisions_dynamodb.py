"""First decisions on DynamoDB: the table of schemas/dynamodb/decisions.json, one conditional write a record."""

import os
from typing import TYPE_CHECKING, Any, Self

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from masscomm.aws_client import DynamoDb
from masscomm.aws_request import Limits
from masscomm.clock import Clock
from masscomm.decisions import KEPT_S
from masscomm.errors import DeadLetter, Retry, Stop

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "decisions"
# An item takes 400 kB, names and all.
_MAX_BYTES = 390_000
_WRONG = {"ResourceNotFoundException", "AccessDeniedException", "ValidationException", "UnrecognizedClientException"}


class DynamoDbDecisionLog:
    """One for each function environment, for all its threads; connections: calls at once; client: for tests."""

    def __init__(
        self, *, clock: Clock, table: str = TABLE, connections: int = 10, client: "DynamoDBClient | None" = None
    ) -> None:
        self._clock = clock
        self._table = table
        self._client: Any = client or DynamoDb(Limits(connections=connections, connect_s=1, read_s=2, attempts=3))

    @classmethod
    def from_environment(cls, *, clock: Clock) -> Self:
        """The table of DECISIONS_TABLE, or as schemas/dynamodb calls it."""
        return cls(clock=clock, table=os.environ.get("DECISIONS_TABLE", TABLE))

    def first(self, record_id: str, decided: bytes) -> bytes:
        if len(decided) > _MAX_BYTES:
            raise DeadLetter("too_large", f"the decisions of one record take {len(decided)} bytes")
        try:
            self._client.put_item(
                TableName=self._table,
                Item={
                    "record_id": {"S": record_id},
                    "decided": {"B": decided},
                    "expires_at": {"N": str(self._clock.now_ms() // 1000 + KEPT_S)},
                },
                ConditionExpression="attribute_not_exists(record_id)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except NoCredentialsError as error:
            raise Stop(f"DynamoDB cannot be asked: {error}") from error
        except ClientError as error:
            return _standing(error)
        except BotoCoreError as error:
            raise Retry(f"DynamoDB does not answer: {type(error).__name__}") from error
        return decided


def _standing(error: ClientError) -> bytes:
    """What was recorded before, which the refusal brings along. Errors: Retry, Stop for any other refusal."""
    code = error.response.get("Error", {}).get("Code", "")
    if code == "ConditionalCheckFailedException":
        item: Any = error.response.get("Item", {})
        return bytes(item["decided"]["B"])
    if code in _WRONG:
        raise Stop(f"DynamoDB refuses first decisions: {error}") from error
    raise Retry(f"DynamoDB did not take first decisions: {code}") from error
