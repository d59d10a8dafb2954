-- The quarantined positions of the schema id that follows `after`, or of the first one, if its records are not too old.
with waiting as (
    select schema_id, topic, partition, kafka_offset
    from quarantine
    where reason = %(reason)s and topic = any(%(topics)s::text[])
        and quarantined_at > now() - make_interval(secs => %(wait_s)s)
)
select * from waiting
where schema_id = (select coalesce(min(schema_id) filter (where schema_id > %(after)s), min(schema_id)) from waiting)
order by topic, partition, kafka_offset
limit %(most)s
