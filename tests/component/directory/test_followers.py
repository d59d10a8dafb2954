"""The cost of an audience of followers follows the followers, and not the tenant, on a real OpenSearch."""

from collections import Counter
from typing import Any

import pytest

from masscomm.directory.bulk_writes import VersionedDocument, write
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.domain.audiences import Audience
from tests.support.contracts.directory import USER, follow
from tests.support.servers.directory_tables import OpenSearchTables

FOLLOWERS = Audience(follows="team:42", document={"follows": "team:42"})
WRITTEN = 2_000


class Counting:
    """Counts the requests of a client, and the documents in the answers."""

    def __init__(self, tables: OpenSearchTables, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: Counter[str] = Counter()
        self.documents = 0
        for name in ("search", "mget"):
            monkeypatch.setattr(tables.client, name, self._counted(name, getattr(tables.client, name)))

    def _counted(self, name: str, call: Any) -> Any:
        def counted(*arguments: Any, **named: Any) -> Any:
            answer = call(*arguments, **named)
            self.requests[name] += 1
            self.documents += len(answer["docs"] if name == "mget" else answer["hits"]["hits"])
            return answer

        return counted


def filled(tables: OpenSearchTables, users: int, objects: int) -> None:
    """Write users and their follows: each user follows some objects of a tenant of this size, 50 of them team:42."""
    rows = [tables.documents.document(user, tables.documents.columns(user)) for user in map(_user, range(1, users + 1))]
    follows = [follow(user_id, name=f"{number}x") for user_id in range(1, users + 1) for number in range(objects)]
    follows += [follow(user_id) for user_id in range(1, users + 1, users // 50)]
    documents = [*rows, *tables.documents.optional("memberships", follows)]
    for start in range(0, len(documents), WRITTEN):
        some: list[VersionedDocument] = documents[start : start + WRITTEN]
        assert not any(write(tables.client, some))
    tables.client.indices.refresh(index=f"*-{tables.generation}")


def _user(user_id: int) -> Any:
    return USER._replace(user_id=user_id)


@pytest.mark.parametrize("users", [100, 400])
def test_cost_follows_the_followers(
    mapped_tables: OpenSearchTables, users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = mapped_tables
    filled(tables, users, 3)
    directory = OpenSearchDirectory(
        tables.client, progress=lambda _: tables.progress, clock=tables.clock, clock_skew_ms=0, page_size=20
    )
    cost = Counting(tables, monkeypatch)
    pages = list(directory.members_of_club(7, FOLLOWERS))
    assert sum(len(page.user_ids) for page in pages) == 50
    # Three pages of rows, and their users.
    assert (cost.requests, cost.documents) == (Counter(search=3, mget=3), 100)
    counts = list(directory.count_members(7, FOLLOWERS, ["email"]))
    assert sum(count.users for count in counts) == 50
    assert (cost.requests, cost.documents) == (Counter(search=6, mget=6), 200)
