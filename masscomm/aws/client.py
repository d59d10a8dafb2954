"""DynamoDB, SNS and SES as the functions ask them: signed HTTP over urllib3, with boto3's names and botocore's errors.

boto3 does the same and all the rest of AWS; importing it and reading its models takes a cold start more than everything
else a function needs (docs/decisions/058-own-clients.md). The methods take and answer what boto3's do, as far as they
are used here; either fits where the other does, and tests hold each request against botocore's.

The region is AWS_REGION (or AWS_DEFAULT_REGION); AWS_ENDPOINT_URL_<SERVICE> and AWS_ENDPOINT_URL say another address.
"""

import base64
import json
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from masscomm.aws.request import FORM, Limits, Requests, element, form
from masscomm.errors import Stop

# What another try may put right, whatever the service.
_THROTTLED = {
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TransactionInProgressException",
}
_FIRST_PAUSE_S = 0.05


class _Service:
    """One service's address, signed. Errors of every call: botocore's ClientError and BotoCoreError."""

    # As its address and its signature have it.
    name: str

    def __init__(self, limits: Limits) -> None:
        """Errors: Stop where no region is set."""
        self._limits = limits
        self._requests = Requests(self.name, limits)

    def _call(self, operation: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The body of the answer, after as many attempts as the limits allow."""
        from botocore.exceptions import BotoCoreError, ClientError

        for attempt in range(1, self._limits.attempts + 1):
            try:
                status, answer = self._once(body, headers)
                if status < 300:
                    return answer
                refusal = self._refusal(status, answer, operation)
                code = refusal.response["Error"]["Code"]
                if attempt == self._limits.attempts or (status < 500 and code not in _THROTTLED):
                    raise refusal
            except ClientError:
                raise
            except BotoCoreError:
                if attempt == self._limits.attempts:
                    raise
            time.sleep(random.uniform(0, _FIRST_PAUSE_S * 2**attempt))  # noqa: S311 - a pause, no secret
        raise AssertionError("the last attempt answers or raises")

    def _once(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        import urllib3
        from botocore import exceptions

        url = self._requests.url
        try:
            return self._requests.post(body, headers)
        except Stop as error:
            raise exceptions.NoCredentialsError from error
        except urllib3.exceptions.ConnectTimeoutError as error:
            # Also what urllib3 makes of a connection that is refused or of a name that nobody knows.
            if isinstance(error, urllib3.exceptions.NewConnectionError):
                raise exceptions.EndpointConnectionError(endpoint_url=url, error=error) from error
            raise exceptions.ConnectTimeoutError(endpoint_url=url, error=error) from error
        except urllib3.exceptions.NewConnectionError as error:
            raise exceptions.EndpointConnectionError(endpoint_url=url, error=error) from error
        except urllib3.exceptions.ReadTimeoutError as error:
            raise exceptions.ReadTimeoutError(endpoint_url=url, error=error) from error
        except urllib3.exceptions.SSLError as error:
            raise exceptions.SSLError(endpoint_url=url, error=error) from error
        except urllib3.exceptions.ProtocolError as error:
            raise exceptions.ConnectionClosedError(endpoint_url=url, error=error, request=None) from error
        except urllib3.exceptions.HTTPError as error:
            raise exceptions.HTTPClientError(error=error) from error

    def _refusal(self, status: int, answer: bytes, operation: str) -> Any:
        raise NotImplementedError


# --- DynamoDB ---------------------------------------------------------------------------------------------------------


class DynamoDb(_Service):
    """Items as boto3's client has them: {"S": …}, {"N": …}, {"B": bytes}."""

    name = "dynamodb"

    def put_item(self, **request: Any) -> Any:
        """PutItem."""
        return self._ask("PutItem", request)

    def get_item(self, **request: Any) -> Any:
        """GetItem."""
        return self._ask("GetItem", request)

    def update_item(self, **request: Any) -> Any:
        """UpdateItem."""
        return self._ask("UpdateItem", request)

    def delete_item(self, **request: Any) -> Any:
        """DeleteItem."""
        return self._ask("DeleteItem", request)

    def query(self, **request: Any) -> Any:
        """Query: one page."""
        return self._ask("Query", request)

    def scan(self, **request: Any) -> Any:
        """Scan: one page."""
        return self._ask("Scan", request)

    def get_paginator(self, operation: str) -> "_Pages":
        """Of query or scan; all pages, one after the other."""
        return _Pages(self, {"query": "Query", "scan": "Scan"}[operation])

    def _ask(self, operation: str, request: Mapping[str, Any]) -> Any:
        headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"DynamoDB_20120810.{operation}"}
        answer = self._call(operation, json.dumps(_to_wire(request)).encode(), headers)
        return _from_wire(_document(answer))

    def _refusal(self, status: int, answer: bytes, operation: str) -> Any:
        from botocore.exceptions import ClientError

        document = _from_wire(_document(answer))
        code = str(document.get("__type", status)).rpartition("#")[2]
        error = {"Code": code, "Message": document.get("message") or document.get("Message") or ""}
        response: Any = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}
        if "Item" in document:
            response["Item"] = document["Item"]
        return ClientError(response, operation)


