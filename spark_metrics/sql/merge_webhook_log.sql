-- A message that succeeded at its first attempt is omitted if the log has enough earlier ones of its endpoint and hour.
insert into webhook_log (endpoint_id, at, message_id, attempt, club_id, type, status, duration_ms, event_id, http_status, error)
select endpoint_id, at, message_id, attempt, club_id, type, status, duration_ms, event_id, http_status, error
from (select *, to_timestamp(at_ms / 1000.0) as at, to_timestamp(at_ms / 3600000 * 3600) as hour from batch_webhook_log) as b
where status <> 'delivered' or attempt > 1 or not exists (
    select from webhook_log as l
    where l.endpoint_id = b.endpoint_id and l.at >= b.hour and l.status = 'delivered' and l.attempt = 1
        and (l.at, l.message_id) < (b.at, b.message_id)
    order by l.at, l.message_id offset {successes} - 1 limit 1
)
on conflict do nothing
