"""Seals secrets for storage: with AES-GCM, under a data key that only KMS decrypts (envelope encryption).

The context belongs to the sealed secrets: they are opened for the same context only.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from masscomm.aws.kms import DataKeys, KeyRefused

_NONCE = 12
# The bytes of the length of the encrypted data key, which comes first.
_LENGTH = 2


class NotOpened(Exception):
    """The sealed secrets are damaged, or were sealed for another context."""


@dataclass(frozen=True)
class OpenSecrets:
    """Opened secrets, and their data key, with which other texts are sealed."""

    values: Mapping[str, Any] = field(repr=False)
    data_key: bytes = field(repr=False)


@dataclass(frozen=True)
class SecretBox:
    """Seals and opens. Methods raise Retry or Stop as DataKeys do."""

    keys: DataKeys

    def seal(self, values: Mapping[str, Any], context: Mapping[str, str]) -> bytes:
        """Return sealed secrets, which are values of JSON."""
        key = self.keys.new(context)
        length = len(key.encrypted).to_bytes(_LENGTH)
        return length + key.encrypted + encrypted(key.plain, json.dumps(values).encode(), context)

    def open(self, sealed: bytes, context: Mapping[str, str]) -> OpenSecrets:
        """Return the secrets. Raises NotOpened."""
        begin = _LENGTH + int.from_bytes(sealed[:_LENGTH])
        try:
            key = self.keys.decrypt(sealed[_LENGTH:begin], context)
        except KeyRefused as error:
            raise NotOpened from error
        return OpenSecrets(json.loads(decrypted(key, sealed[begin:], context)), key)


def encrypted(key: bytes, content: bytes, context: Mapping[str, str]) -> bytes:
    """Return a content that is encrypted for a context."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # Most environments need no secrets: 30 ms.

    nonce = os.urandom(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, content, _associated(context))


def decrypted(key: bytes, content: bytes, context: Mapping[str, str]) -> bytes:
    """Return the content. Raises NotOpened."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(content[:_NONCE], content[_NONCE:], _associated(context))
    except (InvalidTag, ValueError) as error:
        raise NotOpened from error


def _associated(context: Mapping[str, str]) -> bytes:
    return json.dumps(context, sort_keys=True).encode()
