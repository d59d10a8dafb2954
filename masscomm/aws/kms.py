"""Data keys of AWS KMS, by signed requests without boto3.

Source: AWS KMS API reference, "GenerateDataKey", "Decrypt", "Common Errors".
"""

import base64
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from masscomm.aws.http_answer import AnswerLost, NotSent
from masscomm.aws.request import Limits, Requests
from masscomm.errors import Retry, Stop

_LIMITS = Limits(connections=2, connect_s=1.0, read_s=2.0)
# Another key or another context has encrypted the data key, or it is damaged.
_OTHER = {"InvalidCiphertextException", "IncorrectKeyException"}
# Errors that pass, although their status is 400.
_PASSING = {"LimitExceededException", "KMSInvalidStateException"}


class DataKey(NamedTuple):
    plain: bytes
    # The key as KMS has encrypted it.
    encrypted: bytes


class KeyRefused(Exception):
    """KMS has not encrypted this data key for this context."""


class DataKeys(Protocol):
    """Methods raise Retry (down, throttled) or Stop (no such key, no permission)."""

    def new(self, context: Mapping[str, str]) -> DataKey:
        """Return a new key of 32 bytes. It is decrypted only for the same context."""
        ...

    def decrypt(self, encrypted: bytes, context: Mapping[str, str]) -> bytes:
        """Return a key. Raises KeyRefused."""
        ...


class KmsDataKeys:
    """The data keys of a KMS key. Thread-safe.

    Args:
        key_id: The id, the ARN or the alias of the KMS key.
    """

    def __init__(self, key_id: str) -> None:
        self._key_id = key_id

    def new(self, context: Mapping[str, str]) -> DataKey:
        plain, encrypted = self._ask("GenerateDataKey", {"KeySpec": "AES_256"}, context, "Plaintext", "CiphertextBlob")
        return DataKey(plain, encrypted)

    def decrypt(self, encrypted: bytes, context: Mapping[str, str]) -> bytes:
        blob = base64.b64encode(encrypted).decode()
        (plain,) = self._ask("Decrypt", {"CiphertextBlob": blob}, context, "Plaintext")
        return plain

    @cached_property
    def _requests(self) -> Requests:
        return Requests("kms", _LIMITS)

    def _ask(self, operation: str, request: Mapping[str, Any], context: Mapping[str, str], *names: str) -> list[bytes]:
        """Return these binary fields of an answer."""
        body = json.dumps({"KeyId": self._key_id, **request, "EncryptionContext": context}).encode()
        headers = {"content-type": "application/x-amz-json-1.1", "x-amz-target": f"TrentService.{operation}"}
        try:
            status, answer = self._requests.post(body, headers)
        except (NotSent, AnswerLost) as error:
            raise Retry(f"KMS did not answer: {type(error).__name__}") from error
        try:
            document = json.loads(answer)
            if status < 300:
                return [base64.b64decode(document[name]) for name in names]
            code = str(document.get("__type", "")).rpartition("#")[2]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Retry(f"KMS answered {status} with something else") from error
        if code in _OTHER:
            raise KeyRefused(code)
        if status >= 500 or "Throttling" in code or code in _PASSING:
            raise Retry(f"KMS answered {status} {code}")
        raise Stop(f"KMS refuses {operation}: {code}")
