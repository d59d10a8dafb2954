"""Random rows and queries for the metrics API, with the expected rows from a group-by in plain Python."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from masscomm.domain.grains import Grain
from masscomm.stores.metrics.in_memory import StoredCount
from masscomm.stores.metrics.port import OF_COUNTS

# The events' days include the end of summer time in Madrid; there are so few buckets that events share them.
FIRST = datetime(2026, 10, 24, 20, tzinfo=UTC)
_TYPES = ["news", "News", "match, start", "=1+1", "ñandú", "\U0001f3c6", "O'Brien; --"]
_TRUNCATED = {
    Grain.MINUTE: {"second": 0},
    Grain.HOUR: {"second": 0, "minute": 0},
    Grain.DAY: {"second": 0, "minute": 0, "hour": 0},
}

# Measure → the reason of its notifications; others have none.
REASON_OF = {"failed": "no_template", "requested": "opted_out"}

# (time, club, category, channel, measure, number of notifications)
type Event = tuple[datetime, int, str, str, str, int]

events: st.SearchStrategy[list[Event]] = st.lists(
    st.tuples(
        st.integers(0, 60 * 30).map(lambda minutes: FIRST + timedelta(minutes=minutes * 2)),
        st.sampled_from([1, 2, -7, 2**63 - 1]),
        st.sampled_from(_TYPES),
        st.sampled_from(["push", "email"]),
        st.sampled_from(["requested", "sent", "failed"]),
        st.integers(1, 5),
    ),
    max_size=25,
)


@st.composite
def queries(draw: st.DrawFn) -> dict[str, list[str]]:
    """Make the parameters of a valid query, without limit and cursor."""
    start = FIRST + timedelta(minutes=draw(st.integers(-120, 60 * 50)))
    length = timedelta(minutes=draw(st.integers(1, 60 * 70)))
    asked = {
        "granularity": [draw(st.sampled_from(["minute", "hour", "day"]))],
        "start": [start.isoformat()],
        "end": [(start + length).isoformat()],
    }
    optional: dict[str, st.SearchStrategy[list[Any]]] = {
        "dimensions": st.lists(st.sampled_from(OF_COUNTS), min_size=1, max_size=4),
        "club_id": st.lists(st.sampled_from(["1", "2", "-7", "3"]), min_size=1, max_size=3),
        "type": st.lists(st.sampled_from([*_TYPES, "other"]), min_size=1, max_size=3),
        "channel": st.just(["push"]),
        "measure": st.lists(st.sampled_from(["requested", "sent", "held"]), min_size=1, max_size=2),
        "order": st.sampled_from(["bucket", "-bucket", "-count_total"]).map(lambda order: [order]),
        "fill": st.just(["zero"]),
    }
    for name, strategy in optional.items():
        if draw(st.booleans()):
            asked[name] = draw(strategy)
    if by_reason := asked["granularity"] != ["minute"] and draw(st.booleans()):
        asked["dimensions"] = [*asked.get("dimensions", OF_COUNTS), "reason"]
        if draw(st.booleans()):
            asked["reason"] = ["no_template"]
    if asked["granularity"] == ["day"] and draw(st.booleans()):
        # Reasons are counted by hour.
        zones = ["Europe/Madrid", "UTC", *([] if by_reason else ["Asia/Kolkata", "Australia/Lord_Howe"])]
        asked["time_zone"] = [draw(st.sampled_from(zones))]
    return asked


def stored(happened: Sequence[Event]) -> list[StoredCount]:
    """Return the rows of the tables, as the stream writes them."""
    totals: Counter[tuple[Any, ...]] = Counter()
    for when, *key, count in happened:
        for granularity, zeros in _TRUNCATED.items():
            totals[granularity, when.replace(**zeros), *key, ""] += count  # type: ignore[arg-type]
            if granularity is Grain.HOUR and (reason := REASON_OF.get(str(key[-1]))):
                totals[granularity, when.replace(**zeros), *key, reason] += count  # type: ignore[arg-type]
    return [
        StoredCount(
            granularity=granularity,
            bucket=when,
            club_id=club,
            type=kind,
            channel=channel,
            measure=measure,
            count_total=n,
            reason=reason,
        )
        for (granularity, when, club, kind, channel, measure, reason), n in totals.items()
    ]


def expected(happened: Sequence[Event], asked: dict[str, list[str]]) -> list[tuple[Any, ...]]:
    """Compute the expected rows (bucket, value of each dimension …, count_total) from the events, in order."""
    granularity, zone = asked["granularity"][0], ZoneInfo(asked.get("time_zone", ["UTC"])[0])
    start, end = (datetime.fromisoformat(asked[name][0]) for name in ("start", "end"))
    chosen = {*asked.get("dimensions", OF_COUNTS), "measure"}
    names = [name for name in ("club_id", "type", "channel", "measure", "reason") if name in chosen]
    by_reason = "reason" in chosen or "reason" in asked

    def begins(when: datetime) -> datetime:
        local = when.astimezone(zone).replace(**_TRUNCATED[Grain(granularity)])  # type: ignore[arg-type]
        return local.astimezone(UTC)

    totals: Counter[tuple[Any, ...]] = Counter()
    for when, club, kind, channel, measure, count in happened:
        of = {"club_id": club, "type": kind, "channel": channel, "measure": measure}
        if by_reason:
            if measure not in REASON_OF:
                continue
            of["reason"] = REASON_OF[measure]
        if start <= begins(when) < end and all(str(of[n]) in asked.get(n, [str(of[n])]) for n in of):
            totals[begins(when), *(of[name] for name in names)] += count
    if "fill" in asked:
        every = set()
        moment = start.replace(second=0)
        while moment < end:
            if begins(moment) == moment:
                every.add(moment)
            moment += timedelta(minutes=1)
        combinations = {key[1:] for key in totals}
        if all(name in asked for name in names):
            values: list[list[Any]] = [list(map(int, asked[n])) if n == "club_id" else asked[n] for n in names]
            combinations = set(product(*values))
        totals.update({(bucket, *values): 0 for bucket in every for values in combinations})
    rows = sorted((*key, count) for key, count in totals.items())
    match asked.get("order", ["bucket"]):
        case ["-bucket"]:
            rows.sort(key=lambda row: row[0], reverse=True)  # a stable sort, so that the other columns stay ascending
        case ["-count_total"]:
            rows.sort(key=lambda row: -row[-1])
    return rows


def rows_of(body: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a response in the form of `expected`."""
    rows = [tuple(row.values()) for row in body["rows"]]
    return [(datetime.fromisoformat(bucket).astimezone(UTC), *rest) for bucket, *rest in rows]
