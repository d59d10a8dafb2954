"""Converts DynamoDB's errors to masscomm's errors, and has the size limit of an item. All tables use it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import batched
from typing import Any
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from masscomm.errors import DeadLetter, Retry, Stop, Unlisted

_REFUSED = "ConditionalCheckFailedException"
_INVALID = "ValidationException"
_CANCELLED = "TransactionCanceledException"
# Error codes of requests that fail permanently.
_WRONG = {"ResourceNotFoundException", "AccessDeniedException", "UnrecognizedClientException"}
# Parts of the message of a ValidationException that concern the item, in AWS and in DynamoDB Local: the item or its key
# is too large, or no attribute can store a value.
_TOO_LARGE = ("exceeded the maximum", "exceeded the size limit", "key values must be under")
_OF_THE_ITEM = (
    *_TOO_LARGE,
    *("number overflow", "significant digits", "up to 38 digits", "empty string", "nesting levels"),
)
# Parts of a message that concerns the request or the table, which the data cannot cause.
_OF_THE_TABLE = ("schema", "expression", "missing the key", "required keys", "type mismatch for", "specified index")


# Maximum bytes of one stored value. DynamoDB limits an item to 400 kB, attribute names included.
PART_BYTES = 350_000  # guard: dynamodb.item_size
# DynamoDB's limits of keys in one BatchGetItem and of items in one BatchWriteItem, and our attempts to process the ones
# that it leaves unprocessed.
_KEYS_A_READ = 100
_ITEMS_A_WRITE = 25
_ATTEMPTS = 3


def parts_of(value: bytes) -> list[bytes]:
    """Split a value into parts of at most PART_BYTES, one per item. An empty value has one part."""
    return [value[start : start + PART_BYTES] for start in range(0, len(value), PART_BYTES)] or [b""]


def digest_of(value: bytes) -> str:
    """Return the digest of a value. The keys of a value's further parts contain it, so that parts of two values
    never mix.
    """
    return blake2b(value, digest_size=16).hexdigest()


class ConditionFailed(Exception):
    """The condition of a conditional write is not met.

    Attributes:
        item: The stored item if the request set ReturnValuesOnConditionCheckFailure, else empty.
    """

    def __init__(self, item: dict[str, Any]) -> None:
        super().__init__("the condition does not hold")
        self.item = item


class ItemRefused(DeadLetter):
    """DynamoDB can never store this item: it is too large, or has a value that no attribute can store."""


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Convert the errors of the DynamoDB requests in this context.

    Args:
        what: The subject of the requests, for error messages.

    Raises:
        ConditionFailed: The condition of a write is not met.
        ItemRefused: DynamoDB can never store the item; the reason is too_large or invalid.
        Stop: There are no credentials, the table is unknown, a permission is missing or the request is invalid.
        Unlisted: The item is refused for an unknown reason.
        Retry: Any other error.
    """
    try:
        yield
    except NoCredentialsError as error:
        raise Stop(f"DynamoDB cannot be called for {what}: {error}") from error
    except ClientError as error:
        raise _as_ours(what, error) from error
    except BotoCoreError as error:
        raise Retry(f"DynamoDB does not answer {what}: {type(error).__name__}") from error


