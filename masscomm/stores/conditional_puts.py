"""Puts of items that belong together, under the condition that they have not changed since they were read."""

from collections.abc import Mapping, Sequence
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering, transact, write_together
from masscomm.errors import MasscommError
from masscomm.stores.transactions import write_all

# A put as the parameters of PutItem.
type Put = Mapping[str, Any]


def write_groups(client: Any, what: str, groups: Sequence[Sequence[Put]], sizes: Sequence[int]) -> list[bool]:
    """Write groups of items, each whole or not at all, in few transactions.

    Args:
        client: The client of DynamoDB.
        what: The items, for errors.
        groups: The puts of each group. A condition returns the stored item if it fails.
        sizes: The size of each group's items in bytes.

    Returns:
        For each group, whether it was written: no condition of it failed.

    Raises:
        MasscommError: A group could not be written.
    """
    puts = {str(number): group for number, group in enumerate(groups)}
    written = write_all(
        dict(zip(puts, sizes, strict=True)),
        transact=lambda numbers: _transact(client, what, {number: puts[number] for number in numbers}),
        alone=lambda number: _alone(client, what, puts[number]),
        items={number: len(group) for number, group in puts.items()},
    )
    answers = [written[number] for number in puts]
    for answer in answers:
        if isinstance(answer, MasscommError):
            raise answer
    return [answer is True for answer in answers]


def under_revision(put: Put, revision: int) -> dict[str, Any]:
    """Return a put with the condition that the stored item has this revision; 0: that there is none."""
    return {
        **put,
        # guard: frequency_caps.changed_meanwhile
        "ConditionExpression": "revision = :revision" if revision else "attribute_not_exists(revision)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        **({"ExpressionAttributeValues": {":revision": {"N": str(revision)}}} if revision else {}),
    }


def _transact(client: Any, what: str, puts: Mapping[str, Sequence[Put]]) -> dict[str, Any]:
    """Write all groups, or none. If the transaction is cancelled, name the groups that cancelled it, so that their
    items are not tried again.
    """
    owners = [number for number, each in puts.items() for _ in each]
    cancelled = transact(client, what, [put for each in puts.values() for put in each])
    if not cancelled:
        return dict.fromkeys(puts, _written)
    # A conflict with another transaction returns no item: the group's items may be unchanged.
    changed = {owners[index] for index, item in cancelled.items() if item}
    return dict.fromkeys(changed, _changed)


def _alone(client: Any, what: str, puts: Sequence[Put]) -> bool:
    try:
        if len(puts) == 1:
            with answering(what):
                client.put_item(**puts[0])
        else:
            write_together(client, what, [{"Put": put} for put in puts])
    except ConditionFailed:
        return False
    return True


def _written() -> bool:
    return True


def _changed() -> bool:
    return False
