-- Returns the number of staged records.
with moved as (
    insert into stream_offsets as o (topic, partition, next_offset)
    select topic, partition, max(last_offset) + 1
    from staging_positions where attempt = %(attempt)s group by topic, partition
    on conflict (topic, partition) do update set next_offset = greatest(o.next_offset, excluded.next_offset)
)
select coalesce(sum(records), 0)::bigint from staging_positions where attempt = %(attempt)s
