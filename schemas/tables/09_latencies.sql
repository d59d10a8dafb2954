-- Latencies of notifications, of all tenants together. Written by spark_metrics, read by metrics_handler.
--
-- bucket       beginning of the minute or hour (UTC) in which the notifications had their status
-- type         the category
-- measure      the status: sent (since the notification was due) or delivered
-- bin          the number of the bin of the latency (masscomm.domain.latencies)
-- count_total  number of notifications
-- lane         as in 01_counts.sql
create table if not exists latency_minute (
    bucket      timestamptz not null,
    type        text        not null,
    channel     text        not null,
    measure     text        not null,
    bin         smallint    not null,
    lane        integer     not null default -1,
    count_total bigint      not null,
    primary key (bucket, type, channel, measure, bin, lane)
) partition by range (bucket);
create table if not exists latency_minute_other partition of latency_minute default;

-- fillfactor: as in 01_counts.sql.
create table if not exists latency_hour (like latency_minute including all) partition by range (bucket);
create table if not exists latency_hour_other partition of latency_hour default with (fillfactor = 50);
