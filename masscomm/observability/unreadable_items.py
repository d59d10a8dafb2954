"""Stored items that cannot be read: sweeps and lists skip, log and count them, so that one item stops no other."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from masscomm.errors import Retry
from masscomm.observability import metrics
from masscomm.observability.metric_names import UNREADABLE_ITEMS

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

_ERROR_CHARACTERS = 500
# What reading a damaged item raises; readers raise Retry where they find the damage.
DAMAGE = (Retry, LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, kw_only=True)
class UnreadableItem:
    """An item of a store that cannot be read. It stays there until an operator repairs or removes it."""

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


def read_each[S, T](
    stored: Iterable[S], read: Callable[[S], T], *, store: str, key: Callable[[S], Mapping[str, str]]
) -> Iterator[T]:
    """Yield what `read` returns for each item. An item that it cannot read is logged and counted.

    Args:
        stored: The items.
        read: Returns the value of an item, without a request to the store.
        store: The name of the table or index.
        key: Returns the attributes of an item's key.
    """
    for each in stored:
        try:
            found = read(each)
        except DAMAGE as error:  # guard: stored.unreadable_item
            report_unreadable(UnreadableItem(store=store, key=key(each), error=described(error)))
            continue
        yield found


def described(error: Exception) -> str:
    """Return the text of an error of DAMAGE."""
    return str(error) if isinstance(error, Retry) else repr(error)


def report_unreadable(item: UnreadableItem, logger: "Logger | None" = None) -> None:
    """Log and count an item that cannot be read. Without a logger, the line is in the function's own log."""
    metrics.add(UNREADABLE_ITEMS)
    error = item.error[:_ERROR_CHARACTERS]
    (logger or _default_logger()).error(
        "a stored item cannot be read", store=item.store, key=dict(item.key), error=error
    )


@cache
def _default_logger() -> "Logger":
    # The streaming job imports this module, and has no Powertools.
    from masscomm.observability import logs

    return logs.logger("masscomm")
