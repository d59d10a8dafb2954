from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from functions.receipts.sent_messages import MESSAGES, OpenSearchSentMessages, OutcomeWithTrace, SentMessages
from local.devstack.config import StackConfig
from local.devstack.provision import create_indices
from masscomm.directory.bulk_writes import VersionedDocument, write
from masscomm.domain.time_limits import SENT_MESSAGES_KEPT_S
from masscomm.errors import Retry
from tests.support.contracts.sent_messages import SentMessagesContract, outcome
from tests.support.harness.chain import NOW
from tests.support.servers.opensearch_client import TestClient


class Counting(TestClient):
    searches = 0

    def search(self, *args: Any, **options: Any) -> Any:
        Counting.searches += 1
        return super().search(*args, **options)


@pytest.fixture
def client(cluster: str) -> Iterator[TestClient]:
    client = TestClient(cluster)
    for index in (MESSAGES, "device_state"):
        client.indices.delete(index=index, ignore_unavailable=True)
    create_indices(cluster, "g1")
    yield client
    client.close()


class TestOpenSearchMessages(SentMessagesContract):
    @pytest.fixture
    def messages(self, client: TestClient) -> SentMessages:
        self.client = client
        return OpenSearchSentMessages(client)

    def await_removal(self, messages: SentMessages) -> None:
        # The removal runs in the background, so it may be finished, not begun or running. Only a removal by this call
        # refreshes the index itself.
        old = {"query": {"range": {"told_at": {"lt": NOW - SENT_MESSAGES_KEPT_S * 1000}}}}
        self.client.delete_by_query(index=MESSAGES, body=old, params={"conflicts": "proceed"})
        self.client.indices.refresh(index=MESSAGES)

    def test_an_endpoint_names_its_enabled_device(self, client: TestClient, messages: SentMessages) -> None:
        for device_id, arn, enabled in ((11, "arn:11", True), (12, "arn:12", False)):
            source: dict[str, Any] = {
                "token": "t",
                "endpoint_arn": arn,
                "enabled": enabled,
                "reason": None,
                "updated_at": 1,
            }
            source["others"] = [source | {"endpoint_arn": f"{arn}-later", "generation": "later"}]
            document = VersionedDocument(index="device_state", id=str(device_id), version=1, source=source)
            assert write(client, [document]) == [None]
        client.indices.refresh(index="device_state")
        assert messages.devices(["arn:11", "arn:12", "arn:13"]) == {"arn:11": 11}
        assert messages.devices(["arn:11-later", "arn:12-later"]) == {"arn:11-later": 11}


def test_addresses_are_those_of_known_users(client: TestClient) -> None:
    generation = f"t{uuid4().hex[:8]}"
    create_indices(client._url, generation)
    actions: list[dict[str, Any]] = [{"remove": {"index": "users-*", "alias": "users", "must_exist": False}}]
    actions.append({"add": {"index": f"users-{generation}", "alias": "users"}})
    client.indices.update_aliases(body={"actions": actions})
    rows: list[dict[str, Any]] = [{"club_id": 7, "email": "a@b.example"}, {"club_id": 7}]
    rows.append({"club_id": 7, "email": "gone@b.example", "deleted": True})
    documents = [
        VersionedDocument(index=f"users-{generation}", id=str(user_id), version=1, source=source)
        for user_id, source in enumerate(rows, start=1)
    ]
    assert not any(write(client, documents))
    assert OpenSearchSentMessages(client).addresses({1, 2, 3, 4}, "email") == {1: "a@b.example"}
    client.indices.delete(index=f"users-{generation}")
    with pytest.raises(Retry):
        OpenSearchSentMessages(client).addresses({1}, "email")


def test_a_hundred_receipts_of_one_record_cost_one_search(opensearch: StackConfig, client: TestClient) -> None:
    messages = OpenSearchSentMessages(client)
    messages.store([OutcomeWithTrace(outcome("a", [[str(n)] for n in range(500)]))])
    client.indices.refresh(index=MESSAGES)
    counting = Counting(opensearch.opensearch_url)
    assert len(OpenSearchSentMessages(counting).find([str(n) for n in range(500)])) == 500
    assert Counting.searches == 5
    counting.close()


@pytest.mark.kills(guard="stored.unreadable_item")
def test_unreadable_messages_hide_no_others(client: TestClient) -> None:
    messages = OpenSearchSentMessages(client)
    messages.store([OutcomeWithTrace(outcome(name, [[name]])) for name in ("a", "c")])
    damaged: dict[str, dict[str, Any]] = {"b": {"outcome": {"user_ids": "all"}}, "b2": {}}
    for name, columns in damaged.items():
        client.index(index=MESSAGES, id=name, body={"message_ids": [name], "told_at": NOW, **columns})
    assert messages.find(["a", "b", "b2", "c"]).keys() == {"a", "c"}


def test_absent_messages_index_is_a_retry(client: TestClient) -> None:
    client.indices.delete(index=MESSAGES)
    with pytest.raises(Retry):
        OpenSearchSentMessages(client).find(["1"])
