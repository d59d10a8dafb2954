"""The base of the stores in memory, for unit tests."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import wraps
from inspect import isfunction, isgeneratorfunction
from threading import RLock
from typing import Any


class InMemoryStore:
    """A store whose calls fail as those of a server can: every public method, even while it yields its results.

    Attributes:
        failing: An error that every call raises, or errors by the name of the method; None: calls succeed.
        calls: The number of calls. Each result that a call yields counts as one more.
    """

    def __init__(self) -> None:
        self.failing: BaseException | Mapping[str, BaseException] | None = None
        self.calls = 0
        self._lock = RLock()

    def __init_subclass__(cls, *, setup: Collection[str] = ()) -> None:
        """Make the methods of a store fail, except those with which tests set it up."""
        super().__init_subclass__()
        for name, method in list(vars(cls).items()):
            if isfunction(method) and not name.startswith("_") and name not in setup:
                setattr(cls, name, _call(name, method))

    def request(self, method: str) -> None:
        """Count a call of a method, and raise its error if it fails."""
        self.calls += 1
        error = self.failing.get(method) if isinstance(self.failing, Mapping) else self.failing
        if error is not None:
            raise error


def _call(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that raises the error of its store."""
    if isgeneratorfunction(method):

        @wraps(method)
        def iterated(self: InMemoryStore, *args: Any, **kwargs: Any) -> Iterator[Any]:
            self.request(name)
            for each in method(self, *args, **kwargs):
                self.request(name)
                yield each

        return iterated

    @wraps(method)
    def called(self: InMemoryStore, *args: Any, **kwargs: Any) -> Any:
        self.request(name)
        return method(self, *args, **kwargs)

    return called
