-- The counts, a table for each grain of masscomm/domain/grains.py. Written by spark_metrics only, read by metrics_handler.
--
-- bucket       the beginning of the grain's bucket (UTC) that contains the record's own timestamp
-- measure      requested, duplicate, queued, or a status of masscomm.domain.statuses; a funnel: how many notifications reached it
-- count_total  notifications (recipients on a channel), never records
-- lane         the lane that added them, so that no two lanes update one row; -1: all lanes, in buckets that are complete. A reader sums
--              the rows of all lanes (spark_metrics.counting.folding).
--
-- Tables that grow with time are partitioned by it, so that spark_metrics.retention drops old rows as whole tables: T_20261201 is a
-- month or a year that begins on this day, and the job makes it beforehand (spark_metrics.counting.partitions); T_other has the times without
-- a partition, such as those of a wrong clock.
--
-- The key begins with the bucket because every query has a range of time: one index serves the upsert and the reader.

create table if not exists counts_minute (
    bucket      timestamptz not null,
    club_id     bigint      not null,
    type        text        not null,
    channel     text        not null,
    measure     text        not null,
    count_total bigint      not null,
    lane        integer     not null default -1,
    primary key (bucket, club_id, type, channel, measure, lane)
) partition by range (bucket);
create table if not exists counts_minute_other partition of counts_minute default;

-- Each batch updates the rows of the hour and the day. With room for a second version in its page, an update writes no index
-- entry: 2.2 us a record and table, not 3.5, and the tables become no larger. spark_metrics.counting.partitions has it for other partitions.
create table if not exists counts_hour (like counts_minute including all) partition by range (bucket);
create table if not exists counts_hour_other partition of counts_hour default with (fillfactor = 50);
create table if not exists counts_day (like counts_minute including all) partition by range (bucket);
create table if not exists counts_day_other partition of counts_day default with (fillfactor = 50);
