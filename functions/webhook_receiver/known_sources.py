"""The sources that webhook_receiver uses, with their secrets, for a short time without reading them again."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from masscomm.aws.sealed_secrets import NotOpened, SecretBox
from masscomm.clock import Clock
from masscomm.domain.time_limits import WEBHOOK_SOURCES_CACHED_S
from masscomm.domain.webhook_sources import SourceKey, WebhookSource, sealing_context
from masscomm.errors import Retry
from masscomm.stores.webhook_sources.port import WebhookSources

# The number of sources, and of opened secrets, that an environment keeps.
_MOST = 1_000


@dataclass(frozen=True, kw_only=True)
class KnownSources:
    store: WebhookSources
    box: SecretBox
    clock: Clock
    # Key → the source (None: there is none), and the time until which it is used.
    _known: OrderedDict[SourceKey, tuple[WebhookSource | None, float]] = field(default_factory=OrderedDict)
    # Sealed → opened: a request to KMS for each new secret.
    _opened: OrderedDict[bytes, str] = field(default_factory=OrderedDict, repr=False)

    def find(self, keys: Iterable[SourceKey]) -> Mapping[SourceKey, WebhookSource]:
        """Return the sources that exist, by their keys. Raises Retry or Stop."""
        now, wanted = self.clock.monotonic(), set(keys)
        found = {key: self._known[key][0] for key in wanted if key in self._known and self._known[key][1] > now}
        if unread := sorted(wanted - found.keys()):
            stored = self.store.find(unread)
            for key in unread:
                found[key] = stored.get(key)
                _keep(self._known, key, (found[key], now + WEBHOOK_SOURCES_CACHED_S))
        return {key: source for key, source in found.items() if source is not None}

    def secrets(self, source: WebhookSource, at_ms: int) -> Sequence[str]:
        """Return the secrets with which a webhook of this time may be signed. Raises Retry or Stop."""
        return [self._open(source, sealed) for sealed in source.sealed_secrets(at_ms)]

    def _open(self, source: WebhookSource, sealed: bytes) -> str:
        if sealed not in self._opened:
            try:
                opened = self.box.open(sealed, sealing_context(source.key.id))
            except NotOpened as error:
                raise Retry(f"the secret of source {source.key.id} cannot be opened") from error
            _keep(self._opened, sealed, str(opened.values["secret"]))
        return self._opened[sealed]


def _keep[K, V](kept: OrderedDict[K, V], key: K, value: V) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _MOST:
        kept.popitem(last=False)
