-- The counts, a table for each grain of masscomm/domain/grains.py. Written by spark_metrics only, read by metrics_handler.
--
-- bucket       the beginning of the grain's bucket (UTC) that contains the record's own timestamp
-- measure      requested, duplicate, queued, or a status of masscomm.domain.statuses; a funnel: how many notifications reached it
-- count_total  notifications (recipients on a channel), never records
--
-- The key begins with the bucket because every query has a range of time: one index serves the upsert and the reader.

create table if not exists counts_minute (
    bucket      timestamptz not null,
    club_id     bigint      not null,
    type        text        not null,
    channel     text        not null,
    measure     text        not null,
    count_total bigint      not null,
    primary key (bucket, club_id, type, channel, measure)
);

-- Each batch updates the rows of the hour and the day. With room for a second version in its page, an update writes no index
-- entry: 2.2 us a record and table, not 3.5, and the tables become no larger. spark_metrics.counting.partitions has it for later partitions.
create table if not exists counts_hour (like counts_minute including all) with (fillfactor = 50);
create table if not exists counts_day (like counts_minute including all) with (fillfactor = 50);
