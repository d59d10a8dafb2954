"""Authorize API requests by API key.

KEYS_SECRET_ARN names a secret: a JSON object from the SHA-256 of each API key, in hex, to its clubs, as
masscomm/http/tenant.py reads them: `1,2`, or `*` for every club. The secret holds digests only: a reader of the secret
cannot use the API. A malformed secret or entry grants no access.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping
from typing import Any

import boto3

_KEEP_S = 60.0
_HEADER = "x-api-key"
_log = logging.getLogger(__name__)
_kept: tuple[float, dict[str, str]] | None = None


def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Return the policy for a REQUEST authorizer event of a REST API.

    Raises:
        BotoCoreError, ClientError: the secret cannot be read. API Gateway then answers 500.
    """
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    key = headers.get(_HEADER, "")
    # No constant-time comparison: the timing of a look-up of the digest reveals nothing about a valid key.
    clubs = _clubs_by_digest().get(hashlib.sha256(key.encode()).hexdigest()) if key else None
    return {
        "principalId": hashlib.sha256(key.encode()).hexdigest()[:16] if key else "nobody",
        "policyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Action": "execute-api:Invoke",
                    "Effect": "Deny" if clubs is None else "Allow",
                    # API Gateway caches the policy by key, also for requests of other paths.
                    "Resource": _every_path(event["methodArn"]),
                }
            ],
        },
        # Read by masscomm/http/tenant.py. `all_clubs` is a separate entry: no malformed list of ids can mean it.
        "context": {"all_clubs": "true"} if clubs == "*" else {"club_ids": clubs or ""},
        # The usage plan counts requests by this key.
        "usageIdentifierKey": key,
    }


def _every_path(method_arn: str) -> str:
    """arn:…:API/STAGE/* of arn:…:API/STAGE/METHOD/path."""
    return "/".join(method_arn.split("/")[:2]) + "/*"


def _clubs_by_digest() -> dict[str, str]:
    global _kept
    if _kept is None or time.monotonic() - _kept[0] > _KEEP_S:
        _kept = (time.monotonic(), _read())
    return _kept[1]


def _read() -> dict[str, str]:
    secrets = boto3.client("secretsmanager")
    text = secrets.get_secret_value(SecretId=os.environ["KEYS_SECRET_ARN"])["SecretString"]
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        _log.error("The secret of API keys is not a JSON object: all requests are denied.")
        return {}
    return {digest: clubs for digest, clubs in content.items() if isinstance(clubs, str) and clubs}
