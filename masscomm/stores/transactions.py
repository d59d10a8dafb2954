"""Writes many records' items in few DynamoDB transactions, with a separate answer for each record.

BatchWriteItem supports no conditions, so that it would overwrite a lease or a recorded slice. A transaction has a
condition for each item, at twice the write units of single writes. A cancelled transaction writes nothing and names the
items that failed. These items are then written alone, and the others in one more transaction.

Source: AWS documentation, API reference of TransactWriteItems (100 actions, 4 MB) and BatchWriteItem, and DynamoDB
developer guide, "Amazon DynamoDB Transactions: How it works" (two underlying writes for each item).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from masscomm.errors import DeadLetter, MasscommError

MAX_ITEMS = 100
MAX_BYTES = 4_000_000
# The largest number of transactions for one set of items. Conflicts are rare, and a second cancelled transaction costs
# more than single writes.
_TRANSACTIONS = 2


def write_all[V](
    sizes: Mapping[str, int | None],
    *,
    transact: Callable[[Sequence[str]], Mapping[str, Callable[[], V]]],
    alone: Callable[[str], V],
    items: Mapping[str, int] | None = None,
) -> dict[str, V | MasscommError]:
    """Write one item for each record; return an answer for each record. An error is the answer of its record only.

    Args:
        sizes: The size in bytes of each record's item; None if the item cannot be part of a transaction.
        transact: Writes the items of the given records in one transaction. Its result has a callable per record, which
            returns the record's answer or raises its error. If the transaction was cancelled, the result has only the
            records that cancelled it.
        alone: Writes the item of one record.
        items: The number of items of each record; None: each has one.
    """
    answers: dict[str, Callable[[], V]] = {}
    found: dict[str, V | MasscommError] = {}
    for batch in _batches(sizes, items or {}):
        remaining = batch
        for _ in range(_TRANSACTIONS):
            if len(remaining) < 2:
                break
            try:
                answers |= transact(remaining)
            except DeadLetter:
                # DynamoDB refused the request without naming the invalid item.
                break
            except MasscommError as error:
                found |= dict.fromkeys(remaining, error)
                break
            remaining = [record_id for record_id in remaining if record_id not in answers]
    for record_id in sizes:
        if record_id not in found:
            found[record_id] = _answer(answers.get(record_id, partial(alone, record_id)))
    return {record_id: found[record_id] for record_id in sizes}


def _answer[V](write: Callable[[], V]) -> V | MasscommError:
    try:
        return write()
    except MasscommError as error:
        return error


def _batches(sizes: Mapping[str, int | None], items: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    count = total = 0
    for record_id, size in sizes.items():
        if size is None:
            continue
        if count + items.get(record_id, 1) > MAX_ITEMS or total + size > MAX_BYTES:  # guard: dynamodb.transaction_size
            yield batch
            batch, count, total = [], 0, 0
        batch.append(record_id)
        count += items.get(record_id, 1)
        total += size
    yield batch
