"""DynamoDB of moto, for the tests of stores."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from local.devstack.service import AWS_CREDENTIALS
from local.emulators.local import REGION


@pytest.fixture
def moto_dynamodb(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a client of an empty DynamoDB."""
    for name, value in AWS_CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        yield boto3.client("dynamodb", region_name=REGION)
