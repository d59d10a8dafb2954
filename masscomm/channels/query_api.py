"""Calls the query API of SNS: a form is sent, XML is returned, and errors are raised as ProviderError.

The provider gateway repeats failed calls, because it knows the remaining time. masscomm.domain.provider_error_codes
classifies the errors.

Sources: AWS documentation, "Making Query API requests"; the API reference of Amazon SNS.
"""

from collections.abc import Iterable
from typing import Unpack

from masscomm.aws.async_requests import AsyncRequests
from masscomm.aws.http_answer import AnswerLost, NotSent
from masscomm.aws.request import FORM, Limits, ServiceOptions, element, form
from masscomm.channels.provider import CONNECT_S, READ_S
from masscomm.domain.provider_error_codes import refusal
from masscomm.domain.provider_errors import Transient
from masscomm.errors import MasscommError

_OK = 200


class QueryApi:
    """A client of one service's query API. An instance belongs to one event loop.

    Args:
        service: The name of the service.
        version: The version of the service's API.
        options: The options of masscomm.aws.request.Service.

    Raises:
        Stop: No region is set.
    """

    def __init__(self, service: str, version: str, **options: Unpack[ServiceOptions]) -> None:
        self._version = version
        limits = Limits(connect_s=CONNECT_S, read_s=READ_S)
        self._requests = AsyncRequests(service, limits, headers=FORM, **options)

    @property
    def url(self) -> str:
        return self._requests.url

    async def send(self, operation: str, parameters: Iterable[tuple[str, str]]) -> str:
        """Call an operation once and return the message id in its response.

        Args:
            operation: The name of the operation.
            parameters: The parameters of the operation, not quoted.

        Raises:
            ProviderError: The message was not accepted, or its id is unknown.
        """
        try:
            status, answer = await self._requests.post(form(operation, self._version, parameters))
        except (NotSent, MasscommError) as error:  # There is no connection, or there are no credentials at the moment.
            raise Transient(f"{type(error).__name__}: {error}"[:500]) from error
        except AnswerLost as error:
            raise Transient(f"{type(error).__name__}: {error}"[:500], answer_lost=True) from error
        text = answer.decode(errors="replace")
        if status != _OK:
            # A proxy may have responded instead of AWS. A response without an error code gets its HTTP status as the
            # code.
            raise refusal(element("Code", text) or str(status), element("Message", text) or "")
        message_id = element("MessageId", text)
        if message_id is None:
            raise Transient(f"{operation} was answered without a message id", answer_lost=True)
        return message_id

    async def close(self) -> None:
        await self._requests.close()
