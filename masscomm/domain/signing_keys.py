"""The keys with which masscomm signs, by id, as JSON: {"current": "2", "1": "…", "2": "…"}.

New signatures use the current key. An earlier key stays valid until it is removed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from masscomm.errors import Stop

_CURRENT = "current"
_SHORTEST_KEY = 32


@dataclass(frozen=True, kw_only=True)
class KeySet:
    """The keys by id."""

    current: str
    keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def read(cls, text: str) -> "KeySet":
        """Return the keys in a JSON text. Raises Stop, without the text, if it is invalid."""
        try:
            document = json.loads(text)
            current = document.pop(_CURRENT)
            keys = {str(name): str(secret).encode() for name, secret in document.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Stop("the signing keys are no JSON object with `current`") from None
        if not isinstance(current, str) or current not in keys:
            raise Stop("the current signing key does not exist")
        if any(len(secret) < _SHORTEST_KEY for secret in keys.values()):
            raise Stop(f"a signing key is shorter than {_SHORTEST_KEY} bytes")
        return cls(current=current, keys=keys)