def transact(client: Any, what: str, puts: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Write all items in one transaction, or none.

    Args:
        client: The DynamoDB client.
        what: the subject of the request, for error messages.
        puts: The parameters of each PutItem action.

    Returns:
        The actions that cancelled the transaction: the index in `puts` → the item that is stored under the same key.
            That item is empty if DynamoDB returns none, for example after a conflict with another transaction. The
            mapping is empty if everything was written.

    Raises:
        ItemRefused, Stop, Retry: as `answering`.
    """
    with answering(what):
        try:
            client.transact_write_items(
                TransactItems=[{"Put": put} for put in puts],
                # If the first request wrote the items and its response was lost, the repeated request succeeds because
                # of its token. Without a token its conditions would fail on our own items (AWS documentation, API
                # reference of TransactWriteItems).
                ClientRequestToken=str(uuid4()),  # guard: dynamodb.transaction_token
            )
        except ClientError as error:
            response: Any = error.response
            reasons = enumerate(response.get("CancellationReasons", []))
            cancelled = {index: reason.get("Item", {}) for index, reason in reasons if reason.get("Code") != "None"}
            if response["Error"]["Code"] != _CANCELLED or not cancelled:
                raise
            return cancelled
    return {}


def write_together(client: Any, what: str, actions: Sequence[Mapping[str, Any]]) -> None:
    """Carry out all actions (Put, Update) in one transaction, or none.

    Raises:
        ConditionFailed: The condition of an action is not met.
        ItemRefused, Stop, Retry: as `answering`.
    """
    with answering(what):
        # The token is that of `transact`.
        client.transact_write_items(TransactItems=list(actions), ClientRequestToken=str(uuid4()))


def read_items(client: Any, what: str, table: str, keys: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the items that exist under these distinct keys, in any order. Each read of 100 keys is consistent.

    Raises:
        Retry: DynamoDB leaves keys unread, or as `answering`.
        Stop: as `answering`.
    """
    found: list[dict[str, Any]] = []
    for some in batched(keys, _KEYS_A_READ, strict=False):
        found += _read_some(client, what, table, some)
    return found


def _read_some(client: Any, what: str, table: str, keys: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    request: Any = {table: {"Keys": list(keys), "ConsistentRead": True}}  # guard: dynamodb.consistent_read
    found: list[dict[str, Any]] = []
    for _ in range(_ATTEMPTS):
        with answering(what):
            answer = client.batch_get_item(RequestItems=request)
        found += answer.get("Responses", {}).get(table, [])
        request = answer.get("UnprocessedKeys")
        if not request:
            return found
    # An item under an unread key may exist, such as the cancellation of a send.
    raise Retry(f"DynamoDB has not read all {what}")  # guard: dynamodb.unread_key


def query_items(client: Any, what: str, table: str, key: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the items under a partition key (attribute → value), in the order of their sort keys. The read is
    consistent.

    Raises:
        Retry, Stop: as `answering`.
    """
    ((attribute, value),) = key.items()
    with answering(what):
        for page in client.get_paginator("query").paginate(
            TableName=table,
            KeyConditionExpression=f"{attribute} = :{attribute}",
            ExpressionAttributeValues={f":{attribute}": value},
            ConsistentRead=True,
        ):
            yield from page["Items"]


def key_of(*attributes: str) -> Callable[[Mapping[str, Any]], dict[str, str]]:
    """Return a function that returns these attributes of an item, which are texts."""
    return lambda item: {name: item[name]["S"] for name in attributes}


def write_items(client: Any, what: str, table: str, items: Iterable[Mapping[str, Any]]) -> None:
    """Put items with distinct keys, without a condition and in no order.

    Raises:
        Retry: DynamoDB leaves items unwritten, or as `answering`.
        ItemRefused, Stop: as `answering`.
    """
    _write_all(client, what, table, ({"PutRequest": {"Item": item}} for item in items))


def delete_items(client: Any, what: str, table: str, keys: Iterable[Mapping[str, Any]]) -> None:
    """Delete the items under distinct keys, in no order.

    Raises:
        Retry: DynamoDB leaves items undeleted, or as `answering`.
        Stop: as `answering`.
    """
    _write_all(client, what, table, ({"DeleteRequest": {"Key": key}} for key in keys))


def _write_all(client: Any, what: str, table: str, requests: Iterable[Mapping[str, Any]]) -> None:
    for some in batched(requests, _ITEMS_A_WRITE, strict=False):
        request: Any = {table: list(some)}
        for _ in range(_ATTEMPTS):
            with answering(what):
                request = client.batch_write_item(RequestItems=request).get("UnprocessedItems")
            if not request:
                break
        else:
            raise Retry(f"DynamoDB has not written all {what}")  # guard: dynamodb.unwritten_item


def _as_ours(what: str, error: ClientError) -> Exception:
    response: Any = error.response
    details = response.get("Error", {})
    code, message, item = details.get("Code", ""), details.get("Message", ""), response.get("Item", {})
    if code == _CANCELLED:
        # DynamoDB returns one reason for each action of the transaction, "None" for an action that did not cancel it.
        # The first permanent reason determines the error.
        reasons = response.get("CancellationReasons", [])
        permanent = ("ConditionalCheckFailed", "ValidationError")
        reason: dict[str, Any] = next((each for each in reasons if each.get("Code") in permanent), {})
        code = {"ConditionalCheckFailed": _REFUSED, "ValidationError": _INVALID}.get(reason.get("Code", ""), code)
        message, item = reason.get("Message") or message, reason.get("Item", {})
    if code == _REFUSED:
        return ConditionFailed(item)
    lower = message.lower()
    if code == _INVALID and any(words in lower for words in _OF_THE_ITEM):  # guard: dynamodb.refused_item
        large = any(words in lower for words in _TOO_LARGE)
        return ItemRefused("too_large" if large else "invalid", f"DynamoDB does not take {what}: {message}")
    # guard: dynamodb.unlisted_refusal
    if code in _WRONG or (code == _INVALID and any(words in lower for words in _OF_THE_TABLE)):
        return Stop(f"DynamoDB refuses {what}: {error}")
    return (Unlisted if code == _INVALID else Retry)(f"DynamoDB answered {what} with {code}: {message}")
