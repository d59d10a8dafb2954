"""SNS as the push provider: one signed request for each message.

The SDK's client uses a millisecond of CPU for each call, more than all other work of delivery for a push message, and
delivery is CPU-bound. This client does only the work that Publish needs: it encodes a form, signs it, sends it over a
pooled connection and parses the answer. masscomm.channels.provider_errors classifies the errors.

Sources: the API reference of Amazon SNS (Publish) and AWS documentation, "Making Query API requests".
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from masscomm.aws.request import FORM, Limits, Requests, element, form
from masscomm.aws.signature import Credentials
from masscomm.channels.provider import CONNECT_S, READ_S, Transient
from masscomm.channels.provider_errors import refusal
from masscomm.errors import MasscommError

_OK = 200
_VERSION = "2010-03-31"
# The request was not sent.
_NOT_SENT = (ConnectTimeoutError, NewConnectionError)


class SnsPush:
    """Publish to platform endpoints. Thread-safe.

    Args:
        connections: The number of connections that stay open.
        url: The service's URL; by default AWS_ENDPOINT_URL_SNS or AWS_ENDPOINT_URL, else the region's URL.
        region: By default AWS_REGION.
        credentials: Returns the credentials, before each call.
        now: Returns the time for signatures.

    Raises:
        Stop: No region is set.
    """

    def __init__(
        self,
        *,
        connections: int,
        url: str | None = None,
        region: str | None = None,
        credentials: Callable[[], Credentials] | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        # One attempt: delivery decides about retries, because only delivery knows the remaining time.
        limits = Limits(connections=connections, connect_s=CONNECT_S, read_s=READ_S)
        self._requests = Requests("sns", limits, url=url, region=region, credentials=credentials, now=now)

    def publish(self, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:
        parameters = [("TargetArn", endpoint_arn), ("Message", message), ("MessageStructure", "json")]
        for number, (name, value) in enumerate(attributes.items(), start=1):
            entry = f"MessageAttributes.entry.{number}"
            said = {"Name": name, "Value.DataType": "String", "Value.StringValue": value}
            parameters += [(f"{entry}.{part}", text) for part, text in said.items()]
        try:
            status, answer = self._requests.post(form("Publish", _VERSION, parameters), FORM)
        except MasscommError as error:  # no credentials, for now
            raise Transient(str(error)) from error
        except HTTPError as error:
            raise Transient(
                f"{type(error).__name__}: {error}"[:500], answer_lost=not isinstance(error, _NOT_SENT)
            ) from error
        text = answer.decode(errors="replace")
        if status != _OK:
            # A proxy may have answered instead of SNS: without a code, the HTTP status is the code.
            raise refusal(element("Code", text) or str(status), element("Message", text) or "")
        message_id = element("MessageId", text)
        if message_id is None:
            raise Transient("SNS answered without a message id", answer_lost=True)
        return message_id
