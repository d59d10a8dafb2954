-- Deletes the oldest merge's ids before a time, and returns them.
delete from counted_batches
where ctid = (select ctid from counted_batches where counted_at < %s order by counted_at limit 1)
returning source, ids
