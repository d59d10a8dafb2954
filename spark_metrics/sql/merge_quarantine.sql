-- In the order of the key: the records of unknown schemas are inserted by every lane.
insert into quarantine (topic, partition, kafka_offset, reason, schema_id)
select * from unnest(%s::text[], %s::int[], %s::bigint[], %s::text[], %s::bigint[]) as q (topic, partition, kafka_offset, reason, id)
order by topic, partition, kafka_offset
on conflict do nothing
