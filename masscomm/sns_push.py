"""SNS behind the push provider's port: one signed request a message, and nothing else.

The SDK's client takes a millisecond of the processor for each call, more than everything else that delivery does for a
push, and delivery is bound by its processor. What is left of it here is what Publish needs: a form, a signature, a
pooled connection, and what the answer says. What an error means stands in masscomm.channels.provider_errors.

Sources: the API reference of Amazon SNS (Publish) and AWS documentation, "Making Query API requests".
"""

import re
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from html import unescape
from urllib.parse import urlencode

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from masscomm import aws_endpoint
from masscomm.aws_credentials import RoleCredentials
from masscomm.aws_signature import Credentials, Scope, signed_headers
from masscomm.channels.provider import CONNECT_S, READ_S, ProviderError, Transient
from masscomm.channels.provider_errors import refusal
from masscomm.errors import MasscommError

_OK = 200
_KEEP_ALIVE = [*HTTPConnection.default_socket_options, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
# The request had not gone out.
_NOT_SENT = (ConnectTimeoutError, NewConnectionError)


def _now() -> datetime:
    return datetime.now(UTC)


class SnsPush:
    """Publish to platform endpoints. Thread-safe.

    connections: kept open; url: of the service, by default what AWS_ENDPOINT_URL_SNS or AWS_ENDPOINT_URL says, else the
    region's; region: by default AWS_REGION's; credentials: asked before each call. Errors: Stop where no region is set.
    """

    def __init__(
        self,
        *,
        connections: int,
        url: str | None = None,
        region: str | None = None,
        credentials: Callable[[], Credentials] | None = None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._region = region or aws_endpoint.region()
        self._url = f"{url.rstrip('/')}/" if url else aws_endpoint.endpoint("sns", self._region)
        self._credentials = credentials or RoleCredentials()
        self._now = now
        self._pool = urllib3.PoolManager(
            maxsize=connections,
            timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
            # Delivery decides about repetitions, because only it knows how much time is left.
            retries=False,
            socket_options=_KEEP_ALIVE,
        )

    def publish(self, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:
        form = {
            "Action": "Publish",
            "Version": "2010-03-31",
            "TargetArn": endpoint_arn,
            "Message": message,
            "MessageStructure": "json",
        }
        for number, (name, value) in enumerate(attributes.items(), start=1):
            entry = f"MessageAttributes.entry.{number}"
            form |= {f"{entry}.Name": name, f"{entry}.Value.DataType": "String", f"{entry}.Value.StringValue": value}
        body = urlencode(form).encode()
        try:
            headers = self._headers(body)
            answer = self._pool.urlopen("POST", self._url, body=body, headers=headers, redirect=False)
        except MasscommError as error:  # no credentials, for now
            raise Transient(str(error)) from error
        except HTTPError as error:
            raise Transient(
                f"{type(error).__name__}: {error}"[:500], answer_lost=not isinstance(error, _NOT_SENT)
            ) from error
        text = answer.data.decode(errors="replace")
        if answer.status != _OK:
            raise _refused(answer.status, text)
        message_id = _element("MessageId", text)
        if message_id is None:
            raise Transient("SNS answered without a message id", answer_lost=True)
        return message_id

    def _headers(self, body: bytes) -> dict[str, str]:
        scope = Scope(service="sns", region=self._region, at=self._now())
        signed = signed_headers("POST", self._url, body, scope=scope, credentials=self._credentials())
        return signed | {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}


def _refused(status: int, text: str) -> ProviderError:
    """What stands between may answer without being SNS: its status is all that it says then."""
    return refusal(_element("Code", text) or str(status), _element("Message", text) or "")


def _element(name: str, text: str) -> str | None:
    found = re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return None if found is None else unescape(found[1]).strip()
