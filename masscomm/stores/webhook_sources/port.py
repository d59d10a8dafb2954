"""The interface of the store of the sources of incoming webhooks, and of their last webhooks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from masscomm.domain.webhook_sources import AcceptedWebhook, RefusedWebhook, SourceKey, WebhookSource


class Refusals(NamedTuple):
    """The refused webhooks of a source."""

    # All of them since REFUSALS_KEPT_S passed without one. A webhook whose processing is repeated may count again.
    total: int
    # The last ones, the latest first.
    last: Sequence[RefusedWebhook]


class WebhookSources(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def put(self, source: WebhookSource) -> None:
        """Store a source, in the place of an earlier one with its key."""
        ...

    def find(self, keys: Iterable[SourceKey]) -> Mapping[SourceKey, WebhookSource]:
        """Return the sources that exist, by their keys."""
        ...

    def of_club(self, club_id: int) -> Sequence[WebhookSource]:
        """Return the sources of a club, in the order of their ids."""
        ...

    def delete(self, key: SourceKey) -> bool:
        """Delete a source. Return False if there was none. The lists of its webhooks expire."""
        ...

    def accept(self, key: SourceKey, accepted: Sequence[AcceptedWebhook]) -> None:
        """List accepted webhooks, at least one. Of two calls at once, one may replace the rows of the other."""
        ...

    def last_accepted(self, key: SourceKey, at_s: int) -> Sequence[AcceptedWebhook]:
        """Return the last MAX_ACCEPTED webhooks that became events, the latest first; none if all are older than
        REFUSALS_KEPT_S at a time in seconds since the epoch.
        """
        ...

    def refuse(self, key: SourceKey, refused: Sequence[RefusedWebhook]) -> None:
        """Count refused webhooks, and list the last of them."""
        ...

    def refusals(self, key: SourceKey, at_s: int) -> Refusals:
        """Return the refused webhooks of a source that are not older than REFUSALS_KEPT_S at a time in seconds since
        the epoch.
        """
        ...
