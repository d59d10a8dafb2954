"""An account of a tenant on a loopback server: STS, SQS and EventBridge, as far as webhook_sender calls them.

STS assumes a role only with the external id that its trust policy requires, which the emulators of AWS do not check.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.support.servers.http_server import Answer, Asked, http_server

ACCOUNT = "111122223333"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/masscomm-events"
QUEUE = f"arn:aws:sqs:eu-central-1:{ACCOUNT}:orders"
FIFO = f"{QUEUE}.fifo"
BUS = f"arn:aws:events:eu-central-1:{ACCOUNT}:event-bus/orders"
_KEY = "ASIAEXAMPLE"
_ASSUMED = """<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>{key}</AccessKeyId>
<SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>
</Credentials></AssumeRoleResult></AssumeRoleResponse>"""
_DENIED = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>"


@dataclass
class CustomerAccount:
    # The external id that the role requires; None: none.
    external_id: str | None
    # The entries that SQS or EventBridge refuses, by a part of their text, with the number of refusals left.
    refused: dict[str, int] = field(default_factory=dict)
    # The status of each answer of SQS and EventBridge.
    status: int = 200
    # The parameters of each AssumeRole, and the entries of each request.
    assumed: list[dict[str, str]] = field(default_factory=list)
    requests: list[list[dict[str, Any]]] = field(default_factory=list)

    @property
    def accepted(self) -> list[str]:
        """Return the ids of the accepted events, in their order."""
        texts = [each.get("MessageBody") or each["Detail"] for entries in self.requests for each in entries if each]
        return [json.loads(text)["event_id"] for text in texts]

    def answer(self, asked: Asked) -> Answer:
        target = asked.headers.get("x-amz-target")
        if target is None:
            return self._assume({name: values[0] for name, values in parse_qs(asked.body.decode()).items()})
        assert f"Credential={_KEY}/" in asked.headers["authorization"]
        assert asked.headers["x-amz-security-token"] == "token"
        if self.status != 200:
            return self.status, {}, json.dumps({"__type": "com.amazonaws#ThrottlingException"}).encode()
        entries = json.loads(asked.body)["Entries"]
        assert 1 <= len(entries) <= 10
        refused = [self._refuses(each) for each in entries]
        self.requests.append([{} if no else each for each, no in zip(entries, refused, strict=True)])
        if target == "AWSEvents.PutEvents":
            rows = [{"ErrorCode": "InternalFailure"} if no else {"EventId": "e"} for no in refused]
            return 200, {}, json.dumps({"FailedEntryCount": sum(refused), "Entries": rows}).encode()
        failed = [
            {"Id": each["Id"], "SenderFault": False, "Code": "InternalError"}
            for each, no in zip(entries, refused, strict=True)
            if no
        ]
        done = [{"Id": each["Id"]} for each, no in zip(entries, refused, strict=True) if not no]
        return 200, {}, json.dumps({"Successful": done, "Failed": failed}).encode()

    def _assume(self, parameters: dict[str, str]) -> Answer:
        self.assumed.append(parameters)
        is_trusted = parameters["RoleArn"] == ROLE and self.external_id in (None, parameters.get("ExternalId"))
        return (200, {}, _ASSUMED.format(key=_KEY).encode()) if is_trusted else (403, {}, _DENIED.encode())

    def _refuses(self, entry: dict[str, Any]) -> bool:
        text = json.dumps(entry)
        found = next((part for part, left in self.refused.items() if part in text and left > 0), None)
        if found is not None:
            self.refused[found] -= 1
        return found is not None


@contextmanager
def customer_account(monkeypatch: pytest.MonkeyPatch, external_id: str | None) -> Iterator[CustomerAccount]:
    """Serve an account, and let clients of AWS call it."""
    account = CustomerAccount(external_id)
    with http_server(account.answer) as url:
        values = {"AWS_ENDPOINT_URL": url, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "own"}
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        for name in ("AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL_EVENTS"):
            monkeypatch.delenv(name, raising=False)
        yield account
