"""Clients of DynamoDB, and of SNS' endpoints: signed HTTP (masscomm/aws/pooled_http.py), with boto3's method names and
botocore's errors.

boto3 takes 1.2 ms of the processor for a transaction of one write and 2.4 ms for one of 25, instead of 0.4 and 0.7, and
0.14 s more at a function's first answer (docs/decisions/058-own-clients.md). It takes 1.4 ms for an endpoint of SNS,
instead of 0.1, and a first capture creates one for each device. The methods have the parameters and results of boto3's
methods, as far as masscomm uses them, so that either client can replace the other. Tests compare each request with
botocore's.

AWS_REGION (or AWS_DEFAULT_REGION) sets the region. AWS_ENDPOINT_URL_<SERVICE> and AWS_ENDPOINT_URL override the
address.
"""

import base64
import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from masscomm import fast_json
from masscomm.aws.http_answer import AnswerLost, AnswerTimeout, ConnectTimeout, NotSent, TlsRefused
from masscomm.aws.request import FORM, Limits, Requests, element, form
from masscomm.domain.time_limits import AWS_FIRST_PAUSE_S
from masscomm.errors import Stop

# Error codes of AWS services that mean throttling; such a request is repeated.
_THROTTLED = {
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "Throttled",
    # Another transaction uses the item, but only for milliseconds.
    "TransactionConflictException",
    "TransactionInProgressException",
}


class _Client:
    """Sends the requests of one service, and repeats failed ones."""

    def __init__(self, service: str, limits: Limits) -> None:
        self._limits = limits
        self._requests = Requests(service, limits)

    def _refusal(self, status: int, answer: bytes, operation: str) -> Exception:
        """Return botocore's error for an error response."""
        raise NotImplementedError

    def _call(self, operation: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Send a request and return the body of its response. A failed request is repeated up to the limit of
        attempts.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        for attempt in range(1, self._limits.attempts + 1):
            try:
                status, answer = self._once(body, headers)
                if status < 300:
                    return answer
                refusal = self._refusal(status, answer, operation)
                code = refusal.response["Error"]["Code"] if isinstance(refusal, ClientError) else ""
                if attempt == self._limits.attempts or (status < 500 and code not in _THROTTLED):
                    raise refusal
            except ClientError:
                raise
            except BotoCoreError:
                if attempt == self._limits.attempts:
                    raise
            time.sleep(random.uniform(0, AWS_FIRST_PAUSE_S * 2**attempt))  # noqa: S311 - a pause, no secret
        raise AssertionError("the last attempt answers or raises")

    def _once(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        from botocore import exceptions

        url = self._requests.url
        try:
            return self._requests.post(body, headers)
        except Stop as error:
            raise exceptions.NoCredentialsError from error
        except ConnectTimeout as error:
            raise exceptions.ConnectTimeoutError(endpoint_url=url, error=error) from error
        except TlsRefused as error:
            raise exceptions.SSLError(endpoint_url=url, error=error) from error
        except NotSent as error:
            raise exceptions.EndpointConnectionError(endpoint_url=url, error=error) from error
        except AnswerTimeout as error:
            raise exceptions.ReadTimeoutError(endpoint_url=url, error=error) from error
        except AnswerLost as error:
            raise exceptions.ConnectionClosedError(endpoint_url=url, error=error, request=None) from error


class DynamoDb(_Client):
    """A client of DynamoDB. Items have the format of boto3's client: {"S": …}, {"N": …}, {"B": bytes}. Every call
    raises botocore's ClientError or BotoCoreError.
    """

    def __init__(self, limits: Limits) -> None:
        """Create the client. Raises Stop if no region is set."""
        super().__init__("dynamodb", limits)

    def put_item(self, **request: Any) -> Any:
        return self._ask("PutItem", request)

    def get_item(self, **request: Any) -> Any:
        return self._ask("GetItem", request)

    def batch_get_item(self, **request: Any) -> Any:
        """Call BatchGetItem for at most 100 keys. The response may leave some of them in UnprocessedKeys."""
        return self._ask("BatchGetItem", request)

    def batch_write_item(self, **request: Any) -> Any:
        """Call BatchWriteItem for at most 25 items. The response may leave some of them in UnprocessedItems."""
        return self._ask("BatchWriteItem", request)

    def update_item(self, **request: Any) -> Any:
        return self._ask("UpdateItem", request)

    def delete_item(self, **request: Any) -> Any:
        return self._ask("DeleteItem", request)

    def transact_write_items(self, **request: Any) -> Any:
        """Call TransactWriteItems. The caller sets ClientRequestToken: without it, a repeated request fails because
        the first one has already written the items.
        """
        return self._ask("TransactWriteItems", request)

    def query(self, **request: Any) -> Any:
        return self._ask("Query", request)

    def scan(self, **request: Any) -> Any:
        return self._ask("Scan", request)

    def get_paginator(self, operation: str) -> "_Pages":
        """Return a paginator of `query` or `scan`, which yields all pages in order."""
        return _Pages(self, {"query": "Query", "scan": "Scan"}[operation])

    def _ask(self, operation: str, request: Mapping[str, Any]) -> Any:
        headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"DynamoDB_20120810.{operation}"}
        return _document(self._call(operation, fast_json.encoded(request, _base64), headers))

    def _refusal(self, status: int, answer: bytes, operation: str) -> Exception:
        from botocore.exceptions import ClientError

        document = _document(answer)
        code = str(document.get("__type", status)).rpartition("#")[2]
        error = {"Code": code, "Message": document.get("message") or document.get("Message") or ""}
        response: Any = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}
        response |= {name: document[name] for name in ("Item", "CancellationReasons") if name in document}
        return ClientError(response, operation)


