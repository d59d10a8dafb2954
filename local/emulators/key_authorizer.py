"""The authorizer of the local gateway: it accepts the stack's development key, the keys of `masscomm keys`, and the
access tokens of people.

Results about keys are kept for the time of API Gateway's cache, so that a revoked key ends here as late as in AWS.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from masscomm.clock import Clock
from masscomm.http.access_tokens import AccessTokens, InvalidToken, bearer_token
from masscomm.http.scopes import ALL_SCOPES, SCOPES, scopes_text
from masscomm.stores.api_keys.dynamodb import ApiKeys
from masscomm.stores.api_keys.port import digest_of

log = logging.getLogger(__name__)

# The time to live of API Gateway's authorizer cache (infra/cdk/resources/rest_api.py), and the number of results kept.
KEPT_S = 60
_MAX_KEPT = 1_000
# The authorizer context of the development key: every club (tenant) and every scope.
DEVELOPMENT = {"principalId": "development", "all_clubs": "true", SCOPES: scopes_text(ALL_SCOPES)}


@dataclass(frozen=True, kw_only=True)
class KeyAuthorizer:
    """Returns the authorizer contexts of API keys. It may be called by several threads."""

    keys: ApiKeys
    clock: Clock
    # The SHA-256 of the development key, in hex; None if there is none.
    development_key: str | None = None
    # The digest of a key → the time at which its result is forgotten, and the result.
    _kept: dict[str, tuple[float, Mapping[str, str] | None]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, text: str) -> Mapping[str, str] | None:
        """Return the context of an API key, as the deployed authorizer does; None if the key is denied. Raises Retry
        or Stop.
        """
        digest = digest_of(text)
        if digest == self.development_key:
            return DEVELOPMENT
        now = self.clock.monotonic()
        with self._lock:
            until, context = self._kept.get(digest, (now, None))
        if until > now:
            return context
        context = self._context(digest)
        with self._lock:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[digest] = now + KEPT_S, context
        return context

    def _context(self, digest: str) -> Mapping[str, str] | None:
        key, now_s = self.keys.find(digest), self.clock.now_ms() // 1000
        if key is None or not key.is_valid(now_s):
            return None
        self.keys.record_use(key.digest, now_s)
        return {"principalId": key.key_id, **key.context}


@dataclass(frozen=True, kw_only=True)
class RequestAuthorizer:
    """Returns the authorizer contexts of requests, as infra/cdk/handlers/authorizer.py does."""

    keys: KeyAuthorizer
    # None: no access token is accepted.
    tokens: AccessTokens | None = None

    def __call__(self, headers: Mapping[str, str]) -> Mapping[str, str] | None:
        """Return the context of a request with these headers; None if it is denied. Names of headers are in lower
        case, or the mapping ignores case. Raises Retry or Stop.
        """
        key, token = headers.get("x-api-key", ""), bearer_token(headers.get("authorization"))
        if token is None:
            return self.keys(key) if key else None
        if key or self.tokens is None:
            return None
        try:
            return self.tokens.context(token)
        except InvalidToken as error:
            log.info("an access token is denied: %s", error)
            return None
