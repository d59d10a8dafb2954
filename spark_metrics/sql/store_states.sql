insert into send_states (send_id, chunk_index, channel, block, codes)
select * from unnest(%s::text[], %s::int[], %s::text[], %s::int[], %s::bytea[])
on conflict (send_id, chunk_index, channel, block) do update set codes = excluded.codes
