"""Makes the sends of schedules. A schedule has one delayed record, for its next occurrence; when it is released:

1. the occurrence is recorded with its send, or as skipped: the first recorded decision wins;
2. the send is registered and produced under an id that is derived from the schedule and its local time;
3. the record of the next occurrence is put into the delay store;
4. the schedule has the next occurrence.

A repetition after a crash does the same again, at most. A record of an earlier revision, which a change, a pause or a
deletion has replaced, only completes an occurrence that was recorded.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, NamedTuple
from uuid import uuid4

from aws_lambda_powertools import Logger

from masscomm.chain.batch import Batch, Item
from masscomm.chain.next_occurrence import delayed_occurrence, scheduled_time
from masscomm.clock import Clock
from masscomm.domain.categories import (
    announced_channels,
    category,
    is_listed,
    is_retired,
    requested_lane,
    resolve_channels,
)
from masscomm.domain.digests import digest_text, read_digest
from masscomm.domain.fallbacks import channels_of, ends_before, fallbacks_text
from masscomm.domain.ids import chunk_id, recurring_send_id
from masscomm.domain.key_limits import COUNTED_UNDER, Window
from masscomm.domain.key_limits import RECIPIENTS as RECIPIENTS_A_DAY
from masscomm.domain.lanes import NOT_CRITICAL, Lane
from masscomm.domain.limits import CHUNK_SIZE
from masscomm.domain.pace import ends_late, spread_ms_in
from masscomm.domain.push_options import push_text, shows_own
from masscomm.domain.records import AudienceRequested, SendRequested
from masscomm.domain.recurrences import InvalidRule, LocalTime
from masscomm.domain.schedules import (
    LATE,
    OCCURRENCES_SHOWN,
    CatchUp,
    Occurrence,
    OccurrenceState,
    PauseReason,
    Schedule,
)
from masscomm.domain.schedules import RECIPIENTS_A_DAY as BEYOND_LIMIT
from masscomm.domain.send_content import content_of_send, described
from masscomm.domain.sends import SendKey, Source
from masscomm.domain.time_limits import OCCURRENCE_LATE_S
from masscomm.errors import DeadLetter, MasscommError
from masscomm.http.audiences import resolved
from masscomm.http.problem import Problem
from masscomm.http.rate_limits import KeyUsage, maximum_of
from masscomm.http.scopes import Scope, scopes_of
from masscomm.http.send_scopes import scopes_of_send
from masscomm.http.tenant import clubs_of
from masscomm.kafka import topics
from masscomm.observability import metrics
from masscomm.observability.metric_names import OCCURRENCES_SENT, OCCURRENCES_SKIPPED, SCHEDULES_PAUSED
from masscomm.stores.api_keys.owners import context_of
from masscomm.stores.api_keys.port import LIVE, KeyStore
from masscomm.stores.delayed_records.port import DelayStore
from masscomm.stores.saved_audiences.port import SavedAudiences
from masscomm.stores.schedules.port import Schedules
from masscomm.stores.sends.port import Sends

_PAUSING = frozenset(PauseReason)


class _Decision(NamedTuple):
    """Whether the send of an occurrence is made."""

    # The reason why it is not; None: it is.
    reason: str | None = None
    # The send that is made.
    content: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class RecurringSends:
    """Makes the sends of schedules. Each function environment has one instance."""

    schedules: Schedules
    keys: KeyStore
    saved_audiences: SavedAudiences
    sends: Sends
    usage: KeyUsage
    delay_store: DelayStore
    clock: Clock
    logger: Logger

    def begin(self, batch: Batch[AudienceRequested], item: Item[AudienceRequested]) -> None:
        """Make the occurrence of a released record, and delay the record of the next one. Raises DeadLetter or
        Retry.
        """
        released, at_ms = scheduled_time(item.value.schedule or ""), item.value.timestamp
        # guard: schedules.interrupted_occurrence
        for started in self.schedules.started(released.id, released.local_time):
            if not self._make(batch, item, started):
                return
        schedule = self.schedules.find(item.value.club_id, released.name)
        # guard: schedules.earlier_revision
        if schedule is None or (schedule.id, schedule.revision) != (released.id, released.revision):
            return
        if schedule.next is None or at_ms < schedule.next.at_ms:  # guard: schedules.earlier_occurrence
            return
        try:
            rule = schedule.recurrence()
        except InvalidRule as error:
            raise DeadLetter("invalid", f"the rule of the schedule {schedule.name}: {error}") from error
        now_ms = self.clock.now_ms()
        first = LocalTime(released.local_time, at_ms)
        *missed, newest = first, *takewhile(lambda time: time.at_ms <= now_ms, rule.after(at_ms))
        for time in missed[-OCCURRENCES_SHOWN:]:
            self._record(schedule, time, _Decision(LATE), now_ms)
        recorded = self._record(schedule, newest, self._decision(schedule, newest, now_ms), now_ms)
        if recorded.reason in _PAUSING:
            self._pause(schedule, PauseReason(recorded.reason))
            return
        if recorded.state is OccurrenceState.STARTED and not self._make(batch, item, recorded):
            return
        following = rule.next(max(newest.at_ms, now_ms))
        if following is not None:  # guard: schedules.next_record
            delayed = delayed_occurrence(batch.codec, schedule, following)
            self.delay_store.put(replace(delayed, headers=tuple(item.trace_headers)), now_ms)
        self.schedules.advance(schedule, following)

    def _record(self, schedule: Schedule, time: LocalTime, decision: _Decision, now_ms: int) -> Occurrence:
        """Record an occurrence, and return the recorded one. Raises Retry."""
        wanted = Occurrence(
            schedule_id=schedule.id,
            club_id=schedule.club_id,
            local_time=time.text,
            at_ms=time.at_ms,
            state=OccurrenceState.STARTED if decision.reason is None else OccurrenceState.SKIPPED,
            recorded_at_ms=now_ms,
            reason=decision.reason,
            content=decision.content,
        )
        recorded = self.schedules.record(wanted)
        if recorded == wanted and decision.reason is not None:
            metrics.add(OCCURRENCES_SKIPPED)
            self.logger.warning(
                "occurrence skipped", schedule=schedule.name, local_time=time.text, reason=decision.reason
            )
        return recorded

    def _decision(self, schedule: Schedule, time: LocalTime, now_ms: int) -> _Decision:
        """Decide about the newest occurrence that is due. Raises Retry or Stop."""
        expires_at = schedule.expires_at_ms(time.at_ms)
        is_late = now_ms - time.at_ms > OCCURRENCE_LATE_S * 1000  # guard: schedules.late_occurrence
        if (is_late and schedule.catch_up is not CatchUp.LAST) or (expires_at is not None and expires_at <= now_ms):
            return _Decision(LATE)
        if _ends_late(schedule.send, now_ms, expires_at):  # guard: pace.late_occurrence
            return _Decision(LATE)
        context = context_of(schedule.owner, self.keys, now_ms)
        if (reason := _refusal(schedule, context)) is not None:  # guard: schedules.rights_of_the_owner
            return _Decision(reason)
        send = dict(schedule.send)
        if send.get("audience") is not None:
            try:
                send["audience"] = resolved(send["audience"], schedule.club_id, self.saved_audiences.find)
            except Problem:
                return _Decision(PauseReason.AUDIENCE_UNKNOWN)
        counted_under = context.get(COUNTED_UNDER) or schedule.owner.principal
        maximum = maximum_of(context, RECIPIENTS_A_DAY)
        # The recipients of an audience are counted when they are known.
        if maximum is not None and (users := len(set(send.get("to_users", ())))) > 0:
            window = Window.at(now_ms // 1000, key_id=counted_under, kind=RECIPIENTS_A_DAY, maximum=maximum)
            use = self.usage.take(window, users, send_id=recurring_send_id(schedule.id, time.text))
            if not use.counted:  # guard: schedules.limit_of_the_owner
                return _Decision(BEYOND_LIMIT)
        content = {
            "send": send,
            "principal": schedule.owner.principal,
            "expires_at_ms": expires_at,
            "counted_under": counted_under,
            "recipients_a_day": maximum,
        }
        return _Decision(content=content)

    def _make(self, batch: Batch[AudienceRequested], item: Item[AudienceRequested], occurrence: Occurrence) -> bool:
        """Register and produce the send of a started occurrence; return whether Kafka has acknowledged it. Raises
        Retry, Stop or DeadLetter.
        """
        content = occurrence.content or {}
        record = _record_of(occurrence, content)
        send_id = str(record.send_id)
        audience = content["send"].get("audience")
        lane = requested_lane(record.type, record.priority, record.timestamp)
        channels = tuple(resolve_channels(record.type, record.channels, record.club_id, record.timestamp))
        users = None if audience is not None else len(record.to_users)
        wanted = described(
            record,
            SendKey(record.club_id, send_id),
            Source.REST,
            lane=lane,
            named=record.to_users,
            content=content_of_send(record),
            chunks=None if audience is not None else 1,
            users=users,
            channels=channels,
            is_to_audience=audience is not None,
        )
        stored = self.sends.register([wanted])[send_id]
        if isinstance(stored, MasscommError):
            raise stored
        if not stored.is_same(wanted):
            raise DeadLetter("invalid", "the id of the occurrence belongs to another send")
        if audience is None:
            batch.produce(item, topics.in_lane(topics.SEND_API, lane), chunk_id(send_id, 0), record)
        else:
            limit = content["recipients_a_day"]
            request = AudienceRequested(
                send_id=send_id,
                club_id=record.club_id,
                timestamp=record.timestamp,
                chunk_size=CHUNK_SIZE,
                audience=json.dumps(audience),
                send=json.dumps(record.to_avro()),
                key_id=None if limit is None else content["counted_under"],
                recipients_a_day=limit,
            )
            batch.produce(item, topics.AUDIENCE, send_id, request)
        batch.producer.flush(max(0.1, batch.remaining_s()))
        if item.error is not None:  # guard: schedules.acknowledged_send
            return False
        self.schedules.complete(occurrence)
        metrics.add(OCCURRENCES_SENT)
        self.logger.info("occurrence sent", send_id=send_id, local_time=occurrence.local_time)
        return True

    def _pause(self, schedule: Schedule, reason: PauseReason) -> None:
        """Pause a schedule, unless a request has changed it meanwhile. Raises Retry."""
        paused = schedule.paused_for(reason, str(uuid4()), self.clock.now_ms())
        if self.schedules.put(paused, schedule):
            metrics.add(SCHEDULES_PAUSED)
            self.logger.warning("schedule paused", schedule=schedule.name, club_id=schedule.club_id, reason=reason)


def _refusal(schedule: Schedule, context: Mapping[str, str]) -> PauseReason | None:
    """Return why the owner of a schedule may not request its send now; None if it may."""
    send = schedule.send
    if not context:
        return PauseReason.KEY_REVOKED
    if schedule.club_id not in clubs_of(context) or context.get("mode", LIVE) != LIVE:
        return PauseReason.NOT_PERMITTED
    if is_retired(send["type"]) or not is_listed(send["type"]):
        return PauseReason.CATEGORY_RETIRED
    names = [send.get("data", {}).keys() | own.keys() for own in ({}, *send.get("recipient_data", {}).values())]
    # As POST /v1/sends, which refuses them together.
    if category(send["type"]).critical and any(send.get(name) for name in NOT_CRITICAL):
        return PauseReason.NOT_PERMITTED
    is_urgent = send.get("priority") == Lane.CRITICAL
    further = scopes_of_send(send["type"], names, is_critical=is_urgent, shows_own=shows_own(send.get("push")))
    needed = {Scope.SEND, *further}
    if (send.get("audience") or {}).get("except_users"):
        needed.add(Scope.USERS_READ)
    return PauseReason.NOT_PERMITTED if needed - scopes_of(context) else None


def _ends_late(send: Mapping[str, Any], now_ms: int, expires_at: int | None) -> bool:
    """Return whether a send that begins now expires before all its recipients are released, or before its last fallback
    has waited.
    """
    spread_over = send.get("spread_over")
    _, fallbacks = channels_of(send.get("channels", ()))
    is_late = spread_over is not None and ends_late(spread_ms_in(spread_over), now_ms, expires_at)
    return is_late or ends_before(fallbacks, now_ms, expires_at)


def _record_of(occurrence: Occurrence, content: Mapping[str, Any]) -> SendRequested:
    """Return the record of the send of an occurrence; for an audience it has no recipients."""
    send, at_ms = content["send"], occurrence.recorded_at_ms
    users = list(dict.fromkeys(send.get("to_users", ())))
    own = send.get("recipient_data", {})
    push, digest, spread_over = send.get("push"), send.get("digest"), send.get("spread_over")
    named, fallbacks = channels_of(send.get("channels", ()))
    channels = named or announced_channels(send["type"], occurrence.club_id, at_ms)
    return SendRequested(
        type=send["type"],
        club_id=occurrence.club_id,
        timestamp=at_ms,
        to_users=users,
        send_id=recurring_send_id(occurrence.schedule_id, occurrence.local_time),
        chunk_index=0,
        chunk_count=1,
        channels=list(channels),
        template=send.get("template"),
        data=send.get("data", {}),
        recipient_data={
            str(position): own[str(user_id)] for position, user_id in enumerate(users) if own.get(str(user_id))
        },
        locale=send.get("locale"),
        priority=send.get("priority", Lane.BULK),
        expires_at=content["expires_at_ms"],
        collapse_key=send.get("collapse_key"),
        push=push_text(push) if push else None,
        digest=digest_text(read_digest(digest)) if digest else None,
        reference=send.get("reference"),
        principal=content["principal"] or None,
        per_minute=send.get("per_minute"),
        spread_over_ms=spread_ms_in(spread_over) if spread_over else None,
        fallbacks=fallbacks_text(fallbacks),
    )
