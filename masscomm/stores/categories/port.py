"""The interface of the store of the categories that operators have changed."""

from collections.abc import Sequence
from typing import Protocol

from masscomm.domain.categories import CategoryVersion, Versions


class ChangedMeanwhile(Exception):
    """Another request has changed a category since the versions were read."""


class Categories(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def revision(self) -> int:
        """Return the number of changes of all categories. It is read consistently."""
        ...

    def every(self) -> Versions:
        """Return the versions of each category that has any. They are read consistently."""
        ...

    def put(self, name: str, versions: Sequence[CategoryVersion], *, revision: int) -> None:
        """Store the versions of a category.

        Args:
            name: The category.
            versions: Its versions, the earliest first.
            revision: The number of changes that was read before the versions were.

        Raises:
            ChangedMeanwhile: There has been another change, of this category or of another one.
        """
        ...
