-- The log of webhook messages in the form that is compared, as log_compared. The successes at the first attempt are a sample, whose size is a setting.
select date_trunc('hour', at, 'UTC') as hour, club_id, endpoint_id, type, status, count(*) as rows,
    sum(hashtextextended(concat_ws('/', message_id, attempt, event_id, http_status, duration_ms, error), (extract(epoch from at) * 1000)::bigint)::numeric) as checksum
from webhook_log
where at >= {first} and at < {end} and at >= {kept_since} and (status <> 'delivered' or attempt > 1)
group by 1, 2, 3, 4, 5
