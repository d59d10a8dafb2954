"""GET /v1/overview: sends in progress, the counts of today, and open problems.

club_id   only these clubs; without it, those of the caller
hours     the hours that count as today, the present one included; by default those since midnight in UTC

The parts are read at the same time. A part whose server does not answer is null and named in `unavailable`. A part for
which the caller has no scope is null. Without the metrics database, sends are listed as the register has them. The work
is bounded: the latest 100 sends and dead letters, and 20 clubs, those with the most notifications today.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple, TypedDict, cast

from functions.operations_handler.routes.alarms import AlarmRow, AlarmsRoute
from functions.operations_handler.routes.dead_letters import DeadLettersRoute
from functions.operations_handler.routes.webhooks import WebhookBody, WebhooksRoute
from masscomm.clock import Clock
from masscomm.domain.grains import Grain, floor
from masscomm.domain.measures import REQUESTED
from masscomm.domain.send_states import FINAL
from masscomm.domain.statuses import Status
from masscomm.errors import MasscommError
from masscomm.http import parameters as parse
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.problem import Problem
from masscomm.http.requested_clubs import seen
from masscomm.http.scopes import Scope
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.observability import logs
from masscomm.operations.alarms import AlarmState
from masscomm.operations.health import Health
from masscomm.operations.send_lists import ListedSend, SendLists, SendPage
from masscomm.stores.metrics.port import Dimension, MetricsQuery, Order, SendListQuery, TooMuch

PARAMETERS = ("club_id", "hours")
# The sends and endpoints of the response, the sends and dead letters that are read, and the clubs whose sends and
# endpoints are read.
ROWS, READ, CLUBS = 10, 100, 20
MAX_HOURS = 48
_HOUR = timedelta(hours=1)
_MEASURES = (REQUESTED, Status.SENT, Status.DELIVERED, Status.SUPPRESSED, Status.FAILED, Status.BOUNCED)

logger = logs.logger("operations_handler")

parse_hours = parse.whole_number(1, MAX_HOURS)


class TodayBody(TypedDict):
    """Notifications that reached a status today; one that was sent and then delivered is in both numbers."""

    since: str
    requested: int
    sent: int
    delivered: int
    suppressed: int
    failed: int
    bounced: int


class OverviewHealth(TypedDict):
    """How far the installation is behind."""

    lag_total: int
    """Records that wait for a function."""
    staleness_s: float | None
    """The age of the directory's oldest generation; null: no heartbeat is known."""


class OverviewBody(TypedDict):
    """Sends in progress, the counts of today, and open problems."""

    sends: list[ListedSend]
    """Those of the latest 100 sends that have not ended, then the latest others; at most 10."""
    counts_known: bool
    """False: the metrics database does not answer. Only sends are listed that are large, scheduled, to an audience or
    controlled, and their counts are null."""
    today: TodayBody | None
    dead_letters: int | None
    """Open dead letters: for a caller of every club all of them, otherwise those of its clubs among the latest 100.
    null without the scope `operate`."""
    alarms: list[AlarmRow] | None
    """The alarms that ring; null: nothing evaluates alarms, or the caller does not have the scope `operate`."""
    webhooks: list[WebhookBody] | None
    """The endpoints that masscomm has disabled, at most 10; null without the scope `webhooks`."""
    health: OverviewHealth | None
    """null without the scope `operate`."""
    unavailable: list[str]
    """The parts whose server does not answer: sends, today, dead_letters, alarms, webhooks or health."""
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    generated_at: str


