"""DynamoDB's errors as ours, for whatever is kept on one of its tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from masscomm.errors import Retry, Stop

_REFUSED = "ConditionalCheckFailedException"
# What another try cannot mend.
_WRONG = {"ResourceNotFoundException", "AccessDeniedException", "ValidationException", "UnrecognizedClientException"}


class ConditionFailed(Exception):
    """item: as it stands, where the request asked for it (ReturnValuesOnConditionCheckFailure)."""

    def __init__(self, item: dict[str, Any]) -> None:
        super().__init__("the condition does not hold")
        self.item = item


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Around requests; what: they are about, for the messages.

    Errors: ConditionFailed; Stop (no credentials, no such table, not allowed, no such request); Retry (any other).
    """
    try:
        yield
    except NoCredentialsError as error:
        raise Stop(f"DynamoDB cannot be asked about {what}: {error}") from error
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code == _REFUSED:
            item: Any = error.response.get("Item", {})
            raise ConditionFailed(item) from error
        if code in _WRONG:
            raise Stop(f"DynamoDB refuses {what}: {error}") from error
        raise Retry(f"DynamoDB answered {what} with {code}") from error
    except BotoCoreError as error:
        raise Retry(f"DynamoDB does not answer {what}: {type(error).__name__}") from error
