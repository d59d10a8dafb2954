-- Whether a batch is merged in some lanes only.
select exists (
    select from lane_offsets as l left join stream_offsets as s using (topic, partition)
    where l.next_offset > coalesce(s.next_offset, 0)
)
