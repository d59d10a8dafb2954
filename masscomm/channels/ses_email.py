"""SES as the e-mail provider: one signed request (SendEmail of SES v2, with a raw message) for each message.

The request has no FromEmailAddress, which would replace the header From, and with it the name of the sender.
Source: Amazon SES API reference v2, "SendEmail".
"""

import base64
import re
from functools import cache
from typing import Any, Unpack

from masscomm import fast_json
from masscomm.aws.async_requests import AsyncRequests
from masscomm.aws.http_answer import AnswerLost, NotSent
from masscomm.aws.request import Limits, ServiceOptions
from masscomm.channels.provider import CONNECT_S, READ_S
from masscomm.domain.email_settings import EmailOrigin
from masscomm.domain.provider_error_codes import ses_refusal
from masscomm.domain.provider_errors import InvalidAddress, Transient
from masscomm.errors import MasscommError

_OK = 200
_HEADERS = {"content-type": "application/json"}
# The name of an error is a header or a field of the body, and may have a namespace before it and a URI after it
# (Smithy, "restJson1").
_ERROR = re.compile(rb"\r\nx-amzn-errortype[ \t]*:([^\r\n]*)", re.IGNORECASE)
# The request between the message and the recipient, and after the recipient.
_AFTER_MESSAGE, _AFTER_RECIPIENT = b'"}},"Destination":{"ToAddresses":[', b"]}}"


class SesEmail:
    """Sends e-mails through SES. An instance belongs to one event loop.

    Args:
        options: The options of masscomm.aws.request.Service.

    Raises:
        Stop: No region is set.
    """

    def __init__(self, **options: Unpack[ServiceOptions]) -> None:
        limits = Limits(connect_s=CONNECT_S, read_s=READ_S)
        self._requests = AsyncRequests("ses", limits, headers=_HEADERS, path="v2/email/outbound-emails", **options)

    async def send(self, *, recipient: str, message: bytes, origin: EmailOrigin) -> str:
        from masscomm.channels.email import mail_domain_in_ascii

        try:
            address = mail_domain_in_ascii(recipient)
        except ValueError as error:
            raise InvalidAddress from error
        # The message is most of the request: it is not encoded as JSON a second time.
        to = fast_json.encoded(address)
        body = b"".join((_before_message(origin), base64.b64encode(message), _AFTER_MESSAGE, to, _AFTER_RECIPIENT))
        try:
            answer = await self._requests.answer(body)
        except (NotSent, MasscommError) as error:  # There is no connection, or there are no credentials at the moment.
            raise Transient(f"{type(error).__name__}: {error}"[:500]) from error
        except AnswerLost as error:
            raise Transient(f"{type(error).__name__}: {error}"[:500], answer_lost=True) from error
        document = _document(answer.body)
        if answer.status != _OK:
            # A proxy may have responded instead of AWS. A response without an error's name gets its HTTP status.
            found = _ERROR.search(answer.head)
            name = found[1].decode("latin-1") if found else str(document.get("__type") or document.get("code") or "")
            code = name.partition(":")[0].rpartition("#")[2].strip()[:100] or str(answer.status)
            text = str(document.get("message") or document.get("Message") or "")
            raise ses_refusal(code, text, sender=origin.address)
        message_id = document.get("MessageId")
        if not isinstance(message_id, str) or not message_id:
            raise Transient("SendEmail was answered without a message id", answer_lost=True)
        return message_id

    async def close(self) -> None:
        await self._requests.close()


@cache
def _before_message(origin: EmailOrigin) -> bytes:
    """Return the beginning of a request, up to its message."""
    named = {"ConfigurationSetName": origin.configuration_set, "TenantName": origin.ses_tenant}
    fields = {name: value for name, value in named.items() if value is not None}
    return fast_json.encoded({**fields, "Content": {"Raw": {"Data": ""}}}).removesuffix(b'"}}}')


def _document(answer: bytes) -> dict[str, Any]:
    """Return the JSON object of a response; {} for another body, such as that of a proxy."""
    try:
        document = fast_json.parsed(answer)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
