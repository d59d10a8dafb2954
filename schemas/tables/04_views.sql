-- Views: further sums of what is counted (spark_metrics.views), merged with it. Written by spark_metrics only.

-- What the stream maintains. since: records counted before it are not in the view (recompute --swap puts them there);
-- kept_since: what is older was deleted by spark_metrics.retention.
create table if not exists stream_views (
    view       text        primary key,
    since      timestamptz not null,
    kept_since timestamptz not null default '-infinity'
);

-- bucket       where a window of 15 minutes ends; there is one a minute
-- count_total  notifications of these 15 minutes
create table if not exists trending (
    bucket      timestamptz not null,
    club_id     bigint      not null,
    type        text        not null,
    channel     text        not null,
    measure     text        not null,
    count_total bigint      not null,
    primary key (bucket, club_id, type, channel, measure)
);

-- A batch's rows of all views on their way; row: an object of the view's columns.
create unlogged table if not exists staging_views (
    attempt bigint  not null,
    part    integer not null,
    try     integer not null,
    view    text    not null,
    row     jsonb   not null
);