class _Today(NamedTuple):
    body: TodayBody
    # The clubs with the most notifications, at most CLUBS.
    busiest: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class OverviewRoute:
    lists: SendLists
    alarms: AlarmsRoute
    dead_letters: DeadLettersRoute
    webhooks: WebhooksRoute
    health: Health
    clock: Clock

    def answer(
        self,
        parameters: Mapping[str, list[str]],
        clubs: Clubs,
        scopes: AbstractSet[Scope],
        decoding: Callable[[], AbstractContextManager[None]],
    ) -> OverviewBody:
        """Return the response body. Raises Problem (400 with each wrong parameter, 403).

        Args:
            parameters: The parameters of the request.
            clubs: The clubs that the caller may see.
            scopes: The caller's scopes.
            decoding: Holds the slot of a request that decodes dead letters. Raises Problem with status 429.
        """
        read = Reader(parameters, PARAMETERS)
        asked = read.several("club_id", parse_club_id)
        hours = read.single("hours", parse_hours)
        read.check()
        chosen = seen(asked, clubs)  # guard: tenancy.overview
        now_ms = self.clock.now_ms()
        now = floor(datetime.fromtimestamp(now_ms / 1000, UTC), _HOUR)
        since = floor(now, Grain.DAY.length) if hours is None else now - (hours - 1) * _HOUR
        unavailable: list[str] = []
        with ThreadPoolExecutor(5, thread_name_prefix="overview") as pool:

            def start[T](scope: Scope, part: Callable[[], T]) -> Future[T] | None:
                return pool.submit(logs.carried(part)) if scope in scopes else None  # guard: scopes.overview

            def end[T](name: str, part: Future[T] | None) -> T | None:
                try:
                    return None if part is None else part.result()
                except (MasscommError, Problem, TooMuch) as error:
                    logger.warning("a part of the overview is unavailable", part=name, error=str(error))
                    unavailable.append(name)
                    return None

            counted = start(Scope.READ, lambda: self._today(chosen, since, now + _HOUR))
            letters = start(Scope.OPERATE, lambda: self._open_letters(chosen, decoding))
            alarms = start(Scope.OPERATE, self._ringing)
            health = start(Scope.OPERATE, self._health)
            webhooks = start(Scope.WEBHOOKS, lambda: self._disabled(chosen))
            own = chosen if 0 < len(chosen) <= CLUBS else None
            page = start(Scope.READ, lambda: self._page(own, now_ms)) if own else None
            today = end("today", counted)
            if own is None:
                busiest = today.busiest if today else chosen[:CLUBS]
                page = start(Scope.READ, lambda: self._page(busiest, now_ms))
            listed = end("sends", page)
            body: OverviewBody = {
                "sends": _first(listed.rows) if listed else [],
                "counts_known": listed is not None and listed.counts_known,
                "today": today.body if today else None,
                "dead_letters": end("dead_letters", letters),
                "alarms": end("alarms", alarms),
                "webhooks": end("webhooks", webhooks),
                "health": end("health", health),
                "unavailable": unavailable,
                "watermark": rfc3339(listed.watermark) if listed else None,
                "generated_at": time_of_ms(now_ms),
            }
        return body

    def _page(self, clubs: Sequence[int], now_ms: int) -> SendPage:
        return self.lists.page(SendListQuery(club_id=tuple(clubs), limit=READ), now_ms)

    def _today(self, chosen: tuple[int, ...], since: datetime, until: datetime) -> _Today:
        """Return the counts of the day. Raises Retry or TooMuch."""
        query = MetricsQuery(
            granularity=Grain.HOUR,
            start=since,
            end=until,
            buckets=(since,),
            dimensions=(Dimension.MEASURE,),
            club_id=chosen,
            measure=_MEASURES,
        )
        counts = {str(row.values[0]): row.count_total for row in self.lists.store.counts(query).rows}
        by_club = replace(
            query, dimensions=(Dimension.CLUB_ID,), measure=(REQUESTED,), order=Order.LARGEST, limit=CLUBS
        )
        busiest = [int(row.values[0]) for row in self.lists.store.counts(by_club).rows]
        numbers = {measure: counts.get(measure, 0) for measure in _MEASURES}
        return _Today(cast("TodayBody", {"since": rfc3339(since), **numbers}), busiest)

    def _open_letters(self, chosen: tuple[int, ...], decoding: Callable[[], AbstractContextManager[None]]) -> int:
        if not chosen:
            return self.dead_letters.store.open_count()
        with decoding():  # guard: costly_requests.overview
            return self.dead_letters.open_of(chosen, READ)

    def _ringing(self) -> list[AlarmRow] | None:
        found = self.alarms.answer({})
        return (
            [each for each in found["rows"] if each["state"] == AlarmState.ALARM.value] if found["evaluated"] else None
        )

    def _health(self) -> OverviewHealth:
        heartbeats = [each.heartbeat_at_ms for each in self.health.directory_ages()]
        known = [each for each in heartbeats if each is not None]
        stale_ms = max(0, self.clock.now_ms() - min(known)) if known and len(known) == len(heartbeats) else None
        return {
            "lag_total": sum(each.records for each in self.health.lags()),
            "staleness_s": None if stale_ms is None else stale_ms / 1000,
        }

    def _disabled(self, chosen: tuple[int, ...]) -> list[WebhookBody]:
        clubs = chosen or self.webhooks.endpoints.clubs()
        rows = (each for club_id in islice(clubs, CLUBS) for each in self.webhooks.of_club(club_id))
        return list(islice((each for each in rows if each["disabled_reason"]), ROWS))


def _first(rows: Sequence[ListedSend]) -> list[ListedSend]:
    """Return the rows of the response: sends that have not ended come first."""
    return sorted(rows, key=lambda row: row["status"] in FINAL)[:ROWS]
