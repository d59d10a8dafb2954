"""The boto3 clients of LocalStack."""

import pytest

from local.devstack.service import local_client
from tests.support.servers.localstack_client import localstack_client

URL, OTHER = "http://127.0.0.1:14566", "https://sns.eu-central-1.amazonaws.com"


def test_client_ignores_the_server_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", OTHER)
    assert local_client(URL, "sns").meta.endpoint_url == URL


def test_localstack_client_calls_the_given_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    assert localstack_client(URL, "sns").meta.endpoint_url == URL


def test_localstack_client_of_another_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", OTHER)
    with pytest.raises(ValueError, match="unset AWS_ENDPOINT_URL"):
        localstack_client(URL, "sns")
