-- Returns the number of staged records that cannot be counted.
with quarantined as (
    insert into quarantine (topic, partition, kafka_offset, reason, schema_id)
    select topic, partition, kafka_offset, problem, schema_id from staging_problems where attempt = %(attempt)s
    on conflict do nothing
)
select count(*) from staging_problems where attempt = %(attempt)s
