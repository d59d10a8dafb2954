"""API keys in memory, for unit tests."""

from collections.abc import Callable
from dataclasses import replace

from masscomm.stores.api_keys.port import ApiKey, KeyPage, KeyRequest, MadeBefore, Position


class InMemoryApiKeys:
    """A store of keys in a dictionary, for unit tests."""

    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}
        self._requests: dict[str, tuple[KeyRequest, str]] = {}

    def put(self, key: ApiKey) -> None:
        self._keys[key.digest] = key

    def put_once(self, key: ApiKey, request: KeyRequest) -> MadeBefore | None:
        if (before := self.made_before(request)) is None:
            self._requests[request.id] = request, key.digest
            self.put(key)
        return before

    def made_before(self, request: KeyRequest) -> MadeBefore | None:
        stored, digest = self._requests.get(request.id, (None, ""))
        return MadeBefore(stored.request, digest) if stored is not None and stored.expires_at > request.at_s else None

    def find(self, digest: str) -> ApiKey | None:
        return self._keys.get(digest)

    def delete(self, digest: str) -> None:
        del self._keys[digest]

    def find_by_id(self, key_id: str) -> ApiKey | None:
        return next((key for key in self._keys.values() if key.key_id == key_id), None)

    def page(self, sees: Callable[[str], bool], *, before: Position | None, limit: int) -> KeyPage:
        found = sorted(
            (key for key in self._keys.values() if sees(key.clubs) and (before is None or key.position < before)),
            key=lambda key: key.position,
            reverse=True,
        )
        return KeyPage(found[:limit], found[limit - 1].position if len(found) > limit else None)

    def end(self, digest: str, expires_at: int) -> bool:
        key = self._keys.get(digest)
        if key is None or (key.expires_at is not None and key.expires_at <= expires_at):
            return False
        self._keys[digest] = replace(key, expires_at=expires_at)
        return True
