"""Checks whether SES accepts the senders of tenants: verified identities that are associated with their tenants of SES.

Source: Amazon SES API reference v2, "GetEmailIdentity" and "ListTenantResources".
"""

import math
import time
from collections.abc import Iterator
from typing import Any, Unpack
from urllib.parse import quote, urlsplit

from masscomm import fast_json
from masscomm.aws.http_answer import AnswerLost, NotSent
from masscomm.aws.pooled_http import PooledHttp
from masscomm.aws.request import Service, ServiceOptions
from masscomm.aws.signature import signed_headers
from masscomm.clock import Clock
from masscomm.domain.email_settings import EmailOrigin
from masscomm.domain.time_limits import SENDER_CHECK_S, SENDER_CHECK_VALID_S
from masscomm.errors import Retry

_OK, _NOT_FOUND = 200, 404
_LISTED = "tenants/resources/list"


class SesSenders:
    """Checks senders. What SES has answered is valid for SENDER_CHECK_VALID_S.

    Args:
        clock: The clock.
        options: The options of masscomm.aws.request.Service.

    Raises:
        Stop: No region is set.
    """

    def __init__(self, clock: Clock, **options: Unpack[ServiceOptions]) -> None:
        self._clock = clock
        self._service = Service("ses", **options)
        self._http = PooledHttp(
            self._service.url,
            connect_s=SENDER_CHECK_S,
            read_s=SENDER_CHECK_S,
            total_s=SENDER_CHECK_S,
            connections=1,
        )
        # By the sender: whether SES accepts it, or the error of the question, and until when that is valid.
        self._known: dict[EmailOrigin, tuple[bool | Retry, float]] = {}

    def accepts(self, origin: EmailOrigin) -> bool:
        """Return whether SES accepts e-mails with this sender. Raises Retry or Stop if it is not known."""
        accepted, until = self._known.get(origin, (False, -math.inf))
        if self._clock.monotonic() >= until:
            ends = time.monotonic() + SENDER_CHECK_S
            try:
                accepted = self._is_verified(origin, ends) and self._is_associated(origin, ends)
            except Retry as error:  # The next sends do not wait for SES.
                accepted = error
            self._known[origin] = accepted, self._clock.monotonic() + SENDER_CHECK_VALID_S
        if isinstance(accepted, Retry):
            raise accepted
        return accepted

    def _is_verified(self, origin: EmailOrigin, ends: float) -> bool:
        found = (self._call("GET", f"identities/{quote(name, safe='')}", ends) for name in _identities(origin))
        return any(each is not None and each.get("VerifiedForSendingStatus") is True for each in found)

    def _is_associated(self, origin: EmailOrigin, ends: float) -> bool:
        if origin.ses_tenant is None:
            return True
        resources = set(self._resources(origin.ses_tenant, ends))
        named = not origin.configuration_set or f"configuration-set/{origin.configuration_set}" in resources
        return named and any(f"identity/{name}" in resources for name in _identities(origin))

    def _resources(self, ses_tenant: str, ends: float) -> Iterator[str]:
        """Yield the resources of a tenant of SES by their type and name."""
        request = {"TenantName": ses_tenant}
        while True:
            answer = self._call("POST", _LISTED, ends, fast_json.encoded(request)) or {}
            for each in answer.get("TenantResources", ()):
                yield str(each.get("ResourceArn", "")).split(":", 5)[-1]
            if not answer.get("NextToken"):
                return
            request["NextToken"] = answer["NextToken"]

    def _call(self, method: str, path: str, ends: float, body: bytes = b"") -> dict[str, Any] | None:
        """Return the answer of a request; None if there is no such identity or tenant. Raises Retry or Stop."""
        url = f"{self._service.url}v2/email/{path}"
        headers = signed_headers(
            method,
            url,
            {"content-type": "application/json"} if body else {},
            body,
            scope=self._service.scope(),
            credentials=self._service.credentials(),
        )
        try:
            status, answer = self._http.request(method, urlsplit(url).path, headers, body, until=ends)
            document = fast_json.parsed(answer) if status == _OK else {}
        except (NotSent, AnswerLost, ValueError) as error:
            raise Retry(f"SES does not say whether a sender is verified: {error!r}") from error
        if status == _NOT_FOUND:
            return None
        if status != _OK or not isinstance(document, dict):
            raise Retry(f"SES does not say whether a sender is verified: {status}")
        return document


def _identities(origin: EmailOrigin) -> tuple[str, str]:
    """Return the identities that permit a sender: its address, or its domain."""
    return origin.address, origin.address.rpartition("@")[2]
