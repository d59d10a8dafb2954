"""The boto3 clients of LocalStack."""

import pytest

from devstack.service import localstack_client

URL = "http://127.0.0.1:14566"


def test_client_calls_the_given_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    assert localstack_client(URL, "sns").meta.endpoint_url == URL


def test_environment_names_no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://sns.eu-central-1.amazonaws.com")
    assert localstack_client(URL, "sns").meta.endpoint_url == URL
