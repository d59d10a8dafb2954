"""Emulates SES: verified senders, and SendRawEmail with SES' own errors.

Source: Amazon SES API reference (v1), "SendRawEmail", "VerifyEmailIdentity", "Common Errors"; Amazon SES developer
guide, "Amazon SES email sending errors" and "Errors related to the sending quotas for your Amazon SES account".
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parseaddr

from local.emulators.sns_stand_in.endpoints import Refused
from local.emulators.sns_stand_in.script import Refusal

NAMESPACE = "http://ses.amazonaws.com/doc/2010-12-01/"
THROTTLED = Refusal(400, "Throttling", "Maximum sending rate exceeded.")
_MESSAGE_ID = re.compile(rb"^message-id:\s*<([^@>]+)@", re.IGNORECASE | re.MULTILINE)
_MAX_DESTINATIONS = 50
# The size limit of a message in bytes, after its attachments are encoded.
_MAX_BYTES = 10 * 1024 * 1024


@dataclass
class Senders:
    """The verified sender addresses."""

    any: bool = False  # Whether every sender is accepted.
    _verified: set[str] = field(default_factory=set)

    def verify(self, address: str) -> None:
        """Verify a sender at once; real SES waits until the owner of the address confirms."""
        self._verified.add(address.lower())

    def check(self, parameters: Mapping[str, str]) -> tuple[str, str]:
        """Return the first recipient and the notification id of a message (empty if there is none). Raises Refused."""
        try:
            message = base64.b64decode(parameters.get("RawMessage.Data", ""), validate=True)
        except binascii.Error as error:
            raise Refused(Refusal(400, "SerializationException", "RawMessage.Data is not Base64")) from error
        if not message:
            raise Refused(Refusal(400, "InvalidParameterValue", "Empty raw message."))
        if len(message) > _MAX_BYTES:
            text = f"Message length is more than {_MAX_BYTES} bytes long: '{len(message)}'."
            raise Refused(Refusal(400, "InvalidParameterValue", text))
        recipient = self._recipients(parameters)
        sender = parseaddr(parameters.get("Source", ""))[1].lower()
        if not self.any and not {sender, sender.rpartition("@")[2]} & self._verified:
            text = f"Email address is not verified. The following identities failed the check: {sender}"
            raise Refused(Refusal(400, "MessageRejected", text))
        found = _MESSAGE_ID.search(message)
        return recipient, found[1].decode("latin-1") if found else ""

    def _recipients(self, parameters: Mapping[str, str]) -> str:
        first = parameters.get("Destinations.member.1", "")
        if f"Destinations.member.{_MAX_DESTINATIONS + 1}" in parameters:
            text = f"Recipient count exceeds {_MAX_DESTINATIONS}."
            raise Refused(Refusal(400, "MessageRejected", text))
        _, at, domain = first.rpartition("@")
        if not at or not domain:
            raise Refused(Refusal(400, "InvalidParameterValue", "Missing final '@domain'"))
        if not domain.isascii():
            raise Refused(Refusal(400, "InvalidParameterValue", "Domain contains illegal character"))
        return first
