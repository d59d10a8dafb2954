"""Builds the SQL of a query for counts. Identifiers come from enumerations, and every value is a parameter."""

from typing import Any

from psycopg import sql
from psycopg.sql import SQL, Composable, Composed, Identifier, Placeholder

from masscomm.stores.metrics.port import MAX_REVISED, Bounds, Dimension, LatencyQuery, MetricsQuery, Order

_TYPES = {
    Dimension.CLUB_ID: SQL("bigint"),
    Dimension.TYPE: SQL("text"),
    Dimension.CHANNEL: SQL("text"),
    Dimension.MEASURE: SQL("text"),
    Dimension.REASON: SQL("text"),
}


def values_of(query: MetricsQuery, bounds: Bounds) -> dict[str, Any]:
    """Return all parameters of the statements in this module."""
    values: dict[str, Any] = {
        "start": query.start,
        "end": query.end,
        # One row more than the limit is read; it shows whether there are more rows.
        "limit": query.limit + 1,
        "read_bound": bounds.read + 1,
        "filled_bound": bounds.filled + 1,
        "buckets": list(query.buckets or ()),
    }
    values |= {dimension: list(getattr(query, dimension)) for dimension in Dimension}
    if query.after is not None:
        values |= {"after_bucket": query.after.bucket, "after_count": query.after.count_total}
        values |= {_after(d): value for d, value in zip(query.dimensions, query.after.values, strict=True)}
    return values


def rows_read(query: MetricsQuery) -> Composed:
    """Return a statement that counts the rows a query reads, up to one more than the bound."""
    return SQL("select count(*) from (select from {} where {} limit %(read_bound)s) as matching").format(
        Identifier(query.table), _conditions(query)
    )


def combinations(query: MetricsQuery) -> Composed:
    """Return a statement that counts the combinations of dimensions a query finds, up to one more than the bound."""
    return SQL(
        "select count(*) from (select distinct {} from {} where {} limit %(filled_bound)s) as combinations"
    ).format(_names(query), Identifier(query.table), _conditions(query))


def rows(query: MetricsQuery) -> Composed:
    """Return a statement for bucket, dimensions and count_total, in the query's order."""
    bucket: Composable = SQL("bucket")
    if query.buckets is not None:
        bucket = SQL("(%(buckets)s::timestamptz[])[width_bucket(bucket, %(buckets)s::timestamptz[])]")
    counted = SQL("select {} as bucket, {}, sum(count_total) as count_total from {} where {} group by {}").format(
        bucket,
        _names(query),
        Identifier(query.table),
        _conditions(query),
        SQL(", ").join(SQL(str(n + 1)) for n in range(len(query.dimensions) + 1)),
    )
    return SQL("with counted as ({}){} select bucket, {}, count_total from {}{} order by {} limit %(limit)s").format(
        counted,
        _filled(query) if query.fill else SQL(""),
        _names(query),
        SQL("filled") if query.fill else SQL("counted"),
        SQL(" where {}").format(_after_condition(query)) if query.after is not None else SQL(""),
        _order(query),
    )


def revised(query: MetricsQuery) -> Composed:
    """Return a statement for the revised buckets: those with a minute that changed after it was complete, each with
    the time of its last change.
    """
    bucket: Composable = SQL("date_bin({}, minute, timestamptz 'epoch')").format(sql.Literal(query.granularity.length))
    if query.buckets is not None:
        bucket = SQL("(%(buckets)s::timestamptz[])[width_bucket(minute, %(buckets)s::timestamptz[])]")
    clubs = SQL(" and club_id = any(%(club_id)s::bigint[])") if query.club_id else SQL("")
    return SQL(
        "select {} as bucket, max(revised_at) from revised_minutes"
        " where minute >= %(start)s and minute < %(end)s{} group by 1 order by 1 limit {}"
    ).format(bucket, clubs, sql.Literal(MAX_REVISED))


def trends(query: MetricsQuery) -> Composed:
    """Return a statement for the dimension, its count_total from `middle` on, and its count_total before; the `top`
    largest rows come first.
    """
    return SQL(
        "select {name}, sum(count_total) filter (where bucket >= %(middle)s) as within,"
        " coalesce(sum(count_total) filter (where bucket < %(middle)s), 0) as before"
        " from {table} where {conditions} group by {name} having max(bucket) >= %(middle)s"
        " order by within desc, {sorted} limit %(top)s"
    ).format(
        name=_names(query),
        table=Identifier(query.table),
        conditions=_conditions(query),
        sorted=SQL(", ").join(map(_sorted, query.dimensions)),
    )


def latency_values(query: LatencyQuery, bounds: Bounds) -> dict[str, Any]:
    """Return all parameters of the two statements for latencies."""
    values: dict[str, Any] = {"start": query.start, "end": query.end}
    values |= {"read_bound": bounds.read + 1, "limit": bounds.latencies + 1}
    return values | {dimension: list(getattr(query, dimension)) for dimension in _OF_LATENCIES}


