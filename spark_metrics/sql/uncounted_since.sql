-- The positions between two sets of offsets that are not counted. {topic: {partition: [begin, end]}} is the parameter `spans`.
select stored.stored_at, stored.topic, stored.partition, stored.kafka_offset, stored.reason
from jsonb_each(%(spans)s) as t (topic, partitions)
cross join lateral jsonb_each(t.partitions) as p (partition, span)
cross join lateral (
    select quarantined_at as stored_at, topic, partition, kafka_offset, reason from quarantine
    union all
    select refused_at, topic, partition, kafka_offset, 'redelivered' from redelivered
) as stored
where stored.topic = t.topic and stored.partition = p.partition::int
    and stored.kafka_offset >= (p.span ->> 0)::bigint and stored.kafka_offset < (p.span ->> 1)::bigint
