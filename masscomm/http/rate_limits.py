"""The limits of an API key (masscomm.domain.key_limits) over HTTP.

Responses to a key with limits have the headers RateLimit-Policy and RateLimit; a request above a limit gets a 429 with
Retry-After. A key without a limit is not counted.

Source: IETF draft-ietf-httpapi-ratelimit-headers, "RateLimit header fields for HTTP".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from masscomm.clock import Clock
from masscomm.domain.key_limits import RECIPIENTS, REQUESTS, Limit, Use, Window
from masscomm.errors import Stop
from masscomm.http.problem import Problem
from masscomm.integers import integer_or
from masscomm.texts import Text

POLICY, REMAINING = "RateLimit-Policy", "RateLimit"
_TEXTS = {REQUESTS: Text.REQUESTS_LIMIT, RECIPIENTS: Text.RECIPIENTS_LIMIT}


class KeyUsage(Protocol):
    """The interface of the store of the use of API keys. Its method raises Retry (down, slow) or Stop (no table, no
    permission).
    """

    def take(self, window: Window, amount: int, *, send_id: str | None = None) -> Use:
        """Add an amount to the use of a window, or nothing if the sum would be above the maximum.

        Args:
            window: The window.
            amount: The amount to add, at least 1.
            send_id: The send to which the amount belongs. It is counted once, however often the call is repeated. If
                None, every call counts.
        """
        ...


def maximum_of(authorizer: object, kind: Limit) -> int | None:
    """Return the maximum in an authorizer's context; None if the key has no such limit. Raises Stop if the value is
    malformed.
    """
    value: Any = authorizer.get(kind.setting) if isinstance(authorizer, Mapping) else None
    if value is None:
        return None
    maximum = integer_or(value if isinstance(value, str) else None, None, lowest=0)
    if maximum is None:  # guard: limits.malformed
        raise Stop(f"{kind.setting} in the authorizer's context is malformed")
    return maximum


@dataclass(frozen=True, kw_only=True)
class RateLimiter:
    """Counts requests and recipients of API keys."""

    usage: KeyUsage
    clock: Clock

    def take(
        self, kind: Limit, maximum: int, amount: int, *, key_id: str, send_id: str | None = None
    ) -> dict[str, str]:
        """Count an amount and return the headers of the response.

        Raises:
            Problem: With status 429, if the amount is above what remains in the window; nothing is counted.
            Retry, Stop: The errors of the store.
        """
        now_s = self.clock.now_ms() // 1000
        window = Window.at(now_s, key_id=key_id, kind=kind, maximum=maximum)
        use = self.usage.take(window, amount, send_id=send_id)
        remaining, wait_s = max(0, maximum - use.used), window.end_s - now_s
        headers = {
            POLICY: f'"{kind.name}";q={maximum};w={kind.window_s}',
            REMAINING: f'"{kind.name}";r={remaining};t={wait_s}',
        }
        if not use.counted:  # guard: limits.refused
            reset = datetime.fromtimestamp(window.end_s, UTC).isoformat().replace("+00:00", "Z")
            raise Problem(
                429,
                _TEXTS[kind].filled(maximum=maximum, remaining=remaining, reset=reset, amount=amount),
                retry_after_s=wait_s,
                headers=headers,
            )
        return headers


def joined(*headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of several limits as one mapping: the values of one name become a list."""
    names = dict.fromkeys(name for each in headers for name in each)
    return {name: ", ".join(each[name] for each in headers if name in each) for name in names}