class SnsEndpointCalls(_Client):
    """A client of the endpoints of SNS' platform applications. Every call raises botocore's ClientError or
    BotoCoreError.
    """

    def __init__(self, limits: Limits) -> None:
        """Create the client. Raises Stop if no region is set."""
        super().__init__("sns", limits)

    def create_platform_endpoint(
        self,
        *,
        PlatformApplicationArn: str,
        Token: str,
        Attributes: Mapping[str, str],
    ) -> dict[str, str]:
        parameters = [("PlatformApplicationArn", PlatformApplicationArn), ("Token", Token), *_entries(Attributes)]
        arn = element("EndpointArn", self._ask("CreatePlatformEndpoint", parameters))
        return {} if arn is None else {"EndpointArn": arn}

    def set_endpoint_attributes(self, *, EndpointArn: str, Attributes: Mapping[str, str]) -> dict[str, str]:
        self._ask("SetEndpointAttributes", [("EndpointArn", EndpointArn), *_entries(Attributes)])
        return {}

    def _ask(self, operation: str, parameters: Iterable[tuple[str, str]]) -> str:
        return self._call(operation, form(operation, "2010-03-31", parameters), FORM).decode(errors="replace")

    def _refusal(self, status: int, answer: bytes, operation: str) -> Exception:
        from botocore.exceptions import ClientError
        from botocore.parsers import ResponseParserError

        text = answer.decode(errors="replace")
        code = element("Code", text)
        if code is None and status < 500:
            return ResponseParserError(f"{operation} was answered with {status} and without an error: {text[:200]}")
        error = {"Code": code or str(status), "Message": element("Message", text) or ""}
        response: Any = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}
        return ClientError(response, operation)


def _entries(attributes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a map in the query API."""
    for number, (name, value) in enumerate(attributes.items(), start=1):
        yield f"Attributes.entry.{number}.key", name
        yield f"Attributes.entry.{number}.value", value


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
    """Return the JSON object of a response body. Any other body, such as a proxy's error page, is returned as the
    `message` of an object.
    """
    try:
        document = json.loads(answer, object_hook=_decoded) if b'"B"' in answer else fast_json.parsed(answer or b"{}")
    except ValueError:
        return {"message": answer[:200].decode(errors="replace")}
    return document if isinstance(document, dict) else {"message": repr(document)[:200]}


def _base64(value: Any) -> str:
    """Encode bytes in base64, as the JSON encoder's default function. Walking through each request first would take
    half of its processor time.
    """
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    raise TypeError(f"not a DynamoDB value: {type(value).__name__}")


def _decoded(value: dict[str, Any]) -> dict[str, Any]:
    """Return a DynamoDB value with type B decoded; no other type is in base64."""
    if len(value) == 1 and isinstance(value.get("B"), str):
        return {"B": base64.b64decode(value["B"])}
    return value
