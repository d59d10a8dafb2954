-- The temporary tables of a lane (spark_metrics.counting.lane_merge); they are empty at the end of each transaction.
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