@dataclass(frozen=True)
class _Pages:
    client: DynamoDb
    operation: str

    def paginate(self, **request: Any) -> Iterator[Any]:
        while True:
            page = self.client._ask(self.operation, request)
            yield page
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def _document(answer: bytes) -> dict[str, Any]:
    """What a service, or a gateway in front of it, said."""
    try:
        document = json.loads(answer or b"{}")
    except ValueError:
        return {"message": answer[:200].decode(errors="replace")}
    return document if isinstance(document, dict) else {"message": repr(document)[:200]}


def _to_wire(value: Any) -> Any:
    """Bytes as base64, wherever they stand."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: _to_wire(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_to_wire(each) for each in value]
    return value


def _from_wire(value: Any) -> Any:
    """The other way: only the value of a type B is base64."""
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get("B"), str):
            return {"B": base64.b64decode(value["B"])}
        return {name: _from_wire(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_from_wire(each) for each in value]
    return value


# --- SNS and SES ------------------------------------------------------------------------------------------------------


class _Query(_Service):
    """Services that take forms and answer XML."""

    version: str

    def _ask(self, operation: str, *parameters: tuple[str, str]) -> str:
        return self._call(operation, form(operation, self.version, parameters), FORM).decode()

    def _refusal(self, status: int, answer: bytes, operation: str) -> Any:
        from botocore.exceptions import ClientError

        text = answer.decode(errors="replace")
        message = element("Message", text)
        error = {
            "Code": element("Code", text) or str(status),
            "Message": text[:200] if message is None else message,
        }
        response: Any = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}
        return ClientError(response, operation)

    @staticmethod
    def _found(name: str, answer: str, operation: str) -> str:
        """The text of an element that must be there: else the message may have been taken, and nobody knows its id."""
        from botocore.exceptions import ResponseStreamingError

        found = element(name, answer)
        if found is None:
            raise ResponseStreamingError(error=f"{operation} was answered without {name}")
        return found


class Sns(_Query):
    """The endpoints of platform applications; publishing to them is masscomm/channels/sns_push.py."""

    name, version = "sns", "2010-03-31"

    def create_platform_endpoint(
        self,
        *,
        PlatformApplicationArn: str,
        Token: str,
        Attributes: Mapping[str, str],
    ) -> dict[str, str]:
        """CreatePlatformEndpoint."""
        answer = self._ask(
            "CreatePlatformEndpoint",
            ("PlatformApplicationArn", PlatformApplicationArn),
            ("Token", Token),
            *_entries(Attributes),
        )
        return {"EndpointArn": self._found("EndpointArn", answer, "CreatePlatformEndpoint")}

    def set_endpoint_attributes(self, *, EndpointArn: str, Attributes: Mapping[str, str]) -> None:
        """SetEndpointAttributes."""
        self._ask("SetEndpointAttributes", ("EndpointArn", EndpointArn), *_entries(Attributes))

    def delete_endpoint(self, *, EndpointArn: str) -> None:
        """DeleteEndpoint."""
        self._ask("DeleteEndpoint", ("EndpointArn", EndpointArn))


class Ses(_Query):
    """Sending e-mail."""

    name, version = "ses", "2010-12-01"

    def send_raw_email(
        self,
        *,
        Source: str,
        Destinations: list[str],
        RawMessage: Mapping[str, bytes],
        ConfigurationSetName: str | None = None,
    ) -> dict[str, str]:
        """SendRawEmail."""
        answer = self._ask(
            "SendRawEmail",
            ("Source", Source),
            *((f"Destinations.member.{number}", each) for number, each in enumerate(Destinations, start=1)),
            ("RawMessage.Data", base64.b64encode(RawMessage["Data"]).decode()),
            *([("ConfigurationSetName", ConfigurationSetName)] if ConfigurationSetName is not None else []),
        )
        return {"MessageId": self._found("MessageId", answer, "SendRawEmail")}


def _entries(attributes: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        pair
        for number, (name, value) in enumerate(attributes.items(), start=1)
        for pair in ((f"Attributes.entry.{number}.key", name), (f"Attributes.entry.{number}.value", value))
    ]
