"""Signs in to a schema registry by HTTP basic authentication, with the user name and password in a secret.

https://docs.confluent.io/platform/current/schema-registry/security/index.html

SCHEMA_REGISTRY_SECRET_ARN    the ARN of a secret with `username` and `password`; without it, there is no sign-in
"""

import base64
import json
from collections.abc import Callable
from typing import Self

from masscomm.errors import Stop

SECRET_SETTING = "SCHEMA_REGISTRY_SECRET_ARN"  # noqa: S105 - a name


class RegistrySignIn:
    """The header of requests to a registry, which is read at the first request.

    Args:
        read: Returns the text of the secret. Raises Retry or Stop.
    """

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read
        self._header: str | None = None

    @classmethod
    def with_secret(cls, arn: str) -> Self | None:
        """Return the sign-in with the secret of that ARN; None without one."""
        if not arn:
            return None

        def read() -> str:
            # Imported here: most installations have a registry of their own, which needs no sign-in.
            from masscomm.aws.secrets import read_secret

            return read_secret(arn)

        return cls(read)

    def header(self) -> str:
        """Return the value of the header `Authorization`. Raises Retry or Stop."""
        if self._header is None:
            try:
                known = json.loads(self._read())
                pair = f"{known['username']}:{known['password']}"
            except (KeyError, TypeError, ValueError):
                # The cause is left out: its text could contain a part of the secret.
                raise Stop(f"the secret of {SECRET_SETTING} has no username or no password") from None
            self._header = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return self._header

    def forget(self) -> None:
        """Read the secret again for the next request: the password may have been rotated."""
        self._header = None
