"""GET /v1/sends/{send_id}/message: the message of a send, while the register keeps it.

The content is the body of a request to POST /v1/previews, which renders the message as devices show it: with the texts
that the template has now. The variables of single recipients are not kept, so that the preview has their names.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from functions.sends_api.routes.known_sends import KnownSend, KnownSends, with_requested
from masscomm.clock import Clock
from masscomm.domain.categories import is_confidential, resolve_channels
from masscomm.domain.channels import CHANNELS
from masscomm.domain.kept_messages import KeptMessage, NotKept
from masscomm.domain.limits import SMALLEST_GROUP
from masscomm.http.parameters import Reader
from masscomm.http.scopes import Scope
from masscomm.http.single_users import sees_single_users
from masscomm.http.tenant import Clubs
from masscomm.json_reader import read_json
from masscomm.stores.metrics.port import MetricsStore
from masscomm.stores.sends.port import Sends


class ContentOfSend(TypedDict):
    """The content of a send, in the form of a request to POST /v1/previews."""

    type: str
    club_id: int
    channels: list[Literal[*tuple(CHANNELS)]]  # type: ignore[valid-type]
    template: str | None
    locale: str | None
    data: dict[str, str]
    """The variables that all recipients share."""
    push: dict[str, Any] | None
    """The options of its pushes. Null: it has none, or they are hidden with the values."""


class MessageBody(TypedDict):
    """The message of a send."""

    send_id: str
    content: ContentOfSend | None
    """Null: the message is not kept."""
    hidden: list[str]
    """The names of the data whose values are left out, because the caller lacks the scope users:read and the send has
    fewer than 20 users."""
    reason: NotKept | None
    """Why the message is not kept. category: mandatory or not listed, small: a small send by Kafka at once, expired: 30
    days have passed, unknown: erased with a recipient, or the reason is no longer known."""


@dataclass(frozen=True)
class MessageRoute:
    store: MetricsStore
    sends: Sends
    clock: Clock

    def answer(
        self, send_id: str, parameters: Mapping[str, list[str]], clubs: Clubs, scopes: AbstractSet[Scope]
    ) -> MessageBody:
        """Return the response body. Raises Problem (400 for any parameter, 404) or Retry."""
        Reader(parameters).check()
        known = KnownSends(self.store, self.sends, self.clock).find(send_id, clubs)
        message = self.sends.message(known.key)
        # A category may have become mandatory since.
        # guard: kept_messages.shown_category
        if message is None or is_confidential(message.type, message.template):
            return {"send_id": send_id, "content": None, "hidden": [], "reason": self._reason(known)}
        # guard: single_users.kept_message
        hides = not sees_single_users(scopes) and _users(known) < SMALLEST_GROUP
        content = _content(known.key.club_id, message, hides=hides)
        return {"send_id": send_id, "content": content, "hidden": list(message.data) if hides else [], "reason": None}

    def _reason(self, known: KnownSend) -> NotKept:
        send, totals = known.send, known.totals
        if send.not_kept is not None and send.not_kept in set(NotKept):
            return NotKept(send.not_kept)
        if is_confidential(totals.type, None):
            return NotKept.CATEGORY
        if totals.requested_at is None:
            return NotKept.UNKNOWN
        kept_until = send.message_kept_until(round(totals.requested_at.timestamp() * 1000))
        return NotKept.EXPIRED if self.clock.now_ms() // 1000 >= kept_until else NotKept.UNKNOWN


def _users(known: KnownSend) -> int:
    """Return the number of users of a send, as far as it is known."""
    return max((each.requested for each in with_requested(known).channels.values()), default=0)


def _content(club_id: int, message: KeptMessage, *, hides: bool) -> ContentOfSend:
    # A send by Kafka may name a channel that does not exist; its recipients have failed there.
    channels = [name for name in message.channels if name in CHANNELS]
    return {
        "type": message.type,
        "club_id": club_id,
        "channels": channels or resolve_channels(message.type, (), club_id, None),
        "template": message.template,
        "locale": message.locale,
        "data": {} if hides else dict(message.data),
        "push": None if hides or message.push is None else read_json(message.push),
    }
