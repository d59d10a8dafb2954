insert into stream_offsets as o (topic, partition, next_offset)
select * from unnest(%s::text[], %s::int[], %s::bigint[])
on conflict (topic, partition) do update set next_offset = greatest(o.next_offset, excluded.next_offset)
