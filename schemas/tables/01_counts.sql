-- What is counted, at three grains. Written by spark_metrics only, read by metrics_handler.
--
-- bucket       the minute, hour or day (UTC) in which the record's own timestamp lies
-- measure      requested, duplicate, queued, or a status of masscomm.domain.statuses; a funnel: how many notifications reached it
-- count_total  notifications (recipients on a channel), never records
--
-- The key begins with the bucket because every question names a range of time: one index serves the upsert and the reader.

create table if not exists counts_minute (
    bucket      timestamptz not null,
    club_id     bigint      not null,
    type        text        not null,
    channel     text        not null,
    measure     text        not null,
    count_total bigint      not null,
    primary key (bucket, club_id, type, channel, measure)
);

create table if not exists counts_hour (
    bucket      timestamptz not null,
    club_id     bigint      not null,
    type        text        not null,
    channel     text        not null,
    measure     text        not null,
    count_total bigint      not null,
    primary key (bucket, club_id, type, channel, measure)
);

create table if not exists counts_day (
    bucket      timestamptz not null,
    club_id     bigint      not null,
    type        text        not null,
    channel     text        not null,
    measure     text        not null,
    count_total bigint      not null,
    primary key (bucket, club_id, type, channel, measure)
);
