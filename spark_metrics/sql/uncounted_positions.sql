-- The positions of records that are not counted; with `first`, those that were stored since that time.
select topic, partition, kafka_offset from quarantine
where %(first)s::timestamptz is null or quarantined_at >= %(first)s
union
select topic, partition, kafka_offset from redelivered
where %(first)s::timestamptz is null or refused_at >= %(first)s
