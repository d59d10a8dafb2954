"""Measure what partitioned sends would cost and save: `python -m benchmarks.partitioned_sends [--sends 600000]`.

The benchmark needs `make setup`; it starts and stops its own database. It merges sends, half of them new, into the
table `sends` and into a copy that is partitioned by the month of the first record, which must be looked up before. Then
it deletes old sends, as spark_metrics.retention does, and drops a month of the copy. Durations are medians.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from benchmarks.metrics_tables import metrics_connection
from spark_metrics.retention import delete_sends

# SENDS_KEPT_DAYS in months.
_MONTHS = 15
_PARTITIONS = """
create table by_month (like sends including defaults, primary key (send_id, counted_at))
    partition by range (counted_at);
do $$ begin
    for n in 0..%d loop
        execute format('create table by_month_%%s partition of by_month for values from (%%L) to (%%L)', n,
            date_trunc('month', now()) - make_interval(months => n),
            date_trunc('month', now()) - make_interval(months => n - 1));
    end loop;
end $$
"""
_FILL = """
insert into sends (send_id, club_id, type, chunks, counted_at)
select md5(n::text)::uuid::text, n %% 200, 'news', 1,
    date_trunc('month', now()) - make_interval(months => n %% %s)
from generate_series(1, %s) as n
"""
_OTHERS = (
    "insert into by_month select * from sends",
    "insert into send_channels select send_id, 'push', 1, 0, 1 from sends",
    "insert into send_totals select send_id, 'push', status, '', 1 from sends, unnest(array['sent', 'held']) as status",
    "insert into send_states select send_id, 0, 'push', 0, '\\x0101' from sends",
    "vacuum analyze",
)
_SENDS = "select md5(n::text)::uuid::text as send_id from generate_series(%s::int, %s::int) as n"
_MERGE = f"""
insert into sends as s (send_id, club_id, type, chunks)
select send_id, 1, 'news', 1 from ({_SENDS}) as merged
on conflict (send_id) do update set chunks = s.chunks + 1
"""  # noqa: S608 - constants of this module
_MERGE_BY_MONTH = f"""
insert into by_month as s (send_id, club_id, type, chunks, counted_at)
select send_id, 1, 'news', 1, coalesce(known.counted_at, date_trunc('month', now()))
from ({_SENDS}) as merged
    left join lateral (select counted_at from by_month as b where b.send_id = merged.send_id) as known on true
on conflict (send_id, counted_at) do update set chunks = s.chunks + 1
"""  # noqa: S608


def ms(run: Callable[[], object]) -> float:
    """Return the duration of a call in ms."""
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sends", type=int, default=600_000, help="sends before the merges")
    parser.add_argument("--merged", type=int, default=5_000, help="sends of a merge")
    parser.add_argument("--rounds", type=int, default=10)
    chosen = parser.parse_args()
    with metrics_connection() as connection:
        connection.execute("insert into stream_status (stream) values ('metrics')")
        connection.execute((_PARTITIONS % _MONTHS).encode())
        connection.execute(_FILL, [_MONTHS, chosen.sends])
        for text in _OTHERS:
            connection.execute(text.encode())
        durations: dict[bytes, list[float]] = {_MERGE.encode(): [], _MERGE_BY_MONTH.encode(): []}
        end = chosen.sends + chosen.merged // 2
        for _ in range(chosen.rounds):
            for statement, found in durations.items():
                places = [end - chosen.merged + 1, end]
                found.append(ms(lambda s=statement, p=places: connection.execute(s, p)))  # type: ignore[misc]
            end += chosen.merged // 2
        for name, found in zip(("sends", "by_month"), durations.values(), strict=True):
            print(f"{name:10} {chosen.merged} sends merged in {statistics.median(found):,.1f} ms (median)")
        oldest = datetime.now(UTC) - timedelta(days=(_MONTHS - 1) * 30)
        number = 0

        def delete() -> None:
            nonlocal number
            number = delete_sends(connection, oldest)

        duration = ms(delete)
        each = duration / number * 1000
        print(f"sends      {number} sends deleted in {duration:,.0f} ms, {each:,.1f} ms a slice of 1,000")
        duration = ms(lambda: connection.execute(f"drop table by_month_{_MONTHS - 1}".encode()))
        print(f"by_month   a month dropped in {duration:,.1f} ms")


if __name__ == "__main__":
    main()
