"""Authorize API requests by API key, or by the access token of a person (masscomm/http/access_tokens.py).

A key is in the table API_KEYS_TABLE (schemas/dynamodb/api_keys.json), under its SHA-256. `masscomm keys` writes it, and
the authorizer writes the time of its last use.

OIDC_ISSUER, OIDC_AUDIENCE and OIDC_KEYS_URL name the issuer of access tokens. Without them, every token is denied.
PEOPLE_USAGE_KEY is the API key in whose usage plan people's requests are counted; it authorizes no request.
"""

import hashlib
import logging
import os
import time
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from masscomm.http.access_tokens import AccessTokens

# The minimum number of seconds between two writes of a key's last use.
_USE_RECORDED_S = 60
_HEADER = "x-api-key"
# The limits of masscomm/domain/key_limits.py, and COUNTED_UNDER.
_LIMITS = ("requests_a_minute", "recipients_a_day")
_COUNTED_UNDER = "counted_under"
_log = logging.getLogger(__name__)


def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Return the policy for a REQUEST authorizer event of a REST API.

    Raises:
        BotoCoreError, ClientError: The table cannot be read. API Gateway then responds with status 500.
        Retry, Stop: The issuer's keys cannot be read, or its settings are malformed; status 500, too.
    """
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    key, authorization = headers.get(_HEADER, ""), headers.get("authorization") or ""
    if authorization.strip().partition(" ")[0].lower() == "bearer":
        person = _person(authorization)
        # A request with two credentials has two principals.
        if key:
            person = None
        principal = "nobody" if person is None else person.pop("principalId")
        return _answer(event, principal, person, os.environ.get("PEOPLE_USAGE_KEY", ""))
    # The comparison need not take constant time: the timing of a look-up by digest reveals nothing about a valid key.
    digest = hashlib.sha256(key.encode()).hexdigest()
    if not key:
        return _answer(event, "nobody", None, "")
    # The usage plan counts requests with this key. API Gateway knows it only by its digest.
    return _answer(event, digest[:16], _stored_context(digest), digest)


def _answer(
    event: Mapping[str, Any], principal: str, context: Mapping[str, str] | None, usage_key: str
) -> dict[str, Any]:
    """Return the policy that allows a principal with a context every path; without a context it denies."""
    return {
        "principalId": principal,
        "policyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Action": "execute-api:Invoke",
                    "Effect": "Deny" if context is None else "Allow",
                    # API Gateway caches the policy by key and applies it to requests to other paths, so the policy
                    # covers every path.
                    "Resource": _every_path(event["methodArn"]),
                }
            ],
        },
        # masscomm/http/tenant.py and scopes.py read this context. `all_clubs` is a separate entry, so that no malformed
        # list of ids grants access to every club.
        "context": {"club_ids": ""} if context is None else dict(context),
        "usageIdentifierKey": usage_key,
    }


def _person(authorization: str) -> dict[str, str] | None:
    """Return the authorizer context of an access token, with its principal; None if the token is not valid."""
    tokens = _access_tokens()
    if tokens is None:
        return None
    from masscomm.http.access_tokens import InvalidToken, bearer_token

    try:
        return tokens.context(bearer_token(authorization) or "")
    except InvalidToken as error:
        _log.info("An access token is denied: %s", error)
        return None


@cache
def _access_tokens() -> "AccessTokens | None":
    if not os.environ.get("OIDC_ISSUER"):
        return None
    from masscomm.clock import SystemClock
    from masscomm.http.access_tokens import AccessTokens, Issuer

    issuer = Issuer.from_environment()
    return None if issuer is None else AccessTokens.of(issuer, SystemClock())


def _every_path(method_arn: str) -> str:
    """Return arn:…:API/STAGE/* for an ARN arn:…:API/STAGE/METHOD/path."""
    return "/".join(method_arn.split("/")[:2]) + "/*"


def _stored_context(digest: str) -> dict[str, str] | None:
    """Return the authorizer context of a key in the table, and record its use; None if the key is unknown, expired
    or malformed.
    """
    table, now_s = os.environ["API_KEYS_TABLE"], int(time.time())
    client = boto3.client("dynamodb")
    item = client.get_item(TableName=table, Key={"id": {"S": digest}}, ConsistentRead=True).get("Item")
    if item is None:
        return None
    try:
        clubs, scopes = item["clubs"]["S"], item["scopes"]["S"]
        has_expired = "expires_at" in item and int(item["expires_at"]["N"]) <= now_s
        limits = {name: str(int(item[name]["N"])) for name in _LIMITS if name in item}
        mode = {"mode": item["mode"]["S"]} if "mode" in item else {}
        under = {_COUNTED_UNDER: item[_COUNTED_UNDER]["S"]} if _COUNTED_UNDER in item else {}
    except (KeyError, ValueError):
        _log.exception("The item of an API key is malformed: the key is denied.")
        return None
    if has_expired or not clubs or mode.get("mode", "live") not in ("live", "test"):
        return None
    _record_use(client, table, digest, now_s)
    return _clubs(clubs) | {"scopes": scopes} | limits | mode | under


def _record_use(client: Any, table: str, digest: str, now_s: int) -> None:
    """Write the time of a key's last use, unless the stored one is less than a minute old."""
    try:
        client.update_item(
            TableName=table,
            Key={"id": {"S": digest}},
            UpdateExpression="SET last_used_at = :now",
            ConditionExpression="attribute_exists(id)"
            " AND (attribute_not_exists(last_used_at) OR last_used_at <= :recent)",
            ExpressionAttributeValues={":now": {"N": str(now_s)}, ":recent": {"N": str(now_s - _USE_RECORDED_S)}},
        )
    except client.exceptions.ConditionalCheckFailedException:
        return
    except (BotoCoreError, ClientError):
        _log.warning("The last use of an API key was not recorded.", exc_info=True)


def _clubs(text: str) -> dict[str, str]:
    return {"all_clubs": "true"} if text == "*" else {"club_ids": text}
