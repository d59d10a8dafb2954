"""Looks up the users of all records in a batch with few requests."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from itertools import batched
from typing import Any, NamedTuple

from functions.delivery.quiet_hours_recheck import RECHECK_AFTER_S, quiet_decisions, users_to_recheck
from masscomm.clock import Clock
from masscomm.decisions.delivery import DirectoryView, address_of
from masscomm.directory.layers import related_to
from masscomm.directory.port import Directory, Layers, Related
from masscomm.domain.channels import CHANNELS
from masscomm.domain.delays import RetrySchedule
from masscomm.domain.email_pauses import pause_key, waits_for_pause
from masscomm.domain.fallbacks import Verdict
from masscomm.domain.lanes import Lane
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.sends import SendControl
from masscomm.domain.users import User
from masscomm.errors import Retry
from masscomm.stores.delayed_records.port import key_in, record_id_in
from masscomm.stores.sends.port import Sends, send_of

# The number of users that one thread looks up: two requests of the directory's size.
_USERS_A_LOOK_UP = 500


class Question(NamedTuple):
    """A record, and the indices of its recipients to look up."""

    delivery: DeliveryRequested
    lane: Lane
    # Whether the record was in the delay store after it was built, or was built long ago.
    is_late: bool
    rows: Sequence[int]

    @property
    def user_ids(self) -> list[int]:
        """Return the users at these indices of the delivery record."""
        return [self.delivery.user_ids[row] for row in self.rows]


@dataclass(frozen=True, kw_only=True)
class LookUp:
    """Looks up the directory's rows for the records of a batch. Each function environment has one instance."""

    directory: Directory
    sends: Sends
    clock: Clock
    retry_schedule: RetrySchedule
    # The threads in which requests are sent concurrently.
    pool: Executor
    # The age of a send in seconds from which quiet hours are checked again.
    late_after_s: float = RECHECK_AFTER_S

    def views(self, questions: Sequence[Question]) -> list[DirectoryView]:
        """Return the view of each record. All records share the same round trips.

        Raises Retry if the directory or the store of controls does not respond.
        """
        now_ms = self.clock.now_ms()
        # The confirmation is read before the look-up: a row that arrived in between would otherwise be confirmed as
        # absent.
        confirmed = [self.directory.is_confirmed(min(each.delivery.timestamp, now_ms)) for each in questions]
        pushed = _user_ids(each for each in questions if CHANNELS[each.delivery.channel].to_devices)
        direct = _user_ids(each for each in questions if not each.is_late)
        late = _user_ids(each for each in questions if each.is_late)
        sends = {send_of(each.delivery) for each in questions}
        pauses = {pause_key(each.delivery.club_id) for each in questions if _waits_for_pause(each.delivery)}
        sends_controlled = self.pool.submit(self.sends.controls, sends | pauses)
        replaced = {
            each.delivery.record_id: self.pool.submit(self._replaced, each.delivery)
            for each in questions
            if each.delivery.fallback is not None
        }
        # The requests run concurrently, because round trips add to the latency of one-time passwords.
        clubs, related = _club_ids(questions), _related(questions)
        late_users = self._begin(partial(self.directory.users_and_layers, club_ids=clubs, related=related), late)
        direct_settings = self._begin(partial(self.directory.layers, club_ids=clubs, related=related), direct)
        devices = _merged(self._begin(self.directory.devices, pushed))
        layers = Layers.merged(part.result() for part in (*direct_settings, *late_users))
        users, settings = layers.users, layers.settings
        suppressed = self._suppressed(questions, users, now_ms)
        to_recheck = [
            users_to_recheck(each.delivery, each.lane, settings, now_ms=now_ms, after_s=self.late_after_s)
            for each in questions
        ]
        resting = list(dict.fromkeys(user_id for some in to_recheck for user_id in some))
        unknown = [user_id for user_id in resting if user_id not in users]
        in_zones = users | self.directory.users(unknown) if unknown else users
        controls = sends_controlled.result()
        views = []
        for each, is_confirmed, some in zip(questions, confirmed, to_recheck, strict=True):
            control = controls[send_of(each.delivery)]
            of_emails = controls.get(pause_key(each.delivery.club_id)) if _waits_for_pause(each.delivery) else None
            quiet = quiet_decisions(  # guard: quiet_hours.recheck
                each.delivery,
                {user_id: in_zones[user_id] for user_id in some if user_id in in_zones},
                settings,
                now_ms=now_ms,
                retry_schedule=self.retry_schedule,
            )
            views.append(
                DirectoryView(
                    settings=settings,
                    tenants=layers.tenants,
                    tenant_users=layers.tenant_users,
                    memberships=layers.memberships,
                    devices=devices,
                    users=users if each.is_late else None,  # guard: delivery.delayed_users
                    suppressed=suppressed.get(each.delivery.club_id, ()),
                    quiet=quiet,
                    replaced=replaced[each.delivery.record_id].result() if each.delivery.record_id in replaced else (),
                    absence_is_confirmed=is_confirmed,
                    **_controlled(control, of_emails, now_ms),
                )
            )
        return views

    def _begin[V](self, look_up: Callable[[Sequence[int]], V], user_ids: Sequence[int]) -> list[Future[V]]:
        """Begin to look up users, many users in several concurrent parts: nothing is published meanwhile."""
        return [self.pool.submit(look_up, some) for some in batched(user_ids, _USERS_A_LOOK_UP, strict=False)]

    def _replaced(self, delivery: DeliveryRequested) -> frozenset[int]:
        """Return the positions of recipients whose fallback goes."""
        state = self.sends.fallback(send_of(delivery), record_id_in(key_in(delivery.fallback or "")))
        return frozenset(position for position, verdict in state.verdicts.items() if verdict is Verdict.GOES)

    def _suppressed(self, questions: Iterable[Question], users: dict[int, User], now_ms: int) -> dict[int, set[str]]:
        addresses: dict[int, dict[str, None]] = {}
        for each in questions:
            if not CHANNELS[each.delivery.channel].to_devices:
                present = users if each.is_late else None
                found = (address_of(each.delivery, present, row) for row in each.rows)
                addresses.setdefault(each.delivery.club_id, {}).update(dict.fromkeys(filter(None, found)))
        return {club_id: self.directory.suppressed(club_id, list(some), now_ms) for club_id, some in addresses.items()}


