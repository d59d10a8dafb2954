"""DynamoDB of moto, for the tests of stores."""

from collections.abc import Iterator
from threading import Lock
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.dynamodb.responses import DynamoHandler

from local.devstack.service import AWS_CREDENTIALS
from local.emulators.local import REGION


@pytest.fixture
def moto_dynamodb(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a client of an empty DynamoDB. As in the real one, each request is atomic."""
    for name, value in AWS_CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    lock, call_action = Lock(), DynamoHandler.call_action

    def atomic(self: DynamoHandler) -> Any:
        with lock:
            return call_action(self)

    monkeypatch.setattr(DynamoHandler, "call_action", atomic)
    with mock_aws():
        yield boto3.client("dynamodb", region_name=REGION)
