"""Stored items that cannot be read: sweeps skip, log and count them, so that one item stops no other."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from masscomm.observability import metrics
from masscomm.observability.metric_names import UNREADABLE_ITEMS

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

_ERROR_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class UnreadableItem:
    """An item of a store that a sweep cannot process. It stays there until an operator repairs or removes it."""

    # The name of the table or index.
    store: str
    # The attributes of the item's key, by which an operator finds it.
    key: Mapping[str, str]
    error: str


def readable[T](found: Iterable[T | UnreadableItem], logger: "Logger") -> Iterator[T]:
    """Yield the items that were read. Each of the others is logged and counted."""
    for each in found:
        if isinstance(each, UnreadableItem):
            report_unreadable(each, logger)
        else:
            yield each


def report_unreadable(item: UnreadableItem, logger: "Logger") -> None:
    """Log and count an item that cannot be read."""
    metrics.add(UNREADABLE_ITEMS)
    error = item.error[:_ERROR_CHARACTERS]
    logger.error("a stored item cannot be read", store=item.store, key=dict(item.key), error=error)
