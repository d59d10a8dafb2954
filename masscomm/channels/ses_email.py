"""SES as the e-mail provider: one signed request (SendRawEmail of SES v1) for each message."""

import base64
from typing import Unpack

from masscomm.aws.request import ServiceOptions
from masscomm.channels.provider import Rejected
from masscomm.channels.query_api import QueryApi


class SesEmail:
    """Sends e-mails through SES. An instance belongs to one event loop.

    Args:
        sender: The sender: an address, or a name and an address.
        configuration_set: The SES configuration set, to whose destinations SES publishes the events of each message.
        http: The HTTP client of QueryApi.
        options: The options of QueryApi.

    Raises:
        Stop: No region is set.
    """

    def __init__(
        self,
        *,
        sender: str,
        configuration_set: str | None = None,
        http: str = "own",
        **options: Unpack[ServiceOptions],
    ) -> None:
        from email.utils import parseaddr

        self._sender = sender
        self._own_address = parseaddr(sender)[1]
        self._options = [] if configuration_set is None else [("ConfigurationSetName", configuration_set)]
        self._api = QueryApi("ses", "2010-12-01", http=http, **options)

    async def send(self, *, recipient: str, message: bytes) -> str:
        from masscomm.channels.email import mail_domain_in_ascii

        try:
            address = mail_domain_in_ascii(recipient)
        except ValueError as error:
            raise Rejected(f"no e-mail can be addressed so: {error}") from error
        parameters = [
            ("Source", self._sender),
            ("Destinations.member.1", address),
            ("RawMessage.Data", base64.b64encode(message).decode()),
            *self._options,
        ]
        return await self._api.send("SendRawEmail", parameters, own_address=self._own_address)

    async def close(self) -> None:
        await self._api.close()
