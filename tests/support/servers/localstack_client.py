"""Clients of LocalStack, by localstack-client."""

from typing import Any
from urllib.parse import urlsplit

from localstack_client.session import Session

from local.devstack.service import AWS_CREDENTIALS
from local.emulators.local import REGION


def localstack_client(url: str, service: str) -> Any:
    """Return boto3's client of a service of LocalStack.

    Raises:
        ValueError: AWS_ENDPOINT_URL names another server; localstack-client would use that one.
    """
    session = Session(
        aws_access_key_id=AWS_CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=AWS_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        region_name=REGION,
        localstack_host=urlsplit(url).netloc,
    )
    client = session.client(service)
    if client.meta.endpoint_url != url:
        raise ValueError(f"LocalStack is at {url}, not at {client.meta.endpoint_url}: unset AWS_ENDPOINT_URL.")
    return client
