"""The batches that Lambda has discarded in on-demand mode, which it writes to the S3 destination of a mapping."""

from collections.abc import Iterator
from typing import Protocol


class DiscardedBatches(Protocol):
    """The interface of the store. Every method raises Retry if the store does not answer, or Stop if it is missing or
    refuses access.
    """

    # The name of the store, for log lines.
    name: str

    def keys(self) -> Iterator[str]:
        """Yield the keys of the stored batches."""
        ...

    def read(self, key: str) -> bytes | None:
        """Return a batch in Lambda's format for S3 destinations; None if it was removed."""
        ...

    def remove(self, key: str) -> None:
        """Remove a batch. It does not matter whether it is there."""
        ...
