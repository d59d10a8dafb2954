insert into redelivered (topic, partition, kafka_offset, source, record_id)
select topic, partition, kafka_offset, source, record_id from staging_redelivered where attempt = %(attempt)s
on conflict do nothing
