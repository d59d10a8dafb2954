"""The tests that every store of API keys must pass, in memory and real."""

from dataclasses import replace

from masscomm.stores.api_keys import TEST, ApiKey, KeyStore

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
        )
        for each in (KEY, full):
            keys.put(each)
        assert sorted(keys.all(), key=lambda each: each.digest) == [KEY, full]

    def test_a_key_gets_an_end(self, keys: KeyStore) -> None:
        keys.put(KEY)
        assert keys.end(KEY.digest, 77)
        assert list(keys.all()) == [replace(KEY, expires_at=77)]

    def test_an_unknown_key_gets_no_end(self, keys: KeyStore) -> None:
        assert not keys.end(KEY.digest, 77)
        assert list(keys.all()) == []
