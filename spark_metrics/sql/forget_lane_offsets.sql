delete from lane_offsets as l using stream_offsets as s
where s.topic = l.topic and s.partition = l.partition and l.next_offset <= s.next_offset
