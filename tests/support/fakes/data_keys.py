"""Data keys without KMS, for unit tests."""

import os
from collections.abc import Mapping

from masscomm.aws.kms import DataKey, KeyRefused
from masscomm.aws.sealed_secrets import NotOpened, decrypted, encrypted


class InMemoryDataKeys:
    """Data keys under a random key of this object."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        # The error of each call; None: it answers.
        self.failing: Exception | None = None
        self.decrypted = 0

    def new(self, context: Mapping[str, str]) -> DataKey:
        self._fail()
        plain = os.urandom(32)
        return DataKey(plain, encrypted(self._key, plain, context))

    def decrypt(self, encrypted: bytes, context: Mapping[str, str]) -> bytes:
        self._fail()
        self.decrypted += 1
        try:
            return decrypted(self._key, encrypted, context)
        except NotOpened as error:
            raise KeyRefused from error

    def _fail(self) -> None:
        if self.failing is not None:
            raise self.failing
