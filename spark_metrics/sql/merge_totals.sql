insert into send_totals as t (send_id, channel, status, reason, count_total)
select * from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])
on conflict (send_id, channel, status, reason) do update set count_total = t.count_total + excluded.count_total