def latency_rows_read(query: LatencyQuery) -> Composed:
    """Return a statement that counts the rows a query for latencies reads, up to one more than the bound."""
    return SQL("select count(*) from (select from {} where {} limit %(read_bound)s) as matching").format(
        Identifier(query.source.latency_table), _conditions(query)
    )


def latencies(query: LatencyQuery) -> Composed:
    """Return a statement for bucket, dimensions, bins and the count of each bin, up to one more row than the bound."""
    bucket = SQL("date_bin({}, bucket, timestamptz 'epoch')").format(sql.Literal(query.granularity.length))
    names = [Identifier(dimension) for dimension in query.dimensions]
    keys = SQL(", ").join([SQL("bucket"), *names])
    return SQL(
        "select {keys}, array_agg(bin), array_agg(n) from ("
        "select {values}, bin, sum(count_total) as n from {table} where {conditions} group by {numbers}"
        ") as counted group by {keys} order by {order} limit %(limit)s"
    ).format(
        keys=keys,
        values=SQL(", ").join([SQL("{} as bucket").format(bucket), *names]),
        table=Identifier(query.source.latency_table),
        conditions=_conditions(query),
        numbers=SQL(", ").join(SQL(str(n + 1)) for n in range(len(names) + 2)),
        order=SQL(", ").join([SQL("bucket"), *map(_sorted, query.dimensions)]),
    )


_OF_LATENCIES = (Dimension.TYPE, Dimension.CHANNEL, Dimension.MEASURE)


def _conditions(query: MetricsQuery | LatencyQuery) -> Composable:
    return SQL(" and ").join([SQL("bucket >= %(start)s and bucket < %(end)s"), *_filters(query)])


def _filters(query: MetricsQuery | LatencyQuery) -> list[Composed]:
    return [
        SQL("{} = any({}::{}[])").format(Identifier(dimension), Placeholder(dimension), _TYPES[dimension])
        for dimension in (Dimension if isinstance(query, MetricsQuery) else _OF_LATENCIES)
        if getattr(query, dimension)
    ]


def _filled(query: MetricsQuery) -> Composed:
    combinations: Composable = SQL("select distinct {} from counted").format(_names(query))
    if query.named_combinations:
        combinations = SQL("select * from {}").format(
            SQL(" cross join ").join(
                SQL("unnest({}::{}[]) as {}").format(
                    Placeholder(dimension), _TYPES[dimension], sql.Identifier(dimension)
                )
                for dimension in query.dimensions
            )
        )
    return SQL(
        ", combinations as ({combinations}), filled as ("
        "select bucket, {names}, coalesce(counted.count_total, 0) as count_total"
        " from unnest(%(buckets)s::timestamptz[]) as buckets (bucket)"
        " cross join combinations left join counted using (bucket, {names}))"
    ).format(combinations=combinations, names=_names(query))


def _names(query: MetricsQuery) -> Composed:
    return SQL(", ").join(Identifier(dimension) for dimension in query.dimensions)


def _sorted(dimension: Dimension) -> Composable:
    # Texts are sorted by code point, as in Python, independent of the database's collation.
    suffix = "" if dimension is Dimension.CLUB_ID else ' collate "C"'
    return SQL("{}" + suffix).format(Identifier(dimension))


def _order(query: MetricsQuery) -> Composable:
    by_dimensions = SQL(", ").join(map(_sorted, query.dimensions))
    match query.order:
        case Order.BUCKET:
            return SQL("bucket, {}").format(by_dimensions)
        case Order.LATEST:
            return SQL("bucket desc, {}").format(by_dimensions)
        case Order.LARGEST:
            return SQL("count_total desc, bucket, {}").format(by_dimensions)


def _after_condition(query: MetricsQuery) -> Composable:
    """Return the condition for the rows that follow the row `after` in the query's order."""
    names = SQL(", ").join(map(_sorted, query.dimensions))
    values = SQL(", ").join(SQL("{}::{}").format(Placeholder(_after(d)), _TYPES[d]) for d in query.dimensions)
    match query.order:
        case Order.BUCKET:
            return SQL("(bucket, {}) > (%(after_bucket)s, {})").format(names, values)
        case Order.LATEST:
            return SQL("(bucket < %(after_bucket)s or (bucket = %(after_bucket)s and ({}) > ({})))").format(
                names, values
            )
        case Order.LARGEST:
            return SQL(
                "(count_total < %(after_count)s or"
                " (count_total = %(after_count)s and (bucket, {}) > (%(after_bucket)s, {})))"
            ).format(names, values)


def _after(dimension: Dimension) -> str:
    return f"after_{dimension}"
