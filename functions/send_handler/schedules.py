"""Schedules: sends that recur at the times of a rule.

GET /v1/schedules                             the schedules of a club
GET, PUT, DELETE /v1/schedules/{schedule}         read one with its next times and its history, save and delete it
POST /v1/schedules/{schedule}/pause, …/resume     stop and continue it

The record of the next occurrence is put into the delay store before the schedule is stored, and is released later than
that. So a request that ends in between leaves a record of a revision that is not stored, which does nothing.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any, Literal, TypedDict
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from functions.send_handler.send_records import count_chunks
from functions.send_handler.send_request import (
    RecurringSend,
    SendRequest,
    check_permitted,
    invalid_fields,
    parse_request,
    with_definition,
)
from masscomm.chain.next_occurrence import delayed_occurrence
from masscomm.clock import Clock
from masscomm.domain.audit import Action
from masscomm.domain.fallbacks import ends_before
from masscomm.domain.ids import recurring_send_id
from masscomm.domain.key_limits import COUNTED_UNDER, RECIPIENTS
from masscomm.domain.limits import CHUNK_SIZE, LARGEST_ID, MAX_REQUEST_AHEAD_MS, NAME_PATTERN
from masscomm.domain.local_times import parse_local_time
from masscomm.domain.notification_rules import Owner
from masscomm.domain.pace import MINUTE_MS, ends_late
from masscomm.domain.recurrences import (
    MAX_RULE_CHARACTERS,
    InvalidRule,
    LocalTime,
    Recurrence,
    never,
    read_rule,
)
from masscomm.domain.schedules import (
    MAX_EXPIRES_AFTER_MINUTES,
    MAX_SCHEDULES,
    NEXT_SHOWN,
    OCCURRENCES_SHOWN,
    CatchUp,
    Occurrence,
    OccurrenceState,
    PauseReason,
    Schedule,
)
from masscomm.domain.time_limits import OCCURRENCE_LATE_S, SCHEDULE_CHANGED_S
from masscomm.domain.time_zones import wall_time, zone_of
from masscomm.http import parameters as parse
from masscomm.http.parameters import Reader
from masscomm.http.problem import FieldError, Problem, unusable
from masscomm.http.rest import Request
from masscomm.http.scopes import SCOPES, Scope
from masscomm.http.single_users import sees_single_users
from masscomm.http.tenant import CLUB_IDS, EVERY_CLUB
from masscomm.kafka.avro import Codec
from masscomm.stores.audit_log.port import Audit
from masscomm.stores.delayed_records.port import DelayStore
from masscomm.stores.saved_audiences.port import SavedAudiences
from masscomm.stores.schedules.port import Schedules
from masscomm.texts import Text

PARAMETERS = ("club_id",)
# The entries of an authorizer's context that are stored with a schedule.
_KEPT = (SCOPES, CLUB_IDS, EVERY_CLUB, "mode", RECIPIENTS.setting, COUNTED_UNDER)
# The fields of a send that show single users.
_OF_USERS = ("to_users", "recipient_data", "data")


class ScheduleRequest(BaseModel):
    """The body of a request to PUT /v1/schedules/{schedule}."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rule: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_RULE_CHARACTERS,
            description="An RRULE of RFC 5545, such as `FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0`. It ends by UNTIL or "
            "COUNT.",
        ),
    ]
    time_zone: Annotated[
        str, Field(min_length=1, max_length=64, description="The time zone of the rule, such as `Europe/Zurich`.")
    ]
    starts_at_local: Annotated[
        str,
        Field(
            pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d$",
            description="The date and time in this zone from which the rule counts, and whose parts it has where it "
            "names none.",
        ),
    ]
    expires_after_minutes: Annotated[
        int | None,
        Field(
            ge=1,
            le=MAX_EXPIRES_AFTER_MINUTES,
            description="The minutes after an occurrence at which its send expires.",
        ),
    ] = None
    catch_up: Annotated[
        Literal["none", "last"],
        Field(
            description="What becomes of occurrences that are more than 15 minutes late: they are skipped, or with "
            "`last` the newest is made."
        ),
    ] = "none"
    send: Annotated[RecurringSend, Field(description="The send: the body of `POST /v1/sends` without its times.")]


class PausedBody(TypedDict):
    reason: Literal["requested", "key_revoked", "not_permitted", "category_retired", "audience_unknown"]
    """requested: by a request. Otherwise the owner could not request the send: its key has ended, it lacks the tenant
    or a scope, or the category or the saved audience does not exist any more."""
    since: str


