"""SES as the e-mail provider: one call for each message, without a retry.

Delivery decides about retries, because only delivery knows the remaining time. masscomm.channels.provider_errors
classifies the errors.
"""

from typing import TYPE_CHECKING, Any, TypedDict

from botocore.exceptions import BotoCoreError, ClientError

from masscomm.aws.client import Ses
from masscomm.aws.request import Limits
from masscomm.channels.provider import CONNECT_S, READ_S, Rejected, Transient
from masscomm.channels.provider_errors import as_provider_error

if TYPE_CHECKING:
    from mypy_boto3_ses import SESClient


def _limits(connections: int) -> Limits:
    return Limits(connections=connections, connect_s=CONNECT_S, read_s=READ_S)


def _is_about(error: Exception, sender: str) -> bool:
    """Whether SES refuses the sender: this is our fault, and the recipient does not fail for it."""
    from email.utils import parseaddr

    return isinstance(error, ClientError) and parseaddr(sender)[1] in str(error)


class _SendOptions(TypedDict, total=False):
    ConfigurationSetName: str


class SesEmail:
    """SendRawEmail of SES v1.

    configuration_set: SES publishes the events of each message to its event destinations; client: for tests.
    """

    def __init__(
        self,
        *,
        sender: str,
        connections: int,
        configuration_set: str | None = None,
        client: "SESClient | None" = None,
    ) -> None:
        self._sender = sender
        self._options: _SendOptions = {} if configuration_set is None else {"ConfigurationSetName": configuration_set}
        self._client: Any = client or Ses(_limits(connections))

    def send(self, *, recipient: str, message: bytes) -> str:
        from masscomm.channels.email import mail_domain_in_ascii

        try:
            answer = self._client.send_raw_email(
                Source=self._sender,
                Destinations=[mail_domain_in_ascii(recipient)],
                RawMessage={"Data": message},
                **self._options,
            )
        except (ClientError, BotoCoreError) as error:
            if _is_about(error, self._sender):
                raise Transient(str(error)[:500]) from error
            raise as_provider_error(error) from error
        except ValueError as error:
            raise Rejected(f"no e-mail can be addressed so: {error}") from error
        return str(answer["MessageId"])
