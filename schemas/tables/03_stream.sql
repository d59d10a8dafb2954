-- The streaming job's own tables: they make replays add nothing, and have the job's progress.

-- One row a stream (there is one, `metrics`).
--
-- epoch        incremented by each driver that starts; a driver with an older epoch has been replaced and must stop
-- state        waiting, running, stopped
-- started_at   when the present driver began; ready_at: when its query first ran
-- batch_id     Spark's number of the last merged micro-batch; records, refused (ids counted before), quarantined, replayed
--              (positions consumed before), late (their minute was complete already): numbers of that batch
-- lag          records in the topics that were not merged at the last look; end_offsets: {topic: {partition: offset}}
-- lags         {topic: {partition: records not merged}}; input_rate: records a second that the last batch has read
-- archive_id   the mark of the archive of this database's records (spark_metrics.archive.mark); null: no archive
-- database_bytes: the size of the database at the last daily run, sized_at
-- forgotten_before: ids that were counted before this time are forgotten, for any present redelivery window
create table if not exists stream_status (
    stream      text        primary key,
    epoch       bigint      not null default 0,
    state       text        not null default 'waiting',
    started_at  timestamptz,
    ready_at    timestamptz,
    batch_id    bigint,
    finished_at timestamptz,
    batch_ms    bigint,
    records     bigint,
    refused     bigint,
    quarantined bigint,
    replayed    bigint,
    lag         bigint,
    end_offsets jsonb,
    late        bigint,
    lags        jsonb,
    input_rate  double precision,
    archive_id  uuid,
    forgotten_before timestamptz,
    database_bytes bigint,
    sized_at timestamptz
);
alter table stream_status add column if not exists database_bytes bigint, add column if not exists sized_at timestamptz;

-- watermark: every record that was in the topics at this time of the driver's clock is counted (or quarantined). A bucket is complete
-- when the watermark has passed its end and the grace after it: an idle partition delays nothing.
create table if not exists stream_watermark (
    stream     text        primary key,
    watermark  timestamptz not null,
    updated_at timestamptz not null,
    grace_ms   bigint      not null default 0
);

-- Minutes of a club that changed after they were complete. An hour or a day was revised when the last of its minutes was revised.
--
-- late_records, late_total: late records, and the notifications that they counted (under every measure)
-- lane: the lane that counted them; -1: a recompute
create table if not exists revised_minutes (
    minute       timestamptz not null,
    club_id      bigint      not null,
    revised_at   timestamptz not null,
    late_records bigint      not null,
    late_total   bigint      not null,
    lane         integer     not null default -1,
    primary key (minute, club_id, lane)
) partition by range (minute);
create table if not exists revised_minutes_other partition of revised_minutes default;

-- The topics whose positions are counted, with Kafka's ids: a topic that was deleted and created again has another id.
create table if not exists stream_topics (
    topic    text primary key,
    topic_id text not null
);

-- The first offset of each partition that is not merged yet: positions below it are replays.
create table if not exists stream_offsets (
    topic       text   not null,
    partition   integer not null,
    next_offset bigint not null,
    primary key (topic, partition)
);

-- What each lane has merged beyond stream_offsets: a batch is merged in lanes, each in a transaction of its own, and stream_offsets
-- moves when all lanes are merged. lanes: their number; lane: a hash of the send id modulo `lanes`. Every record of this lane below
-- next_offset is merged, even after a restart with another number of lanes.
create table if not exists lane_offsets (
    lanes       integer not null,
    lane        integer not null,
    topic       text    not null,
    partition   integer not null,
    next_offset bigint  not null,
    primary key (lanes, lane, topic, partition)
);

-- The tables with the deterministic ids of counted records: a redelivering function produces the same id at another offset. The job
-- creates and drops them (spark_metrics.counting.counted_ids), each with the columns record_id and source (the kind of the record).
-- since: when the first id was stored; new ids are stored in the latest table
create table if not exists counted_id_tables (
    name  text        primary key,
    since timestamptz not null
);

-- Records that cannot be counted, by position. reason: a value of spark_metrics.counting.problems.Problem.
create table if not exists quarantine (
    topic          text        not null,
    partition      integer     not null,
    kafka_offset   bigint      not null,
    reason         text        not null,
    schema_id      bigint,
    quarantined_at timestamptz not null default now(),
    primary key (topic, partition, kafka_offset)
);

-- Redelivered records, by position: records whose ids were counted before. A row is written in the transaction that refuses the
-- record. So the records that are counted are those below stream_offsets that are neither in `quarantine` nor in `redelivered`.
create table if not exists redelivered (
    topic        text        not null,
    partition    integer     not null,
    kafka_offset bigint      not null,
    source       text        not null,
    record_id    uuid        not null,
    refused_at   timestamptz not null default now(),
    primary key (topic, partition, kafka_offset, refused_at)
) partition by range (refused_at);
create table if not exists redelivered_other partition of redelivered default;

-- What spark_metrics.retention has deleted, so that neither recompute nor the API takes it for never counted. kept_since: counts of
-- earlier times are deleted; of `sends`, those whose first record was counted earlier, with their totals and states.
create table if not exists stream_retention (
    name       text        primary key,
    kept_since timestamptz not null
);

-- The tables into which the lanes of spark_metrics.recompute merge. Each run creates and drops them.
create schema if not exists recompute;
