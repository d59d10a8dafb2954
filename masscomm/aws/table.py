"""The base of adapters that use one DynamoDB table in few of their function's invocations."""

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from masscomm.aws.client import DynamoDb
from masscomm.aws.request import Limits

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class TableAdapter:
    """An adapter of one table. Each function environment has one instance.

    The client is created at the first request: most invocations need none, and a function that sends none needs no
    region and no table.

    Args:
        table: The table's name, by default TABLE.
        client: A client that tests provide.
    """

    # The table's name in schemas/dynamodb, and the environment variable that replaces it.
    TABLE: ClassVar[str]
    SETTING: ClassVar[str]
    LIMITS: ClassVar[Limits]

    def __init__(self, *, table: str | None = None, client: "DynamoDBClient | None" = None) -> None:
        self._table = self.TABLE if table is None else table
        self._given: Any = client

    @classmethod
    def from_environment(cls) -> Self:
        """Return the adapter of the table that the environment variable names."""
        return cls(table=os.environ.get(cls.SETTING))

    @cached_property
    def _client(self) -> Any:
        return self._given or DynamoDb(self.LIMITS)
