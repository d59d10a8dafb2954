insert into send_channels as c (send_id, channel, requested, duplicates, queued)
select send_id, channel,
    coalesce(sum(count_total) filter (where measure = %(requested)s), 0),
    coalesce(sum(count_total) filter (where measure = %(duplicate)s), 0),
    coalesce(sum(count_total) filter (where measure = %(queued)s), 0)
from batch_counts
where channel is not null and source in ('send', 'delivery')
group by send_id, channel
on conflict (send_id, channel) do update
    set requested = c.requested + excluded.requested,
        duplicates = c.duplicates + excluded.duplicates,
        queued = c.queued + excluded.queued