def _waits_for_pause(delivery: DeliveryRequested) -> bool:
    return waits_for_pause(delivery.channel, delivery.type, delivery.club_id, delivery.timestamp)


def _controlled(control: SendControl, of_emails: SendControl | None, now_ms: int) -> dict[str, Any]:
    """Return the fields of a view that follow from the controls of the send and of the e-mails of its club."""
    try:
        is_cancelled, is_paused = control.is_cancelled(now_ms), control.is_paused(now_ms)
        is_overdue = of_emails is not None and not is_cancelled and of_emails.is_cancelled(now_ms)
        emails_wait = of_emails is not None and of_emails.is_paused(now_ms)
    except Retry as error:
        return {"fault": error}
    paused = control if is_paused else None
    if emails_wait and not is_cancelled and paused is None:  # guard: email_pauses.held
        paused = of_emails
    return {"is_cancelled": is_cancelled, "is_overdue": is_overdue, "paused": paused}


def _merged[V](parts: Iterable[Future[dict[int, V]]]) -> dict[int, V]:
    found: dict[int, V] = {}
    for part in parts:
        found |= part.result()
    return found


def _club_ids(questions: Iterable[Question]) -> set[int]:
    return {each.delivery.club_id for each in questions}


def _related(questions: Iterable[Question]) -> Related:
    return related_to((each.user_ids, each.delivery.club_id, each.delivery.follows) for each in questions)


def _user_ids(questions: Iterable[Question]) -> list[int]:
    return list(dict.fromkeys(user_id for each in questions for user_id in each.user_ids))
