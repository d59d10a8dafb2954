-- One grain of the counts of webhook messages, as in merge_counts.
insert into {table} as c (bucket, endpoint_id, club_id, type, status, lane, count_total, duration_ms_total)
select bucket, endpoint_id, club_id, type, status, {lane}, count_total, duration_ms_total
from (
    select to_timestamp(minute_s / {seconds} * {seconds}) as bucket, endpoint_id, club_id, type, status,
        sum(count_total) as count_total, sum(duration_ms) as duration_ms_total
    from batch_webhooks
    group by 1, 2, 3, 4, 5
) as counts
order by 1, 2, 3, 4, 5
on conflict (bucket, endpoint_id, club_id, type, status, lane) do update
    set count_total = c.count_total + excluded.count_total, duration_ms_total = c.duration_ms_total + excluded.duration_ms_total
