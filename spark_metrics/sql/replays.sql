-- The next offset to count, of each partition with a staged record below it.
select topic, partition, next_offset
from (
    select topic, partition, min(first_offset) as first_offset
    from staging_positions where attempt = %(attempt)s group by topic, partition
) as staged join stream_offsets using (topic, partition)
where first_offset < next_offset
