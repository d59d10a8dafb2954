"""Who may use the API, and the clubs they may see.

The secret that KEYS_SECRET_ARN names is a JSON object: SHA-256 of an API key, in hex → its clubs as
masscomm/http/tenant.py reads them, `1,2`, or `*` for every club. It holds no key, so that who reads it can use none.
Whatever else it says lets nobody in.
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
    """A REST API's REQUEST authorizer event to its policy. Raises where the secret cannot be read: API Gateway
    answers 500, and nobody is let in."""
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    key = headers.get(_HEADER, "")
    # Whether a digest is among others says nothing of how near it came: it is not the key.
    clubs = _clubs_by_digest().get(hashlib.sha256(key.encode()).hexdigest()) if key else None
    return {
        "principalId": hashlib.sha256(key.encode()).hexdigest()[:16] if key else "nobody",
        "policyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Action": "execute-api:Invoke",
                    "Effect": "Deny" if clubs is None else "Allow",
                    # The answer is kept for the key, and serves its next request for another path.
                    "Resource": _every_path(event["methodArn"]),
                }
            ],
        },
        # masscomm/http/tenant.py; every club has a key of its own, so that no malformed list of ids can mean it.
        "context": {"all_clubs": "true"} if clubs == "*" else {"club_ids": clubs or ""},
        # The usage plan counts by it.
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
        _log.error("the secret holds no JSON object: nobody is let in")
        return {}
    return {digest: clubs for digest, clubs in content.items() if isinstance(clubs, str) and clubs}
