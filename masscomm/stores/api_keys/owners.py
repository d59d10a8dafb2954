"""The permissions that the owner of stored work, such as a rule or a schedule, has when the work is done."""

import re
from collections.abc import Mapping

from masscomm.domain.notification_rules import Owner
from masscomm.stores.api_keys.port import KeyStore

# The principals that are API keys.
_KEY_ID = re.compile(r"[0-9a-f]{16}")


def is_key(owner: Owner) -> bool:
    """Return whether an owner is an API key, whose permissions are read again; a person has those of the request."""
    return _KEY_ID.fullmatch(owner.principal) is not None


def context_of(owner: Owner, keys: KeyStore, now_ms: int) -> Mapping[str, str]:
    """Return the authorizer's context of an owner, which is empty for an API key that has ended. Raises Retry or
    Stop.
    """
    if not is_key(owner):
        return owner.context
    key = keys.find_by_id(owner.principal)
    # guard: rules.revoked_owner
    is_valid = key is not None and key.is_valid(now_ms / 1000)
    return key.context if key is not None and is_valid else {}
