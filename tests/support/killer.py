"""Kills a function at one of its calls to stores and to Kafka."""

from collections.abc import Callable
from typing import Any


class Killed(BaseException):
    """The function was killed."""


class Killer:
    """Kills at the n-th call: before its effect, or after it, so that the answer is lost."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.after, self.calls = at, after, 0

    def around[T](self, target: T) -> T:
        return _Proxy(target, self)  # type: ignore[return-value]

    def call(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.calls += 1
        is_last = self.calls == self.at
        if is_last and not self.after:
            raise Killed
        result = method(*args, **options)
        if is_last:
            raise Killed
        return result


class _Proxy:
    def __init__(self, target: Any, killer: Killer) -> None:
        self._target, self._killer = target, killer

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return (lambda *args, **options: self._killer.call(found, *args, **options)) if callable(found) else found
