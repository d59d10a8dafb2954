"""The stand-in's answers to publishes that it does not simply accept: rules, in order, and a rate."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class Refusal:
    """An error of SNS: status, code and message as it words them."""

    status: int
    code: str
    message: str


# Source: Amazon SNS API reference, "Publish" and "Common Errors"; the wording is what the service answers.
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
    )
}
# Faults of the connection, not answers of the service:
RESET_BEFORE = "reset_before"  # nothing is taken, the connection is cut: the service cannot be reached
RESET_AFTER = "reset_after"  # taken, and the connection is cut before the answer
HOLD = "hold"  # taken, and answered only once the held calls are released
SLOW = "slow"  # taken, and answered after delay_s

CODES = frozenset(REFUSALS) | {RESET_BEFORE, RESET_AFTER, HOLD, SLOW}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One answer to some publishes; the first matching rule counts."""

    code: str  # of REFUSALS, or reset_before, reset_after, hold, slow
    endpoint: str | None = None  # part of the matching ARNs (of an application's name, of an endpoint); None: all
    share: float = 1.0  # of the matching publishes, at random
    after: int = 0  # number of matching publishes that pass first
    times: int | None = None  # number of answers; None: no limit
    delay_s: float = 0.0  # for slow

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Errors: ValueError, TypeError."""
        rule = cls(**values)
        if rule.code not in CODES:
            raise ValueError(f"no answer {rule.code!r}; there are {', '.join(sorted(CODES))}")
        return rule


@dataclass
class _Standing:
    """A rule with its counts."""

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
    """The rules and the rate in force.

    Rules come first; then a bucket of `burst` tokens, filled with per_s a second, throttles.
    """

    _rules: list[_Standing] = field(default_factory=list)
    _per_s: float | None = None
    _burst: float = 0.0
    _tokens: float = 0.0
    _filled_at: float = 0.0
    _random: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - the same in every run

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """Replace the rules."""
        self._rules = [_Standing(rule) for rule in rules]

    def limit(self, per_s: float | None, burst: float, now: float) -> None:
        """Accept per_s a second from now on, None: any number. burst: how many at once after a pause."""
        self._per_s, self._burst, self._tokens, self._filled_at = per_s, burst, burst, now

    def answer(self, endpoint: str, now: float) -> Rule | None:
        """The rule for a publish to that endpoint; None: it is taken."""
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
