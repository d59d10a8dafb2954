insert into redelivered (topic, partition, kafka_offset, source, record_id)
select * from unnest(%s::text[], %s::int[], %s::bigint[], %s::text[], %s::uuid[])
on conflict do nothing
