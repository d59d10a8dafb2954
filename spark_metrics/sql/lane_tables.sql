-- The temporary tables of a lane (spark_metrics.counting.lane_merge); they are empty at the end of each transaction.
--
-- complete_before: the end of the buckets that were complete when the transaction began; null before the first watermark
create temporary table if not exists batch_lane (
    lane            integer     not null,
    complete_before timestamptz
) on commit delete rows;
create temporary table if not exists batch_counts (
    source      text    not null,
    send_id     text    not null,
    club_id     bigint  not null,
    type        text    not null,
    minute_s    bigint  not null,
    labels      jsonb,
    channel     text,
    measure     text,
    reason      text,
    count_total bigint,
    records     bigint  not null,
    first_ms    bigint  not null,
    chunk_count integer
) on commit delete rows;
create temporary table if not exists batch_latencies (
    minute_s    bigint   not null,
    type        text     not null,
    channel     text     not null,
    measure     text     not null,
    bin         smallint not null,
    count_total bigint   not null
) on commit delete rows;
create temporary table if not exists batch_webhooks (
    minute_s    bigint not null,
    club_id     bigint not null,
    endpoint_id text   not null,
    type        text   not null,
    status      text   not null,
    count_total bigint not null,
    duration_ms bigint not null
) on commit delete rows;
create temporary table if not exists batch_webhook_log (
    endpoint_id text             not null,
    at_ms       bigint           not null,
    message_id  text collate "C" not null,
    attempt     integer          not null,
    club_id     bigint           not null,
    type        text             not null,
    status      text             not null,
    duration_ms integer          not null,
    event_id    text             not null,
    http_status integer,
    error       text             not null
) on commit delete rows;
create temporary table if not exists batch_recipients (
    send_id  text     not null,
    club_id  bigint   not null,
    type     text     not null,
    channel  text     not null,
    status   text     not null,
    reason   text,
    decision jsonb,
    at_ms    bigint   not null,
    user_ids bigint[] not null
) on commit delete rows
