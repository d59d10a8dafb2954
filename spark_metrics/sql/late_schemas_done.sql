update quarantine as q set reason = %s
from unnest(%s::text[], %s::int[], %s::bigint[]) as done (topic, partition, kafka_offset)
where (q.topic, q.partition, q.kafka_offset) = (done.topic, done.partition, done.kafka_offset)