class NextTime(TypedDict):
    """A time of a rule."""

    local_time: str
    """On the clocks of the schedule's time zone."""
    at: str


class OccurrenceBody(NextTime):
    """An occurrence of a schedule."""

    state: Literal["started", "sent", "skipped"]
    """started: its send is being requested."""
    reason: str | None
    """Why it was skipped: late, recipients_a_day (the owner's limit), or why the schedule was paused."""
    send_id: str | None
    """The id of its send."""


class ScheduleRow(TypedDict):
    """A schedule in a list."""

    name: str
    state: Literal["active", "paused", "ended"]
    """ended: the rule has no further time."""
    paused: PausedBody | None
    rule: str
    time_zone: str
    type: str
    """The category of its sends."""
    next: NextTime | None
    """The next occurrence, if it is active."""
    changed_at: str


class SchedulesBody(TypedDict):
    """The schedules of a club, in the order of their names."""

    rows: list[ScheduleRow]


class ScheduleBody(ScheduleRow):
    """A schedule."""

    starts_at_local: str
    expires_after_minutes: int | None
    catch_up: Literal["none", "last"]
    owner: str
    """The principal that changed or resumed it last: each occurrence is made with its permissions and limits."""
    send: dict[str, Any]
    """The send; without `users:read`, one to users has neither them nor its data."""
    next_times: list[NextTime]
    """The next occurrences, at most ten, if it is active."""
    history: list[OccurrenceBody]
    """The last occurrences, the latest first."""


class DeletedScheduleBody(TypedDict):
    """A deleted schedule."""

    name: str
    status: Literal["deleted"]


