"""Expansions of audiences in memory and on moto."""

from typing import Any

import pytest

from masscomm.errors import Retry
from masscomm.stores.expansions import Expansions, InMemoryExpansions, Progress
from masscomm.stores.expansions_dynamodb import DynamoDbExpansions
from tests.support.contracts.expansions import NOW, SEND, ConcurrentExpansionsContract, ExpansionsContract, chunk
from tests.support.servers.dynamodb_table import new_table


class TestInMemoryExpansions(ExpansionsContract, ConcurrentExpansionsContract):
    @pytest.fixture
    def expansions(self) -> Expansions:
        return InMemoryExpansions()


class TestMotoExpansions(ExpansionsContract):
    @pytest.fixture
    def expansions(self, moto_dynamodb: Any) -> Expansions:
        return DynamoDbExpansions(table=new_table(moto_dynamodb, "audience_expansions"), client=moto_dynamodb)

    def test_missing_or_damaged_chunk_is_a_retry(self, expansions: DynamoDbExpansions) -> None:
        with pytest.raises(Retry):
            list(expansions.chunks(SEND, 0, 1))
        expansions.record(SEND, 0, chunk(1), now_ms=NOW)
        expansions._client.update_item(
            TableName=expansions._table,
            Key={"send": {"S": SEND.text}, "part": {"S": "chunk#00000000"}},
            UpdateExpression="SET user_ids = :damaged",
            ExpressionAttributeValues={":damaged": {"B": b"x"}},
        )
        with pytest.raises(Retry):
            expansions.last(SEND)

    def test_progress_of_a_later_version_is_read(self, expansions: DynamoDbExpansions) -> None:
        progress = Progress(share=2, chunks=7, records=6)
        expansions.advance(SEND, progress, now_ms=NOW)
        expansions._client.update_item(
            TableName=expansions._table,
            Key={"send": {"S": SEND.text}, "part": {"S": "progress"}},
            UpdateExpression="SET later = :later",
            ExpressionAttributeValues={":later": {"S": "x"}},
        )
        assert expansions.progress(SEND) == progress
