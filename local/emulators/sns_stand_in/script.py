"""The rules by which the SNS stand-in responds to publishes, in order, and its rate limit."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class Refusal:
    """An error of SNS: its HTTP status, code and message."""

    status: int
    code: str
    message: str


# The error messages are those of the real service. Source: Amazon SNS API reference, "Publish" and "Common Errors".
REFUSALS = {
    refusal.code: refusal
    for refusal in (
        Refusal(400, "Throttling", "Rate exceeded"),
        Refusal(400, "EndpointDisabled", "Endpoint is disabled"),
        Refusal(404, "NotFound", "Endpoint does not exist"),
        Refusal(400, "InvalidParameter", "Invalid parameter: TargetArn Reason: No endpoint found for the target arn"),
        Refusal(403, "ExpiredToken", "The security token included in the request is expired"),
        Refusal(403, "AuthorizationError", "User is not authorized to perform: SNS:Publish on resource"),
        Refusal(400, "PlatformApplicationDisabled", "Platform application is disabled"),
        Refusal(500, "InternalError", "An internal error has occurred"),
        Refusal(503, "ServiceUnavailable", "Service is unavailable"),
        # Of SMS alone (text_messages.py).
        Refusal(402, "ServiceQuotaExceededException", "A monthly spend limit is reached"),
        Refusal(400, "DESTINATION_PHONE_NUMBER_OPTED_OUT", "The number has opted out"),
        Refusal(400, "DESTINATION_COUNTRY_BLOCKED_BY_PROTECT_CONFIGURATION", "The country is blocked"),
    )
}
# The following codes are connection faults. RESET_BEFORE: the connection is cut and the message is not accepted.
RESET_BEFORE = "reset_before"
RESET_AFTER = "reset_after"  # The message is accepted, but the connection is cut before the response.
# The message is accepted; the response is sent only after the held calls are released.
HOLD = "hold"
SLOW = "slow"  # The message is accepted; the response is sent after delay_s seconds.

CODES = frozenset(REFUSALS) | {RESET_BEFORE, RESET_AFTER, HOLD, SLOW}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One way to respond to some publishes; the first rule that matches a publish applies."""

    code: str  # One of REFUSALS, or reset_before, reset_after, hold or slow.
    # A part of the matching ARNs, such as the name of an application or an endpoint; None: all.
    endpoint: str | None = None
    # The share of the matching publishes to which the rule applies, chosen at random.
    share: float = 1.0
    # The number of matching publishes that the rule skips at first.
    after: int = 0
    times: int | None = None  # The number of publishes to which the rule applies; None: no limit.
    delay_s: float = 0.0  # The delay of the code `slow` in seconds.

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Return the rule in a JSON object. Raises ValueError or TypeError."""
        rule = cls(**values)
        if rule.code not in CODES:
            raise ValueError(f"no answer {rule.code!r}; there are {', '.join(sorted(CODES))}")
        return rule


@dataclass
class _Standing:
    """A rule with the number of publishes that matched it, and the number that it answered."""

    rule: Rule
    seen: int = 0
    responses: int = 0

    def takes(self, endpoint: str, chance: random.Random) -> bool:
        rule = self.rule
        if rule.endpoint is not None and rule.endpoint not in endpoint:
            return False
        if rule.times is not None and self.responses >= rule.times:
            return False
        self.seen += 1
        if self.seen <= rule.after or (rule.share < 1 and chance.random() >= rule.share):
            return False
        self.responses += 1
        return True


@dataclass
class Script:
    """The current rules and rate limit.

    Rules apply first. Then publishes are throttled by a bucket of `burst` tokens, filled with per_s tokens a second.
    """

    _rules: list[_Standing] = field(default_factory=list)
    _per_s: float | None = None
    _burst: float = 0.0
    _tokens: float = 0.0
    _filled_at: float = 0.0
    _random: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - the same in every run

    def set_rules(self, rules: Sequence[Rule]) -> None:
        self._rules = [_Standing(rule) for rule in rules]

    def limit(self, per_s: float | None, burst: float, now: float) -> None:
        """Accept per_s publishes a second from now on; None: any number. `burst` is the number accepted at once
        after a pause.
        """
        self._per_s, self._burst, self._tokens, self._filled_at = per_s, burst, burst, now

    def answer(self, endpoint: str, now: float) -> Rule | None:
        """Return the rule for a publish to this endpoint; None: the publish is accepted."""
        for standing in self._rules:
            if standing.takes(endpoint, self._random):
                return standing.rule
        if self._per_s is None:
            return None
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_s)
        self._filled_at = now
        if self._tokens < 1:
            return _THROTTLED
        self._tokens -= 1
        return None


_THROTTLED = Rule(code="Throttling")
