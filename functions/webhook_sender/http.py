"""The port of requests to servers that tenants named."""

from collections.abc import Mapping
from typing import Protocol

from masscomm.channels.guarded_http import MAX_BODY_BYTES, Answer, ClientCertificate


class Http(Protocol):
    async def post(
        self,
        url: str,
        *,
        body: bytes,
        headers: Mapping[str, str],
        timeout_s: float,
        client: ClientCertificate | None = None,
        most_bytes: int = MAX_BODY_BYTES,
    ) -> Answer:
        """Post a body and return the answer. Raises UrlRefused or NoAnswer."""
        ...
