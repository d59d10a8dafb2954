"""A client that counts its calls."""

from collections import Counter
from typing import Any


class Counted:
    """Counts the calls of a client."""

    def __init__(self, client: Any, calls: Counter[str]) -> None:
        self._client = client
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if callable(found):
            self._calls[name] += 1
        return found
