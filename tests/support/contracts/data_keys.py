"""The tests that data keys must pass, in memory and of KMS."""

import pytest

from masscomm.aws.kms import DataKeys, KeyRefused

CONTEXT = {"purpose": "webhook-authentication", "endpoint": "ep_7"}


class DataKeysContract:
    """Subclasses define the fixture `keys`."""

    def test_a_key_is_decrypted_for_its_context(self, keys: DataKeys) -> None:
        key, other = keys.new(CONTEXT), keys.new(CONTEXT)
        assert len(key.plain) == 32
        assert key.plain != other.plain
        assert keys.decrypt(key.encrypted, dict(reversed(CONTEXT.items()))) == key.plain

    def test_another_context_is_refused(self, keys: DataKeys) -> None:
        key = keys.new(CONTEXT)
        for context in ({**CONTEXT, "endpoint": "ep_8"}, {}):
            with pytest.raises(KeyRefused):
                keys.decrypt(key.encrypted, context)

    def test_other_bytes_are_refused(self, keys: DataKeys) -> None:
        with pytest.raises(KeyRefused):
            keys.decrypt(b"x" * 100, CONTEXT)
