"""The categories that operators have changed, in memory: each test has a store of its own."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from masscomm.domain import categories
from masscomm.domain.category_versions import next_versions
from masscomm.stores.categories.dynamodb import DynamoDbCategories
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from masscomm.stores.categories.port import Categories

NOW_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def stored_categories() -> Iterator[InMemoryCategories]:
    """The store that the functions of this process read. No version is known at the beginning."""
    store = InMemoryCategories()
    # The fixture monkeypatch would end after those of the modules of tests.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DynamoDbCategories, "from_environment", lambda: store)
        patched.setattr(categories, "_current", None)
        known_categories.cache_clear()
        yield store
        known_categories.cache_clear()


def put_version(store: Categories, name: str, fields: Mapping[str, Any], now_ms: int = NOW_MS) -> int:
    """Put a version of a category; return the time from which it is valid, in ms since the epoch."""
    before = store.every().get(name, ())
    after = next_versions(before, fields, name=name, now_ms=now_ms)
    store.put(name, after, revision=store.revision())
    return after[-1].from_ms
