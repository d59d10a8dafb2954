insert into lane_offsets as o (lanes, lane, topic, partition, next_offset)
select %s, %s, * from unnest(%s::text[], %s::int[], %s::bigint[])
on conflict (lanes, lane, topic, partition) do update set next_offset = greatest(o.next_offset, excluded.next_offset)
