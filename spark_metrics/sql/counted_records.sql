-- The archived records that the metrics have counted: those below the offsets of the stream that are neither redelivered nor quarantined.
select r.*
from {records} as r
    inner join {uncounted} as merged
        on merged.topic = r.topic and merged.partition = r.partition and merged.at = timestamp '1900-01-01 00:00:00'
    left anti join (select topic, partition, kafka_offset from {uncounted} where at >= timestamp '1970-01-01 00:00:00') as u
        on u.topic = r.topic and u.partition = r.partition and u.kafka_offset = r.kafka_offset
where r.at >= timestamp '1970-01-01 00:00:00' and r.problem is null and r.kafka_offset < merged.kafka_offset
