"""Clients of boto3, for calls that no recipient waits for.

The modules are imported at the first use: boto3 and the client of one service take 0.14 s more of the processor than
our own client (docs/decisions/058-own-clients.md).
"""

from typing import Any

from masscomm.aws import endpoint
from masscomm.aws.request import Limits


def client(service: str, limits: Limits) -> Any:
    """Return boto3's client of a service. Thread-safe. Raises Stop if no region is set."""
    import boto3
    from botocore.config import Config

    config = Config(
        max_pool_connections=limits.connections,
        connect_timeout=limits.connect_s,
        read_timeout=limits.read_s,
        retries={"mode": "standard", "total_max_attempts": limits.attempts},
        tcp_keepalive=True,
    )
    session: Any = boto3.Session(region_name=endpoint.region())
    return session.client(service, config=config)
