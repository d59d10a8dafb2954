"""Credentials of a role in an account of a tenant, which the function's role assumes.

A role is refused that can be assumed without its external id: another tenant who knows its ARN could name it, and
masscomm would act on that tenant's behalf ("the confused deputy").

Source: AWS Security Token Service API reference, AssumeRole; IAM user guide, "The confused deputy problem".
"""

import json
import time
from collections.abc import Callable
from datetime import datetime

from masscomm.aws.http_answer import AnswerLost, NotSent
from masscomm.aws.request import FORM, Requests, element, form
from masscomm.aws.signature import Credentials
from masscomm.domain.time_limits import CREDENTIALS_EARLY_S

_VERSION = "2011-06-15"
_DENIED = "AccessDenied"
_SESSION = "masscomm"


class RoleRefused(Exception):
    """The role cannot be assumed. The message is a short reason for the tenant."""


class AssumedRole:
    """A callable that returns the currently valid credentials of a role. It is called by one thread at a time.

    A call raises RoleRefused.

    Args:
        sts: The security token service.
        role_arn: The role.
        external_id: The id that its trust policy must require.
        action: The only action that the credentials permit, such as sqs:SendMessage.
        resource: The ARN of the only resource that they permit.
        checks_trust: Whether a role that can be assumed without its external id is refused.
        now: Returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        sts: Requests,
        *,
        role_arn: str,
        external_id: str,
        action: str,
        resource: str,
        checks_trust: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        policy = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": action, "Resource": resource}],
        }
        self._sts = sts
        self._checks_trust = checks_trust
        self._now = now
        self._kept: tuple[float, Credentials] | None = None
        self._parameters = [
            ("RoleArn", role_arn),
            ("RoleSessionName", _SESSION),
            ("Policy", json.dumps(policy)),
        ]
        self._external_id = ("ExternalId", external_id)

    def __call__(self) -> Credentials:
        if self._kept is None or self._now() > self._kept[0] - CREDENTIALS_EARLY_S:
            if self._checks_trust:  # guard: assumed_roles.external_id_is_required
                self._check_trust()
            self._kept = self._assumed()
        return self._kept[1]

    def _check_trust(self) -> None:
        """Check that the role cannot be assumed without its external id. Raises RoleRefused."""
        status, answer = self._ask(self._parameters)
        if status == 200:
            raise RoleRefused("the role can be assumed without its external id: its trust policy must require it")
        if (code := element("Code", answer)) != _DENIED:
            raise RoleRefused(f"the role cannot be assumed: {code or status}")

    def _assumed(self) -> tuple[float, Credentials]:
        status, answer = self._ask([*self._parameters, self._external_id])
        if status != 200:
            raise RoleRefused(f"the role cannot be assumed: {element('Code', answer) or status}")
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        key, secret, token, until = (element(name, answer) or "" for name in names)
        try:
            return datetime.fromisoformat(until).timestamp(), Credentials(key, secret, token)
        except ValueError as error:
            raise RoleRefused("the role cannot be assumed: the answer has no time") from error

    def _ask(self, parameters: list[tuple[str, str]]) -> tuple[int, str]:
        try:
            status, answer = self._sts.post(form("AssumeRole", _VERSION, parameters), FORM)
        except (NotSent, AnswerLost) as error:
            raise RoleRefused(f"the role cannot be assumed now: {error}") from error
        return status, answer.decode(errors="replace")
