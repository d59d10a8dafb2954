"""SNS behind the push provider's port: one signed request a message, and nothing else.

The SDK's client takes a millisecond of the processor for each call, more than everything else that delivery does for a
push, and delivery is bound by its processor. What is left of it here is what Publish needs: a form, a signature, a
pooled connection, and what the answer says. What an error means stands in masscomm.channels.provider_errors.

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
# The request had not gone out.
_NOT_SENT = (ConnectTimeoutError, NewConnectionError)


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
        now: Callable[[], datetime] | None = None,
    ) -> None:
        # One attempt: delivery decides about repetitions, because only it knows how much time is left.
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
            # What stands between may answer without being SNS: its status is all that it says then.
            raise refusal(element("Code", text) or str(status), element("Message", text) or "")
        message_id = element("MessageId", text)
        if message_id is None:
            raise Transient("SNS answered without a message id", answer_lost=True)
        return message_id
