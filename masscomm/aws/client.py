"""Clients of DynamoDB, SNS and SES: signed HTTP over urllib3, with boto3's method names and botocore's errors.

boto3 supports all of AWS, but its import and its models take more of a cold start than all other needs of a function
together (docs/decisions/058-own-clients.md). The methods have the parameters and results of boto3's, as far as masscomm
uses them, so that either client can replace the other. Tests compare each request with botocore's.

The region is AWS_REGION (or AWS_DEFAULT_REGION). AWS_ENDPOINT_URL_<SERVICE> and AWS_ENDPOINT_URL override the address.
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

# Error codes of every service that are retried.
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
    """Signed requests to one service. Every call raises botocore's ClientError or BotoCoreError."""

    # The name in the service's address and in signatures.
    name: str

    def __init__(self, limits: Limits) -> None:
        """Raise Stop if no region is set."""
        self._limits = limits
        self._requests = Requests(self.name, limits)

    def _call(self, operation: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Return the body of the answer. The call is retried up to the attempts in the limits."""
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
            # In urllib3 a refused connection and an unknown host name are subclasses of this error.
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
    """DynamoDB, with items in the format of boto3's client: {"S": …}, {"N": …}, {"B": bytes}."""

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
        """Return a paginator of `query` or `scan`, which yields all pages in order."""
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
    """Return the JSON object of an answer; any other answer, such as a gateway's, becomes its `message`."""
    try:
        document = json.loads(answer or b"{}")
    except ValueError:
        return {"message": answer[:200].decode(errors="replace")}
    return document if isinstance(document, dict) else {"message": repr(document)[:200]}


def _to_wire(value: Any) -> Any:
    """Return the value with all bytes in it, at any depth, encoded as base64."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: _to_wire(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_to_wire(each) for each in value]
    return value


def _from_wire(value: Any) -> Any:
    """Return the value with base64 decoded to bytes; only a value of type B is base64."""
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get("B"), str):
            return {"B": base64.b64decode(value["B"])}
        return {name: _from_wire(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_from_wire(each) for each in value]
    return value


# --- SNS and SES ------------------------------------------------------------------------------------------------------


class _Query(_Service):
    """Services whose requests are forms and whose answers are XML."""

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
        """Return the text of a required element.

        Raises:
            ResponseStreamingError: the element is missing. The service may have taken the message, whose id is unknown.
        """
        from botocore.exceptions import ResponseStreamingError

        found = element(name, answer)
        if found is None:
            raise ResponseStreamingError(error=f"{operation} was answered without {name}")
        return found


class Sns(_Query):
    """The endpoints of platform applications; masscomm/channels/sns_push.py publishes to them."""

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