@dataclass(frozen=True, kw_only=True)
class SchedulesRoute:
    store: Schedules
    saved_audiences: SavedAudiences
    delay_store: DelayStore
    codec: Codec
    clock: Clock

    def of_club(self, request: Request) -> SchedulesBody:
        """Return the schedules of a club. Raises Problem (400, 403) or Retry."""
        return {"rows": [_row(each) for each in self.store.of_club(_club(request))]}

    def show(self, name: str, request: Request) -> ScheduleBody:
        """Return a schedule. Raises Problem (400, 403, 404) or Retry."""
        return self._body(self._find(name, _club(request)), request)

    def parsed(self, name: str, document: Mapping[str, Any], request: Request) -> tuple[Schedule, SendRequest]:
        """Return the schedule of a request, which is not stored, and its send. Raises Problem (400, 403)."""
        club_id = _club(request)
        if not _is_name(name):
            raise unusable([FieldError("schedule", Text.TEXT_PATTERN.filled(pattern=NAME_PATTERN))])
        try:
            found = ScheduleRequest.model_validate(document)
        except ValidationError as error:
            raise invalid_fields(error, ScheduleRequest) from error
        send = self._permitted_send(document["send"], club_id, request)
        expires_after = found.expires_after_minutes
        # An occurrence may be late.
        late_ms = None if send.spread_over_ms is None else send.spread_over_ms + OCCURRENCE_LATE_S * 1000
        if ends_late(late_ms, 0, expires_after and expires_after * MINUTE_MS):
            raise unusable(
                [FieldError("send.spread_over", Text.SPREAD_AFTER_OCCURRENCE.filled(minutes=OCCURRENCE_LATE_S // 60))]
            )
        if ends_before(send.fallbacks, OCCURRENCE_LATE_S * 1000, expires_after and expires_after * MINUTE_MS):
            message = Text.FALLBACK_AFTER_OCCURRENCE.filled(minutes=OCCURRENCE_LATE_S // 60)
            raise unusable([FieldError("send.channels", message)])
        schedule = Schedule(
            club_id=club_id,
            name=name,
            id=str(uuid4()),
            revision=str(uuid4()),
            rule=found.rule,
            time_zone=found.time_zone,
            starts_at_local=found.starts_at_local,
            catch_up=CatchUp(found.catch_up),
            expires_after_minutes=found.expires_after_minutes,
            send=document["send"],
            owner=_owner(request),
            changed_at_ms=self.clock.now_ms(),
        )
        return replace(schedule, next=self._first_time(schedule)), send

    def put(self, schedule: Schedule, request: Request, audit: Audit) -> ScheduleBody:
        """Save a schedule, in the place of an earlier one with its name; a paused one stays paused. Raises Problem
        (409) or Retry.
        """
        stored = self.store.of_club(schedule.club_id)
        before = next((each for each in stored if each.name == schedule.name), None)
        if before is None and len(stored) >= MAX_SCHEDULES:
            raise Problem(409, Text.SCHEDULES_TOO_MANY.filled(maximum=MAX_SCHEDULES))
        if before is not None:
            schedule = replace(schedule, id=before.id)
            if before.paused is not None:
                schedule = replace(schedule, next=None, paused=before.paused, paused_at_ms=before.paused_at_ms)
        self._store(schedule, before)
        detail = "created" if before is None else "changed"
        audit(Action.SCHEDULE_SAVED, subject=schedule.name, clubs=[schedule.club_id], detail=detail)
        return self._body(schedule, request)

    def pause(self, name: str, request: Request, audit: Audit) -> ScheduleBody:
        """Pause a schedule. Raises Problem (400, 403, 404, 409) or Retry."""
        before = self._find(name, _club(request))
        if before.paused is not None:
            return self._body(before, request)
        paused = before.paused_for(PauseReason.REQUESTED, str(uuid4()), self.clock.now_ms())
        self._store(paused, before)
        audit(Action.SCHEDULE_PAUSED, subject=name, clubs=[before.club_id])
        return self._body(paused, request)

    def resume(self, name: str, request: Request, audit: Audit) -> ScheduleBody:
        """Continue a paused schedule with its next time; the caller is its owner then. Raises Problem (400, 403, 404,
        409) or Retry.
        """
        before = self._find(name, _club(request))
        if before.paused is None:
            return self._body(before, request)
        self._permitted_send(before.send, before.club_id, request)
        resumed = replace(
            before,
            revision=str(uuid4()),
            owner=_owner(request),
            changed_at_ms=self.clock.now_ms(),
            next=self._recurrence(before).next(self.clock.now_ms()),
            paused=None,
            paused_at_ms=None,
        )
        self._store(resumed, before)
        audit(Action.SCHEDULE_RESUMED, subject=name, clubs=[before.club_id])
        return self._body(resumed, request)

    def delete(self, name: str, request: Request, audit: Audit) -> DeletedScheduleBody:
        """Delete a schedule. Raises Problem (400, 403, 404) or Retry."""
        club_id = _club(request)
        if not (_is_name(name) and self.store.delete(club_id, name)):
            raise Problem(404, Text.NAMED_SCHEDULE_UNKNOWN.filled())
        audit(Action.SCHEDULE_DELETED, subject=name, clubs=[club_id])
        return {"name": name, "status": "deleted"}

    def _find(self, name: str, club_id: int) -> Schedule:
        found = self.store.find(club_id, name) if _is_name(name) else None
        if found is None:
            raise Problem(404, Text.NAMED_SCHEDULE_UNKNOWN.filled())
        return found

    def _store(self, schedule: Schedule, before: Schedule | None) -> None:
        """Store a schedule after the record of its next occurrence. Raises Problem with status 409, or Retry."""
        now_ms = self.clock.now_ms()
        if schedule.next is not None:
            not_before_ms = now_ms + SCHEDULE_CHANGED_S * 1000  # guard: schedules.stored_before_its_record
            self.delay_store.put(delayed_occurrence(self.codec, schedule, schedule.next, not_before_ms), now_ms)
        if not self.store.put(schedule, before):
            raise Problem(409, Text.SCHEDULE_CHANGED.filled())

    def _permitted_send(self, document: Mapping[str, Any], club_id: int, request: Request) -> SendRequest:
        """Return the send of a schedule, which the caller may request now. Raises Problem (400, 403)."""
        with _of_field("send"):
            send = parse_request(document, self.clock)
            if send.club_id != club_id:  # guard: tenancy.club_of_a_schedule
                raise unusable([FieldError("club_id", Text.SCHEDULE_SEND_CLUB.filled())])
            if send.audience is None and count_chunks(send, CHUNK_SIZE) > 1:
                raise unusable([FieldError("to_users", Text.SCHEDULE_SEND_TOO_LARGE.filled(maximum=CHUNK_SIZE))])
            check_permitted(request, send)
            return with_definition(send, self.saved_audiences)

    def _first_time(self, schedule: Schedule) -> LocalTime:
        """Return the first time of a new schedule. Raises Problem with status 400."""
        now_ms, start = self.clock.now_ms(), parse_local_time(schedule.starts_at_local)
        recurrence = self._recurrence(schedule)
        if (
            start is not None
            and (start - wall_time(now_ms, recurrence.zone)).total_seconds() * 1000 > MAX_REQUEST_AHEAD_MS
        ):
            message = Text.SCHEDULE_START_TOO_FAR.filled(days=MAX_REQUEST_AHEAD_MS // 86_400_000)
            raise unusable([FieldError("starts_at_local", message)])
        first = recurrence.next(now_ms)
        if first is None:  # guard: schedules.rule_without_times
            raise unusable([FieldError("rule", never().message)])
        return first

    @staticmethod
    def _recurrence(schedule: Schedule) -> Recurrence:
        """Return the times of a schedule. Raises Problem with status 400."""
        zone = zone_of(schedule.time_zone)
        if zone is None:  # guard: schedules.unknown_zone
            raise unusable([FieldError("time_zone", Text.SCHEDULE_ZONE.filled())])
        if parse_local_time(schedule.starts_at_local) is None:
            raise unusable([FieldError("starts_at_local", Text.SCHEDULE_START.filled())])
        try:
            return read_rule(schedule.rule, schedule.starts_at_local, zone)
        except InvalidRule as error:
            raise unusable([FieldError("rule", error.message)]) from error

    def _body(self, schedule: Schedule, request: Request) -> ScheduleBody:
        following = [] if schedule.next is None else [schedule.next]
        if schedule.next is not None:
            times = schedule.recurrence().after(schedule.next.at_ms)
            following += islice(times, NEXT_SHOWN - 1)
        return {
            **_row(schedule),
            "starts_at_local": schedule.starts_at_local,
            "expires_after_minutes": schedule.expires_after_minutes,
            "catch_up": schedule.catch_up.value,
            "owner": schedule.owner.principal,
            "send": _visible(schedule.send, request.scopes),
            "next_times": [_time(each) for each in following],
            "history": [_occurrence(each) for each in self.store.history(schedule.id, OCCURRENCES_SHOWN)],
        }


def _club(request: Request) -> int:
    """Return the club of a request. Raises Problem (400, 403)."""
    read = Reader(request.parameters, PARAMETERS)
    club_id = read.single("club_id", parse.whole_number(1, LARGEST_ID), required=True) or 0
    read.check()
    if club_id not in request.clubs:  # guard: tenancy.schedules
        raise Problem(403, Text.SCHEDULES_NOT_PERMITTED.filled())
    return club_id


def _is_name(name: str) -> bool:
    return re.fullmatch(NAME_PATTERN, name) is not None


def _owner(request: Request) -> Owner:
    """Return the caller as the owner of a schedule, as of a rule (masscomm.stores.api_keys.owners)."""
    given = request.authorizer if isinstance(request.authorizer, Mapping) else {}
    context = {name: str(given[name]) for name in _KEPT if given.get(name) is not None}
    return Owner(principal=request.principal, context=context)


@contextmanager
def _of_field(field: str) -> Iterator[None]:
    """Name the fields in a problem as those of a field of the request."""
    try:
        yield
    except Problem as problem:
        errors = [FieldError(f"{field}.{each.field}" if each.field else field, each.message) for each in problem.errors]
        if not errors or problem.status != 400:
            raise
        raise unusable(errors) from problem


def _visible(send: Mapping[str, Any], scopes: frozenset[Scope]) -> dict[str, Any]:
    """Return a send without the users that it names, if the caller may not see single users."""
    if sees_single_users(scopes):
        return dict(send)
    if send.get("audience") is None:
        return {name: value for name, value in send.items() if name not in _OF_USERS}
    audience = {name: value for name, value in send["audience"].items() if name != "except_users"}
    return {**send, "audience": audience}


def _row(schedule: Schedule) -> ScheduleRow:
    paused = schedule.paused
    return {
        "name": schedule.name,
        "state": schedule.state,
        "paused": None
        if paused is None
        else {"reason": paused.value, "since": parse.time_of_ms(schedule.paused_at_ms or 0)},
        "rule": schedule.rule,
        "time_zone": schedule.time_zone,
        "type": schedule.send["type"],
        "next": None if schedule.next is None else _time(schedule.next),
        "changed_at": parse.time_of_ms(schedule.changed_at_ms),
    }


def _time(time: LocalTime) -> NextTime:
    return {"local_time": time.text, "at": parse.time_of_ms(time.at_ms)}


def _occurrence(occurrence: Occurrence) -> OccurrenceBody:
    is_skipped = occurrence.state is OccurrenceState.SKIPPED
    return {
        "local_time": occurrence.local_time,
        "at": parse.time_of_ms(occurrence.at_ms),
        "state": occurrence.state.value,
        "reason": occurrence.reason,
        "send_id": None if is_skipped else recurring_send_id(occurrence.schedule_id, occurrence.local_time),
    }
