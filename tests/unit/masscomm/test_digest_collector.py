"""Digests under concurrency, in memory and on moto, and their items."""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from masscomm.chain.digest_collector import DigestCollector
from masscomm.clock import FixedClock
from masscomm.decisions.chunk import Chunk
from masscomm.decisions.digests import every_candidate
from masscomm.decisions.plan import DirectoryView
from masscomm.domain.digest_members import OpenDigest
from masscomm.domain.digests import Digest
from masscomm.domain.statuses import Status
from masscomm.domain.time_limits import DIGESTS_KEPT_S
from masscomm.domain.users import User
from masscomm.errors import Retry
from masscomm.stores.digests.dynamodb import DynamoDbDigests
from masscomm.stores.digests.in_memory import InMemoryDigests
from masscomm.stores.digests.port import ClosedKey, Digests, MemberKey
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.contracts.digests import KEY, NOW, DigestsContract, joining
from tests.support.harness.chain import recheck
from tests.support.servers.dynamodb_table import new_table

HOURLY = Digest(template="comments_digest", window="1h")
MINUTE = 60_000


class TestInMemoryDigests(DigestsContract):
    @pytest.fixture
    def store(self) -> Digests:
        return InMemoryDigests()


class TestMotoDigests(DigestsContract):
    @pytest.fixture
    def table(self, moto_dynamodb: Any) -> str:
        return new_table(moto_dynamodb, "frequency_caps")

    @pytest.fixture
    def store(self, moto_dynamodb: Any, table: str) -> Digests:
        return DynamoDbDigests(table=table, client=moto_dynamodb)

    def test_items_expire_after_their_digest(self, store: Digests, moto_dynamodb: Any, table: str) -> None:
        store.write([joining()])
        expiry = {item["expires_at"]["N"] for item in moto_dynamodb.scan(TableName=table)["Items"]}
        assert expiry == {str(NOW // 1000 + round(DIGESTS_KEPT_S))}

    @pytest.mark.parametrize(
        "damage", [{"members": {"S": "?"}}, {"revision": {"S": "?"}}, {"is_closed": {"NULL": True}}]
    )
    def test_a_damaged_digest_concerns_its_key_alone(
        self, store: Digests, moto_dynamodb: Any, table: str, damage: Mapping[str, Any]
    ) -> None:
        store.write([joining(), joining(KEY._replace(user_id=2))])
        for item in moto_dynamodb.scan(TableName=table)["Items"]:
            if item["recipient"]["S"] == "7#1":
                moto_dynamodb.put_item(TableName=table, Item={**item, **damage, "document": {"S": "?"}})
        found = store.read([KEY, KEY._replace(user_id=2)])
        assert [head.is_damaged for head in found.values()].count(True) == 1
        assert found[KEY] == OpenDigest(is_damaged=True)
        assert store.members([MemberKey(KEY, "a")]) == {}


class Environment:
    """A collector, and the requests of sends to users."""

    def __init__(self, store: Digests) -> None:
        self.clock = FixedClock(NOW)
        self.store = store
        self.collector = DigestCollector(store=store, sends=InMemorySends(self.clock), clock=self.clock)

    def collect(self, number: int, users: list[int]) -> set[Status | None]:
        """Collect the notifications of a send, as often as others change their digests; return their statuses."""
        chunk = Chunk(request=recheck(users, send_id=f"s{number}", type="comments"))
        view = DirectoryView(users={user: User(user_id=user, club_id=7) for user in users}, settings={})
        wanted = list(every_candidate(chunk.request, HOURLY, view))
        while True:
            try:
                found = self.collector.collect(chunk, HOURLY, wanted, lambda: True)
            except Retry:  # The record comes again.
                continue
            return {decision.status for decision in found.decisions["push"].values()}

    def settle(self, number: int, users: list[int]) -> list[tuple[int, str | None]]:
        """Settle the notifications of a send; return (user, contents) of the messages that its record produces."""
        chunk = Chunk(request=recheck(users, send_id=f"s{number}", type="comments", why="digest"))
        while True:
            try:
                found = self.collector.settle(chunk, HOURLY, DirectoryView(users={}, settings={}), lambda: True)
            except Retry:
                continue
            assert {decision.status for decision in found.decisions["push"].values()} == {Status.DIGESTED}
            return [(message.to_users[0], message.collected) for message in found.messages]


@pytest.mark.guarantee("digests.exact")
@pytest.mark.parametrize("store", ["memory", "moto"])
def test_concurrent_sends_are_in_one_message_of_each_user(store: str, request: pytest.FixtureRequest) -> None:
    users, sends = list(range(1, 6)), range(8)
    if store == "moto":
        client: Any = request.getfixturevalue("moto_dynamodb")
        environment = Environment(DynamoDbDigests(table=new_table(client, "frequency_caps"), client=client))
    else:
        environment = Environment(InMemoryDigests())
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda number: environment.collect(number, users), sends)) == [{Status.COLLECTED}] * 8
        environment.clock.advance(3_660)
        produced = [each for some in pool.map(lambda number: environment.settle(number, users), sends) for each in some]
    contents = f'{{"count":{len(sends)},"list":['
    assert Counter(user for user, _ in produced) == dict.fromkeys(users, 1)
    assert all(text is not None and text.startswith(contents) for _, text in produced)


class Counting(InMemoryDigests):
    """A store that counts the items that are read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.items = Counter[str]()

    def read(self, keys: Any) -> Any:
        self.items["read"] += len(keys := list(keys))
        return super().read(keys)

    def members(self, keys: Any) -> Any:
        self.items["read"] += len(keys := list(keys))
        return super().members(keys)

    def write(self, changes: Any) -> list[bool]:
        self.items["written"] += 2 * len(changes)
        return super().write(changes)


def test_a_member_reads_and_writes_two_items() -> None:
    store = Counting()
    Environment(store).collect(0, list(range(1, 101)))
    assert store.items == {"read": 200, "written": 200}


def test_a_closed_digest_is_decided_once() -> None:
    environment = Environment(InMemoryDigests())
    environment.collect(0, [1])
    environment.clock.advance(3_660)
    [(_, first)] = environment.settle(0, [1])
    environment.clock.advance(86_400)
    assert environment.settle(0, [1]) == [(1, first)]
    [key] = environment.store.read([KEY._replace(key=HOURLY.key_of("comments", {}))])
    assert len(environment.store.closed([ClosedKey(key, NOW + 3_640_000)])) == 1
