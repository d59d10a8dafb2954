"""Stores the ends of notifications for which fallbacks wait, and lets fallbacks go at once."""

from dataclasses import dataclass

from masscomm.chain.batch import Batch, Item
from masscomm.chain.chunks import recheck_of
from masscomm.decisions import fallbacks
from masscomm.domain.fallbacks import FallbackState, failed, final_statuses
from masscomm.domain.records import NotificationOutcome
from masscomm.domain.sends import SendKey
from masscomm.errors import Retry
from masscomm.stores.delayed_records.port import DelayStore, key_in, record_id_in
from masscomm.stores.sends.port import Sends

# How often the state is read again because another record has changed it meanwhile.
_ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class EarlierNotifications:
    """Stores the ends of earlier notifications. Methods raise Retry, Stop or DeadLetter."""

    sends: Sends
    delay_store: DelayStore

    def observe[T](self, batch: Batch[T], item: Item[T], outcome: NotificationOutcome, fallback: str) -> None:
        """Store the final statuses in an outcome record. If notifications in it ended unsent or bounced, their
        fallbacks go at once, in a record that is derived from the one that waits.

        A record that does not wait in the delay store any longer is about to be decided about: preference_checker finds
        the statuses then. It also repeats the records that go, if this function is killed before it produces them.
        """
        statuses = final_statuses(outcome)
        if not statuses:
            return
        key = key_in(fallback)
        waiting = self.delay_store.find(key) if any(map(failed, statuses.values())) else None
        send, record_id = SendKey(outcome.club_id, outcome.send_id), record_id_in(key)
        state = self._stored(send, record_id, outcome, can_go=waiting is not None)
        if waiting is None:
            return
        request = recheck_of(batch.codec.decode("RecheckRequested", waiting.value))
        for part in fallbacks.going(request, state, outcome.record_id):
            batch.produce(item, waiting.topic, part.record_id, part, list(waiting.headers))

    def _stored(self, send: SendKey, record_id: str, outcome: NotificationOutcome, *, can_go: bool) -> FallbackState:
        for _ in range(_ROUNDS):
            before = self.sends.fallback(send, record_id)
            after = fallbacks.observed(before, outcome, can_go=can_go)
            if after == before or self.sends.set_fallback(send, record_id, after):
                return after
        raise Retry("the state of the fallbacks is changed by others all the time")
