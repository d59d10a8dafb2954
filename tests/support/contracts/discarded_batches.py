"""The contract of the store of discarded batches, which the fake and S3 pass."""

from collections.abc import Callable

import pytest

from masscomm.stores.discarded_batches.port import DiscardedBatches

# The number of keys that a request to S3 lists.
PAGE = 2
# Puts an object into the store, as Lambda does.
type Put = Callable[[str, bytes], object]


class DiscardedBatchesContract:
    @pytest.fixture
    def stored(self) -> tuple[DiscardedBatches, Put]:
        raise NotImplementedError

    def test_stored_batch_is_read_until_it_is_removed(self, stored: tuple[DiscardedBatches, Put]) -> None:
        batches, put = stored
        assert list(batches.keys()) == []
        put("aws/lambda/f/one", b"1")
        put("aws/lambda/f/two", b"2")
        assert [batches.read(key) for key in batches.keys()] == [b"1", b"2"]  # noqa: SIM118 - not a dictionary
        for _ in range(2):
            batches.remove("aws/lambda/f/one")
        assert list(batches.keys()) == ["aws/lambda/f/two"]
        assert batches.read("aws/lambda/f/one") is None

    def test_batches_may_be_removed_while_they_are_listed(self, stored: tuple[DiscardedBatches, Put]) -> None:
        """There are more of them than one request lists."""
        batches, put = stored
        for number in range(2 * PAGE + 1):
            put(str(number), b"")
        seen = []
        for key in batches.keys():  # noqa: SIM118 - not a dictionary
            batches.remove(key)
            seen.append(key)
        assert seen == [str(number) for number in range(2 * PAGE + 1)]
        assert list(batches.keys()) == []
