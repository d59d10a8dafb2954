"""Keeps the categories that operators have changed in memory, for a function or the job."""

from dataclasses import dataclass
from functools import cache

from masscomm.clock import Clock, SystemClock
from masscomm.domain.categories import is_listed, use_versions
from masscomm.domain.time_limits import CATEGORIES_CACHED_S
from masscomm.stores.categories.port import Categories


@dataclass(kw_only=True)
class KnownCategories:
    """Has the process use the stored categories. One that has changed begins later than CATEGORIES_CACHED_S."""

    store: Categories
    clock: Clock
    _revision: int | None = None
    # The time of the last read, by the monotonic clock; None: nothing has been read.
    _read_at_s: float | None = None

    def refresh(self, *names: object) -> bool:
        """Read changes if the last read was some time ago, or a name is not listed; return whether there were any.

        Raises:
            Retry, Stop: The versions that are valid now may be unknown, so that nothing may be decided by them.
        """
        now_s = self.clock.monotonic()
        is_fresh = self._read_at_s is not None and now_s - self._read_at_s < CATEGORIES_CACHED_S
        # guard: categories.new_category
        if is_fresh and all(is_listed(name) for name in names if isinstance(name, str)):
            return False
        return self.read()

    def read(self) -> bool:
        """Read changes; return whether there were any. Raises Retry or Stop."""
        now_s, revision = self.clock.monotonic(), self.store.revision()
        is_changed = revision != self._revision
        if is_changed:
            use_versions(self.store.every())
        self._revision, self._read_at_s = revision, now_s
        return is_changed


@cache
def known_categories() -> KnownCategories:
    """Return the categories of the function environment."""
    from masscomm.stores.categories.dynamodb import DynamoDbCategories

    return KnownCategories(store=DynamoDbCategories.from_environment(), clock=SystemClock())
