"""The limits that an API key may have: requests a minute and recipients a day (UTC), each in fixed windows."""

from dataclasses import dataclass

from masscomm.domain.time_limits import KEY_USAGE_KEPT_S


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A kind of limit."""

    # The name in the headers of responses.
    name: str
    # The name in the authorizer's context and in the table of API keys.
    setting: str
    window_s: int


REQUESTS = Limit(name="requests", setting="requests_a_minute", window_s=60)
RECIPIENTS = Limit(name="recipients", setting="recipients_a_day", window_s=86_400)
LIMITS = (REQUESTS, RECIPIENTS)
# The name, in both, of the principal with whose use the limits are counted, if it is not the key itself.
COUNTED_UNDER = "counted_under"


@dataclass(frozen=True, kw_only=True)
class Window:
    """One window of one limit of one key."""

    key_id: str
    kind: Limit
    # The maximum that the key may use in the window.
    maximum: int
    # The beginning of the window, in seconds since the epoch.
    start_s: int

    @classmethod
    def at(cls, now_s: int, *, key_id: str, kind: Limit, maximum: int) -> "Window":
        return cls(key_id=key_id, kind=kind, maximum=maximum, start_s=now_s - now_s % kind.window_s)

    @property
    def id(self) -> str:
        return f"{self.key_id}#{self.kind.name}#{self.start_s}"  # guard: limits.own_key

    def use_id(self, amount: int, send_id: str) -> str:
        """Return the id of the use for a send: another key or another amount is counted, too."""
        return f"send#{self.key_id}#{send_id}#{amount}"  # guard: limits.use_of_a_key

    @property
    def end_s(self) -> int:
        return self.start_s + self.kind.window_s

    @property
    def expires_at(self) -> int:
        """Return the time after which the use need not be kept, in seconds since the epoch."""
        return self.end_s + KEY_USAGE_KEPT_S


@dataclass(frozen=True, kw_only=True)
class Use:
    """The result of counting an amount."""

    # Whether the amount was counted: all of it, or nothing.
    counted: bool
    # The use of the window afterwards.
    used: int
