"""SES as the e-mail provider: one signed request (SendRawEmail of SES v1) for each message."""

import base64
import re
from typing import Unpack

from masscomm.aws.request import ServiceOptions
from masscomm.channels.query_api import QueryApi
from masscomm.domain.provider_errors import InvalidAddress
from masscomm.errors import Stop

_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")


class SesEmail:
    """Sends e-mails through SES. An instance belongs to one event loop.

    Args:
        sender: The sender: an address, or a name and an address.
        configuration_set: The SES configuration set, to whose destinations SES publishes the events of each message.
        options: The options of QueryApi.

    Raises:
        Stop: No region is set, or the sender has no address in ASCII.
    """

    def __init__(
        self,
        *,
        sender: str,
        configuration_set: str | None = None,
        **options: Unpack[ServiceOptions],
    ) -> None:
        from email.utils import parseaddr

        self._own_address = parseaddr(sender)[1]
        # SES would refuse the message of each recipient.
        if not (_ADDRESS.fullmatch(self._own_address) and self._own_address.isascii()):  # guard: email.sender
            raise Stop(
                f"the sender of e-mails has no address: {sender!r}. Write it as Name <name@example.com>, a name with a"
                " comma in quotes, and a domain in Punycode"
            )
        self._options = [] if configuration_set is None else [("ConfigurationSetName", configuration_set)]
        self._api = QueryApi("ses", "2010-12-01", **options)

    async def send(self, *, recipient: str, message: bytes) -> str:
        from masscomm.channels.email import mail_domain_in_ascii

        try:
            address = mail_domain_in_ascii(recipient)
        except ValueError as error:
            raise InvalidAddress from error
        parameters = [
            # The name of the sender is in the message, where it is encoded: SES permits only ASCII here.
            ("Source", self._own_address),
            ("Destinations.member.1", address),
            ("RawMessage.Data", base64.b64encode(message).decode()),
            *self._options,
        ]
        return await self._api.send("SendRawEmail", parameters, own_address=self._own_address)

    async def close(self) -> None:
        await self._api.close()
