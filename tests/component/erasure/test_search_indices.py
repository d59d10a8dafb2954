"""Erasing in OpenSearch itself, with two generations of the directory."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.receipts.sent_messages import MESSAGES, OpenSearchSentMessages, OutcomeWithTrace
from local.devstack.provision import create_indices
from masscomm.cdc.captured_tables import captured_tables
from masscomm.directory.bulk_writes import VersionedDocument, write
from masscomm.directory.preference_changes import OpenSearchPreferenceChanges
from masscomm.domain import suppressions
from masscomm.domain.preference_changes import ERASURE, PreferenceChanges, Wish
from masscomm.errors import Retry
from ops.erasure.person import ERASED_USER, Person
from ops.erasure.search_indices import SearchIndices
from tests.support.contracts.directory import follow
from tests.support.contracts.sent_messages import outcome
from tests.support.inputs.optional_tables import mapped
from tests.support.servers.opensearch_client import TestClient

OLD, SERVING = "erasing1", "erasing2"
ADDRESS = "ada.erased@example.org"
ARN, LATER_ARN, SHARED_ARN, OTHER_ARN = (
    f"arn:aws:sns:::endpoint/GCM/x/{name}" for name in ("own", "own-later", "shared", "moved")
)
EVERYWHERE = ",".join(
    [f"{table}-{generation}" for table in captured_tables() for generation in (OLD, SERVING)]
    + ["device_state", MESSAGES, "suppressions", "preference_changes"]
)


class Endpoints:
    """A fake of SNS. deleted: ARNs of the calls; gone: ARNs that do not exist; failing: error code of each call;
    deleting: called before each deletion.
    """

    def __init__(self, deleting: Callable[[], None] = lambda: None) -> None:
        self.deleted: list[str] = []
        self._deleting = deleting
        self.failing: str | None = None

    def delete_endpoint(self, *, EndpointArn: str) -> None:
        if self.failing is not None:
            raise ClientError({"Error": {"Code": self.failing, "Message": ""}}, "DeleteEndpoint")
        self._deleting()
        self.deleted.append(EndpointArn)


@pytest.fixture
def client(cluster: str) -> Iterator[TestClient]:
    client = TestClient(cluster, timeout_s=60)
    # Delete indices whose names the aliases need.
    client.indices.delete(index=f"{EVERYWHERE},{','.join(captured_tables())}", ignore_unavailable=True)
    for generation in (OLD, SERVING):
        create_indices(cluster, generation)
    actions = [{"add": {"index": f"{table}-{SERVING}", "alias": table}} for table in captured_tables()]
    client.indices.update_aliases(body={"actions": actions})
    yield client
    client.indices.delete(index=EVERYWHERE, ignore_unavailable=True)
    client.close()


def put(client: TestClient, index: str, name: str, version: int = 5, **source: Any) -> None:
    assert write(client, [VersionedDocument(index=index, id=name, version=version, source=source)]) == [None]


@pytest.fixture
def person(client: TestClient) -> Person:
    """User 7 of club 3 has devices 70, 71 and 72. In the serving generation 71 belongs to user 8, whose device 80 also
    has the token of 72.
    """
    for generation in (OLD, SERVING):
        for user_id in (7, 8):
            put(client, f"users-{generation}", str(user_id), club_id=3, email=f"{user_id}.{ADDRESS}", first_name="Ada")
            put(client, f"user_settings-{generation}", str(user_id), user_id=user_id, club_id=3)
        for device_id, user_id in ((70, 7), (71, 7 if generation == OLD else 8), (72, 7), (80, 8)):
            put(client, f"devices-{generation}", str(device_id), id=device_id, user_id=user_id, token=f"t{device_id}")
    for device_id, arn in ((70, ARN), (71, OTHER_ARN), (72, SHARED_ARN), (80, SHARED_ARN)):
        state: dict[str, Any] = {
            "token": f"t{device_id}",
            "endpoint_arn": arn,
            "enabled": True,
            "reason": None,
            "updated_at": 1,
        }
        state["generation"], state["row_version"] = OLD, 5
        if device_id == 70:
            state["others"] = [state | {"endpoint_arn": LATER_ARN, "generation": SERVING}]
        put(client, "device_state", str(device_id), **state)
    return Person(user_id=7, club_id=3)


def test_changed_preferences_are_erased(client: TestClient, person: Person) -> None:
    store = OpenSearchPreferenceChanges(client)
    for user_id in (7, 8):
        changes = PreferenceChanges(user_id=user_id, club_id=3).after([Wish("news", None, False)], None, 1)
        assert store.write(changes, after=None)
    indices = SearchIndices(client, Endpoints())
    assert (indices.erase_preference_changes(person), indices.erase_preference_changes(person)) == (1, 0)
    emptied, kept = store.read(7), store.read(8)
    assert emptied is not None
    assert kept is not None
    assert (emptied.changes.changes, emptied.changes.source, emptied.changes.is_produced) == ((), ERASURE, True)
    assert len(kept.changes.changes) == 1


def everything(client: TestClient) -> str:
    client.indices.refresh()
    hits = client.search(index="*", body={"size": 10_000, "query": {"match_all": {}}})["hits"]
    assert hits["total"]["value"] == len(hits["hits"])
    return json.dumps(hits["hits"])


@pytest.mark.guarantee("erasure.rows_of_every_generation")
def test_rows_of_every_generation_are_erased(client: TestClient, person: Person) -> None:
    indices = SearchIndices(client, Endpoints(), now_ms=lambda: 99)
    assert indices.learn(person)
    assert (person.clubs, person.addresses) == ({3}, {f"7.{ADDRESS}"})
    # The five devices are 70 and 72 of both generations, and 71 of the old one.
    assert indices.erase_rows(person) == 2 + 2 + 5
    assert f"7.{ADDRESS}" not in everything(client)
    assert f"8.{ADDRESS}" in everything(client)
    assert not indices.learn(Person(user_id=7, club_id=3))
    assert indices.erase_rows(person) == 0
    # A redelivered change that is older than the erasure is ignored; a later one would be applied.
    put(client, f"users-{SERVING}", "7", version=4, club_id=3, email=ADDRESS)
    assert client.get(index=f"users-{SERVING}", id="7")["_source"] == {"deleted": True, "deleted_at_ms": 99}


def test_followed_objects_of_a_person_are_erased(client: TestClient, person: Person, cluster: str) -> None:
    with mapped("memberships"):
        create_indices(cluster, SERVING)
        for user_id in (7, 8):
            id_, row = follow(user_id, club_id=3)
            put(client, f"memberships-{SERVING}", id_, **row)
        assert SearchIndices(client, Endpoints(), now_ms=lambda: 99).erase_rows(person) == 2 + 2 + 5 + 1
        erased, kept = (client.get(index=f"memberships-{SERVING}", id=follow(user)[0])["_source"] for user in (7, 8))
        assert (erased, kept["object"]) == ({"deleted": True, "deleted_at_ms": 99}, "42")
        client.indices.delete(index=f"memberships-{SERVING}")


@pytest.mark.kills(guard="erasure.moved_token")
def test_endpoint_of_a_moved_token_is_not_deleted(client: TestClient, person: Person) -> None:
    put(client, "device_state", "80", 6, token="t72", endpoint_arn=SHARED_ARN, enabled=False, reason="token_moved")
    endpoints = Endpoints()
    SearchIndices(client, endpoints).erase_endpoints(person)
    assert SHARED_ARN not in endpoints.deleted


@pytest.mark.guarantee("erasure.shared_endpoint_stays")
@pytest.mark.kills(guard="erasure.other_users_endpoints")
def test_only_endpoints_without_other_users_are_deleted(client: TestClient, person: Person) -> None:
    endpoints = Endpoints()
    indices = SearchIndices(client, endpoints)
    assert indices.erase_endpoints(person) == 2
    assert sorted(endpoints.deleted) == [ARN, LATER_ARN]
    texts = everything(client)
    assert ARN not in texts
    assert OTHER_ARN in texts
    state = client.get(index="device_state", id="80")["_source"]
    assert (state["endpoint_arn"], state["enabled"]) == (SHARED_ARN, True)
    assert client.get(index="device_state", id="71")["_source"]["endpoint_arn"] == OTHER_ARN
    erased = client.get(index="device_state", id="70")["_source"]
    # Rows that are older than the erased ones change nothing.
    assert [(each["generation"], each["row_version"]) for each in (erased, *erased["others"])] == [
        (OLD, 5),
        (SERVING, 5),
    ]
    assert indices.erase_endpoints(person) == 0
    assert sorted(endpoints.deleted) == [ARN, LATER_ARN]


@pytest.mark.kills(guard="erasure.changed_device_state")
def test_state_that_changes_meanwhile_is_erased_again(client: TestClient, person: Person) -> None:
    state = client.get(index="device_state", id="72")["_source"]
    endpoints = Endpoints(lambda: put(client, "device_state", "72", version=9, **state))
    with pytest.raises(Retry):
        SearchIndices(client, endpoints).erase_endpoints(person)
    assert SearchIndices(client, Endpoints()).erase_endpoints(person) == 1


def test_endpoint_with_a_failed_deletion_keeps_its_state(client: TestClient, person: Person) -> None:
    endpoints = Endpoints()
    endpoints.failing = "Throttled"
    with pytest.raises(Retry):
        SearchIndices(client, endpoints).erase_endpoints(person)
    assert client.get(index="device_state", id="70")["_source"]["endpoint_arn"] == ARN
    endpoints.failing = "NotFound"
    assert SearchIndices(client, endpoints).erase_endpoints(person) == 2


def test_messages_keep_ids_and_positions_without_the_user(client: TestClient, person: Person) -> None:
    """A message without its user keeps its position, so that a later receipt is counted."""
    messages = OpenSearchSentMessages(client)
    sent = [
        OutcomeWithTrace(outcome("own", [["m1"], ["m2"]], user_ids=[7, 8], club_id=3)),
        OutcomeWithTrace(outcome("another tenant's", [["m3"]], user_ids=[7], club_id=4)),
    ]
    assert messages.store(sent) == [None, None]
    indices = SearchIndices(client, Endpoints())
    assert indices.erase_messages(person) == 1
    client.indices.refresh(index=MESSAGES)
    found = messages.find(["m1", "m2", "m3"])
    assert [(found[name].user_id, found[name].position) for name in ("m1", "m2", "m3")] == [
        (ERASED_USER, 500),
        (8, 501),
        (7, 500),
    ]
    assert indices.erase_messages(person) == 0


def test_suppressions_of_known_addresses_are_erased(client: TestClient, person: Person) -> None:
    """Suppressions of other clubs remain."""
    person.addresses = {ADDRESS, "never@example.org"}
    own, another_clubs = suppressions.id_of(3, ADDRESS), suppressions.id_of(4, ADDRESS)
    anothers = suppressions.id_of(3, "bob@example.org")
    for name in (own, another_clubs, anothers):
        put(client, suppressions.INDEX, name, reason="bounced", at=1, expires_at=2)
    indices = SearchIndices(client, Endpoints())
    assert indices.erase_suppressions(person) == 1
    client.indices.refresh(index=suppressions.INDEX)
    left = client.search(index=suppressions.INDEX, body={"query": {"match_all": {}}})["hits"]["hits"]
    assert {hit["_id"] for hit in left if hit["_source"]["expires_at"]} == {another_clubs, anothers}
    assert indices.erase_suppressions(person) == 0
