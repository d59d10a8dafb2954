"""Signs webhooks as the specification Standard Webhooks 1.0.0 requires, and has the secrets of endpoints.

The secret of an endpoint is derived from a signing key, the endpoint's id and the secret's version, so that no table
contains it. Rotating increments the version; the previous secret also signs for a while.

Source: https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence

from masscomm.domain.signing_keys import KeySet
from masscomm.errors import Stop

PREFIX = "whsec_"
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
# The key also signs this text, so that no other use of it has the same result.
_CONTEXT = b"masscomm.webhook.1\n"


def secret_of(keys: KeySet, *, key_id: str, endpoint_id: str, version: int) -> str:
    """Return the secret of an endpoint, as receivers configure it. Raises Stop if the signing key was removed."""
    key = keys.keys.get(key_id)
    if key is None:
        raise Stop(f"the signing key {key_id} of webhook endpoints does not exist")
    derived = hmac.new(key, _CONTEXT + f"{endpoint_id}.{version}".encode(), hashlib.sha256).digest()
    return PREFIX + base64.b64encode(derived).decode()


def sign(secret: str, *, message_id: str, at_s: int, body: bytes) -> str:
    """Return the signature of a message, as the header contains it."""
    content = f"{message_id}.{at_s}.".encode() + body
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return f"v1,{base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()}"


def headers(secrets: Sequence[str], *, message_id: str, at_s: int, body: bytes) -> Mapping[str, str]:
    """Return the headers of one attempt, with a signature for each secret."""
    signatures = [sign(secret, message_id=message_id, at_s=at_s, body=body) for secret in secrets]
    return {ID: message_id, TIMESTAMP: str(at_s), SIGNATURE: " ".join(signatures)}
