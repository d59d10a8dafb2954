"""Conversion of DynamoDB's errors to masscomm's, and the limit of an item's size, shared by all tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from masscomm.errors import DeadLetter, Retry, Stop

_REFUSED = "ConditionalCheckFailedException"
_INVALID = "ValidationException"
_CANCELLED = "TransactionCanceledException"
# Error codes that are not retried.
_WRONG = {"ResourceNotFoundException", "AccessDeniedException", _INVALID, "UnrecognizedClientException"}
# Texts of a ValidationException about the item, in AWS and in DynamoDB Local: the size of the item or of its keys, and
# values that no attribute can store. Any other text is about the request or the table, which the data cannot cause.
_TOO_LARGE = ("exceeded the maximum", "exceeded the size limit", "key values must be under")
_OF_THE_ITEM = (
    *_TOO_LARGE,
    *("number overflow", "significant digits", "up to 38 digits", "empty string value", "nesting levels"),
)


# Bytes of one value. DynamoDB limits an item to 400 kB, attribute names included.
PART_BYTES = 350_000  # guard: dynamodb.item_size


def parts_of(value: bytes) -> list[bytes]:
    """Split a value into parts of at most PART_BYTES, each for one item; at least one part."""
    return [value[start : start + PART_BYTES] for start in range(0, len(value), PART_BYTES)] or [b""]


def digest_of(value: bytes) -> str:
    """Return the digest of a value. The keys of its further parts contain it: parts of two values never mix."""
    return blake2b(value, digest_size=16).hexdigest()


class ConditionFailed(Exception):
    """The condition of a write does not hold.

    Attributes:
        item: the stored item if the request set ReturnValuesOnConditionCheckFailure, else empty.
    """

    def __init__(self, item: dict[str, Any]) -> None:
        super().__init__("the condition does not hold")
        self.item = item


class ItemRefused(DeadLetter):
    """DynamoDB can never store this item: it is too large, or has a value that no attribute can store."""


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Convert the errors of the requests within the block.

    Args:
        what: the subject of the requests, for error messages.

    Raises:
        ConditionFailed: the condition of a write does not hold.
        ItemRefused: DynamoDB can never store the item; the reason is too_large or invalid.
        Stop: no credentials, an unknown table, a missing permission or an invalid request.
        Retry: any other error.
    """
    try:
        yield
    except NoCredentialsError as error:
        raise Stop(f"DynamoDB cannot be asked about {what}: {error}") from error
    except ClientError as error:
        raise _as_ours(what, error) from error
    except BotoCoreError as error:
        raise Retry(f"DynamoDB does not answer {what}: {type(error).__name__}") from error


def _as_ours(what: str, error: ClientError) -> Exception:
    response: Any = error.response
    details = response.get("Error", {})
    code, message, item = details.get("Code", ""), details.get("Message", ""), response.get("Item", {})
    if code == _CANCELLED:
        # One reason per request of the transaction, "None" if the request was not the cause. The first permanent reason
        # decides.
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
    if code in _WRONG:
        return Stop(f"DynamoDB refuses {what}: {error}")
    return Retry(f"DynamoDB answered {what} with {code}")
