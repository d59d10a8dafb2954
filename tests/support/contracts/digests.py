"""The contract of the store of digests."""

from collections.abc import Sequence

import pytest

from masscomm.domain.digest_members import ClosedDigest, DigestKey, Member, OpenDigest
from masscomm.stores.digests.port import ClosedKey, DigestChange, Digests, MemberKey

NOW = 1_700_000_000_000
KEY = DigestKey(7, 1, "push", "comments")
OTHER = KEY._replace(user_id=2)
NONE = OpenDigest()
OPEN = OpenDigest(number=3, due_ms=NOW, members=("a",), is_closed=False)
MEMBER = Member(3, {"author": "Ada"}, NOW + 1, "team:42")
CLOSED = ClosedDigest(
    closed_ms=NOW,
    sender="a",
    contents='{"count":1,"list":[{}]}',
    left_out={"b": "cancelled"},
    follows="team:42",
)


def joining(key: DigestKey = KEY, before: OpenDigest = NONE, members: Sequence[str] = ("a",)) -> DigestChange:
    return DigestChange(key, before, OPEN._replace(members=tuple(members)), joins=(members[-1], MEMBER))


class DigestsContract:
    @pytest.fixture
    def store(self) -> Digests:
        raise NotImplementedError

    def test_unknown_keys_are_absent(self, store: Digests) -> None:
        assert (store.read([KEY]), store.members([MemberKey(KEY, "a")]), store.closed([ClosedKey(KEY, 3)])) == (
            {},
            {},
            {},
        )

    def test_a_member_is_written_with_its_digest(self, store: Digests) -> None:
        assert store.write([joining(), joining(OTHER)]) == [True, True]
        assert store.read([KEY, OTHER]) == {key: OPEN._replace(revision=1) for key in (KEY, OTHER)}
        assert store.members([MemberKey(KEY, "a"), MemberKey(KEY, "b")]) == {MemberKey(KEY, "a"): MEMBER}

    def test_a_decision_is_written_with_its_digest(self, store: Digests) -> None:
        store.write([joining()])
        [head] = store.read([KEY]).values()
        closing = DigestChange(KEY, head, head._replace(is_closed=True, members=()), closed=CLOSED)
        assert store.write([closing]) == [True]
        assert store.read([KEY])[KEY] == OPEN._replace(is_closed=True, members=(), revision=2)
        assert store.closed([ClosedKey(KEY, 3), ClosedKey(KEY, 4)]) == {ClosedKey(KEY, 3): CLOSED}

    def test_of_two_changes_of_a_digest_one_is_written(self, store: Digests) -> None:
        store.write([joining()])
        [head] = store.read([KEY]).values()
        assert store.write([joining(before=head, members=["a", "b"])]) == [True]
        # The change of another user is written all the same.
        assert store.write([joining(before=head, members=["a", "c"]), joining(OTHER)]) == [False, True]
        assert store.read([KEY])[KEY].members == ("a", "b")
        assert store.members([MemberKey(KEY, "c")]) == {}

    def test_many_changes_are_written(self, store: Digests) -> None:
        keys = [KEY._replace(user_id=user_id) for user_id in range(1, 121)]
        assert store.write([joining(key) for key in keys]) == [True] * 120
        assert len(store.read(keys)) == 120
