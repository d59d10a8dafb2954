"""DynamoDB's errors as ours, for whatever is kept on one of its tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from masscomm.errors import DeadLetter, Retry, Stop

_REFUSED = "ConditionalCheckFailedException"
_INVALID = "ValidationException"
_CANCELLED = "TransactionCanceledException"
# What another try cannot mend.
_WRONG = {"ResourceNotFoundException", "AccessDeniedException", _INVALID, "UnrecognizedClientException"}
# What a ValidationException says of the item itself, in AWS and in DynamoDB Local: its size or its keys', and values
# that no attribute can hold. Any other is about the request or the table, which are ours.
_TOO_LARGE = ("exceeded the maximum", "exceeded the size limit", "key values must be under")
_OF_THE_ITEM = (
    *_TOO_LARGE,
    *("number overflow", "significant digits", "up to 38 digits", "empty string value", "nesting levels"),
)


# Bytes of one value. An item takes 400 kB, names and all.
PART_BYTES = 350_000  # guard: dynamodb.item_size


def parts_of(value: bytes) -> list[bytes]:
    """A value cut into what one item each can hold; at least one part."""
    return [value[start : start + PART_BYTES] for start in range(0, len(value), PART_BYTES)] or [b""]


def digest_of(value: bytes) -> str:
    """Names a value's further parts, so that two values' are never mixed, and tells the values apart."""
    return blake2b(value, digest_size=16).hexdigest()


class ConditionFailed(Exception):
    """item: as it stands, where the request asked for it (ReturnValuesOnConditionCheckFailure)."""

    def __init__(self, item: dict[str, Any]) -> None:
        super().__init__("the condition does not hold")
        self.item = item


class ItemRefused(DeadLetter):
    """The table will never take this item: it is too large, or holds what no attribute can."""


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Around requests; what: they are about, for the messages.

    Errors: ConditionFailed; ItemRefused (reason too_large or invalid); Stop (no credentials, no such table, not
    allowed, no such request); Retry (any other).
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
        # One reason a request of the transaction, "None" where it was not the cause; the first that no try can mend.
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
