-- One grain of the counts of webhook messages, as in merge_counts.
insert into {table} as c (bucket, endpoint_id, club_id, type, status, count_total, duration_ms_total)
select to_timestamp(minute_s / {seconds} * {seconds}), endpoint_id, club_id, type, status, sum(count_total), sum(duration_ms)
from batch_webhooks
group by 1, 2, 3, 4, 5
order by 1, 2, 3, 4, 5
on conflict (bucket, endpoint_id, club_id, type, status) do update
    set count_total = c.count_total + excluded.count_total, duration_ms_total = c.duration_ms_total + excluded.duration_ms_total
