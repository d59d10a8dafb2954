"""The tests that every store of API keys must pass, in memory and real."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from masscomm.errors import Retry
from masscomm.stores.api_keys.port import TEST, ApiKey, KeyRequest, KeyStore, MadeBefore, every_key, request_id

REQUEST = KeyRequest(id=request_id("k7", "order-1"), request="r" * 64, at_s=1_000)
KEY = ApiKey(digest="d" * 64, name="shop", clubs="7,8", scopes="read send", created_at=5)


class KeyStoreContract:
    """Subclasses define the fixture `keys`, an empty store."""

    def test_a_stored_key_keeps_each_property(self, keys: KeyStore) -> None:
        full = replace(
            KEY,
            digest="e" * 64,
            expires_at=9,
            last_used_at=6,
            requests_a_minute=1,
            recipients_a_day=2,
            mode=TEST,
            counted_under="person:ada",
        )
        for each in (KEY, full):
            keys.put(each)
        assert sorted(every_key(keys), key=lambda each: each.digest) == [KEY, full]

    def test_a_key_is_found_by_its_id(self, keys: KeyStore) -> None:
        other = replace(KEY, digest="e" * 64, created_at=6)
        keys.put(KEY)
        keys.put_once(other, REQUEST)
        assert [keys.find_by_id(each.key_id) for each in (KEY, other)] == [KEY, other]
        for unknown in ("f" * 16, "", "d" * 15, "D" * 16, KEY.digest, "person:ada", "d" * 3_000):
            assert keys.find_by_id(unknown) is None

    def test_pages_have_the_latest_keys_first(self, keys: KeyStore) -> None:
        """Keys of one second are in the order of their ids, and each key is on one page."""
        stored = [replace(KEY, digest=f"{number:064x}"[::-1], created_at=100 + number // 3) for number in range(10)]
        for each in stored:
            keys.put(each)
        found, before = list[ApiKey](), None
        for size in (4, 4, 2):
            page = keys.page(lambda _: True, before=before, limit=4)
            assert len(page.keys) == size
            found += page.keys
            before = page.next
        assert before is None
        assert found == sorted(stored, key=lambda each: (each.created_at, each.key_id), reverse=True)

    def test_a_page_has_the_keys_of_the_callers_clubs(self, keys: KeyStore) -> None:
        clubs = ["7", "8", "7,8", "*"]
        for number, text in enumerate(clubs * 2):
            keys.put(replace(KEY, digest=f"{number:064x}"[::-1], clubs=text, created_at=number))
        page = keys.page(lambda text: text == "7", before=None, limit=1)
        assert [(key.clubs, key.created_at) for key in page.keys] == [("7", 4)]
        last = keys.page(lambda text: text == "7", before=page.next, limit=1)
        assert ([key.created_at for key in last.keys], last.next) == ([0], None)

    def test_a_key_gets_an_end(self, keys: KeyStore) -> None:
        keys.put(KEY)
        assert keys.end(KEY.digest, 77)
        assert list(every_key(keys)) == [replace(KEY, expires_at=77)]

    @pytest.mark.kills(guard="api_keys.no_later_end")
    def test_a_key_gets_no_later_end(self, keys: KeyStore) -> None:
        keys.put(KEY)
        assert [keys.end(KEY.digest, end) for end in (77, 78, 77, 76)] == [True, False, False, True]
        assert list(every_key(keys)) == [replace(KEY, expires_at=76)]

    def test_an_unknown_key_gets_no_end(self, keys: KeyStore) -> None:
        assert not keys.end(KEY.digest, 77)
        assert list(every_key(keys)) == []

    @pytest.mark.kills(guard="api_keys.made_once")
    def test_a_repeated_request_stores_one_key(self, keys: KeyStore) -> None:
        other = replace(KEY, digest="e" * 64)
        assert keys.made_before(REQUEST) is None
        assert keys.put_once(KEY, REQUEST) is None
        made = MadeBefore(REQUEST.request, KEY.digest)
        for later in (REQUEST, replace(REQUEST, request="s" * 64, at_s=1_001)):
            assert keys.put_once(other, later) == keys.made_before(later) == made
        assert list(every_key(keys)) == [KEY] == [keys.find(KEY.digest)]
        assert keys.find(other.digest) is None

    def test_another_request_stores_another_key(self, keys: KeyStore) -> None:
        other = replace(KEY, digest="e" * 64)
        ids = [request_id("k7", "order-1"), request_id("k7", "order-2"), request_id("k8", "order-1")]
        assert len(set(ids)) == 3
        assert keys.put_once(KEY, REQUEST) is None
        assert keys.put_once(other, replace(REQUEST, id=ids[1])) is None
        assert len(list(every_key(keys))) == 2

    def test_a_request_a_day_later_stores_a_key(self, keys: KeyStore) -> None:
        other = replace(KEY, digest="e" * 64)
        assert keys.put_once(KEY, REQUEST) is None
        a_day_later = replace(REQUEST, at_s=REQUEST.at_s + 86_400)
        assert keys.made_before(a_day_later) is None
        assert keys.put_once(other, a_day_later) is None
        assert keys.made_before(a_day_later) == MadeBefore(REQUEST.request, other.digest)


class ConcurrentKeyStoreContract(KeyStoreContract):
    """The tests of stores whose writes are atomic across threads."""

    def test_concurrent_requests_store_one_key(self, keys: KeyStore) -> None:
        """A request that conflicts with another one is refused, and repeated by its caller."""

        def put(number: int) -> MadeBefore | None:
            made = replace(KEY, digest=f"{number}" * 64)
            return until_answered(lambda: keys.put_once(made, REQUEST))

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(put, range(8)))
        (stored,) = every_key(keys)
        assert answers.count(None) == 1
        assert {each for each in answers if each is not None} == {MadeBefore(REQUEST.request, stored.digest)}


def until_answered[T](call: Callable[[], T]) -> T:
    """Return the result of a call, which is repeated while it raises Retry."""
    while True:
        with suppress(Retry):
            return call()
