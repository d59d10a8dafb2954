-- The quarantined positions that are not below stream_offsets: a batch that is merged in some lanes only has put them there.
select q.topic, q.partition, q.kafka_offset
from stream_offsets as s join quarantine as q
    on q.topic = s.topic and q.partition = s.partition and q.kafka_offset >= s.next_offset
union all
select q.topic, q.partition, q.kafka_offset
from quarantine as q
where not exists (select from stream_offsets as s where s.topic = q.topic and s.partition = q.partition)
