-- Deletes the successes of an endpoint's hour that are not among the first ones any more.
delete from webhook_log as l
using (
    select distinct endpoint_id, to_timestamp(at_ms / 3600000 * 3600) as hour
    from batch_webhook_log
    where status = 'delivered' and attempt = 1
) as h
cross join lateral (
    select at, message_id from webhook_log
    where endpoint_id = h.endpoint_id and at >= h.hour and at < h.hour + interval '1 hour' and status = 'delivered' and attempt = 1
    order by at, message_id offset {successes}
) as extra
where (l.endpoint_id, l.at, l.message_id, l.attempt) = (h.endpoint_id, extra.at, extra.message_id, 1)
