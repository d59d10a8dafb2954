"""Credentials of the function's role in Lambda: from environment variables, or from a local address after SnapStart
has restored the environment.

botocore's session reads the same sources, but takes 0.07 s more of the processor at a function's first answer. It is
used where neither of these two sources is set.
"""

import json
import os
import time
from collections.abc import Callable
from datetime import datetime

from masscomm.aws.signature import Credentials
from masscomm.domain.time_limits import CREDENTIALS_EARLY_S, CREDENTIALS_REQUEST_S
from masscomm.errors import Retry, Stop


class RoleCredentials:
    """A callable that returns the currently valid credentials.

    A call raises Stop if there are no credentials, and Retry if the local address that returns credentials does not
    respond.

    Args:
        now: Returns the time in seconds since the epoch.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._kept: tuple[float, Credentials] | None = None

    def __call__(self) -> Credentials:
        environ = os.environ
        if key := environ.get("AWS_ACCESS_KEY_ID"):
            return Credentials(key, environ.get("AWS_SECRET_ACCESS_KEY", ""), environ.get("AWS_SESSION_TOKEN") or None)
        if address := environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
            if self._kept is None or self._now() > self._kept[0] - CREDENTIALS_EARLY_S:
                self._kept = _asked(address, environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", ""))
            return self._kept[1]
        return _of_the_sdk()


def _asked(address: str, authorization: str) -> tuple[float, Credentials]:
    import urllib3

    try:
        answer = urllib3.request(
            "GET",
            address,
            headers={"Authorization": authorization},
            timeout=CREDENTIALS_REQUEST_S,
            retries=urllib3.Retry(2),
        )
        if answer.status != 200:
            raise Retry(f"the role's credentials cannot be read: {answer.status}")
        given = json.loads(answer.data)
        until = datetime.fromisoformat(given["Expiration"]).timestamp()
        return until, Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["Token"])
    except (urllib3.exceptions.HTTPError, ValueError, KeyError, TypeError) as error:
        raise Retry(f"the role's credentials cannot be read: {type(error).__name__}") from error


def _of_the_sdk() -> Credentials:
    """Return credentials from the SDK's other sources, such as a user's profile or a cluster's role."""
    import botocore.session

    found = botocore.session.get_session().get_credentials()
    if found is None:
        raise Stop("there are no AWS credentials to sign with")
    frozen = found.get_frozen_credentials()
    return Credentials(str(frozen.access_key), str(frozen.secret_key), frozen.token)
