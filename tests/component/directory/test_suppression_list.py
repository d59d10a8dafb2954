"""The list of suppressions in OpenSearch keeps the contract."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from functions.receipts.sent_messages import OpenSearchSentMessages
from local.devstack.provision import create_indices
from masscomm.directory.bulk_writes import VersionedDocument, write
from masscomm.directory.suppression_list import OpenSearchSuppressionList, StoredSuppression, SuppressionList
from masscomm.domain.sms_answers import Word
from masscomm.domain.suppressions import INDEX, NumberAnswer
from tests.support.contracts.suppression_list import Made, SuppressionListContract
from tests.support.servers.opensearch_client import TestClient


class TestOpenSearchSuppressionList(SuppressionListContract):
    @pytest.fixture
    def made(self, cluster: str) -> Iterator[Made]:
        create_indices(cluster, "g1")
        client = TestClient(cluster)
        everything: dict[str, Any] = {"query": {"match_all": {}}}
        client.indices.refresh(index=INDEX)
        client.delete_by_query(index=INDEX, body=everything, params={"refresh": True, "conflicts": "proceed"})

        def written(rows: Sequence[StoredSuppression]) -> SuppressionList:
            # OpenSearch keeps the version of a deleted document for a minute, and refuses an older one.
            version = time.time_ns()
            documents = [
                VersionedDocument(index=INDEX, id=row.id, version=version, source=_source(row)) for row in rows
            ]
            assert write(client, documents) == [None] * len(rows)
            client.indices.refresh(index=INDEX)
            return OpenSearchSuppressionList(client)

        yield written
        client.delete_by_query(index=INDEX, body=everything, params={"refresh": True})
        client.close()

    def test_answer_that_lifts_is_no_suppression(self, made: Made, cluster: str) -> None:
        found = made([])
        client = TestClient(cluster)
        number, at_ms = "+4915123456789", 1_700_000_000_000
        stop, start = NumberAnswer(7, number, Word.STOP, at_ms), NumberAnswer(7, number, Word.START, at_ms + 1)
        shown: list[list[str]] = []
        for answer in (stop, start):
            assert OpenSearchSentMessages(client).answer([answer]) == [answer]
            client.indices.refresh(index=INDEX)
            page = found.page(clubs=[7], address_id=None, limit=5, after=None)
            shown.append([row.reason for row in page.rows])
        assert shown == [["opted_out"], []]
        assert not found.remove(stop.id)
        client.close()


def _source(row: StoredSuppression) -> dict[str, object]:
    return {
        "club_id": row.club_id,
        "address_id": row.address_id,
        "reason": row.reason,
        "at": row.at_ms,
        "expires_at": row.expires_at_ms,
    }
