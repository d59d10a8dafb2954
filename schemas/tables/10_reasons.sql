-- Why notifications were not sent, by hour; columns as in 01_counts.sql, of notifications that have a reason. Written by
-- spark_metrics, read by metrics_handler.
create table if not exists reasons_hour (
    bucket      timestamptz not null,
    club_id     bigint      not null,
    type        text        not null,
    channel     text        not null,
    measure     text        not null,
    reason      text        not null,
    lane        integer     not null default -1,
    count_total bigint      not null,
    primary key (bucket, club_id, type, channel, measure, reason, lane)
) partition by range (bucket);
create table if not exists reasons_hour_other partition of reasons_hour default with (fillfactor = 50);
