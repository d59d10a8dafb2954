-- The next offset of each partition that is not merged: in all lanes (lanes is null), and beyond that in single lanes.
select null::integer as lanes, null::integer as lane, topic, partition, next_offset from stream_offsets
union all
select l.lanes, l.lane, l.topic, l.partition, l.next_offset
from lane_offsets as l left join stream_offsets as s using (topic, partition)
where l.next_offset > coalesce(s.next_offset, 0) and (l.lanes <> %(lanes)s or l.lane = %(lane)s)
