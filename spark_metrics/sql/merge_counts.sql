-- One grain: {table} has buckets of {seconds} seconds. In the order of the key: several lanes may update the row of a complete bucket.
insert into {table} as c (bucket, club_id, type, channel, measure, lane, count_total)
select bucket, club_id, type, channel, measure, {lane}, count_total
from (
    select to_timestamp(minute_s / {seconds} * {seconds}) as bucket, club_id, type, channel, measure, sum(count_total) as count_total
    from batch_counts
    where count_total > 0
    group by 1, 2, 3, 4, 5
) as counts
order by 1, 2, 3, 4, 5
on conflict (bucket, club_id, type, channel, measure, lane) do update set count_total = c.count_total + excluded.count_total
