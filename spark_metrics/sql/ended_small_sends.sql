-- The small sends that were requested before a time and whose notifications have all ended.
select s.send_id
from sends as s
    cross join lateral (select sum(requested) as requested from send_channels as c where c.send_id = s.send_id) as c
    cross join lateral (
        select coalesce(sum(count_total), 0) as ended from send_totals as t where t.send_id = s.send_id and t.status in ({terminal})
    ) as t
where s.requested_at < {before} and s.chunk_count = 1 and s.chunks = 1 and c.requested <= {small} and t.ended = c.requested
