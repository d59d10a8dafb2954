-- The streaming job's own tables: they make replays add nothing, and have the job's progress.

-- One row a stream (there is one, `metrics`).
--
-- epoch        incremented by each driver that starts; a driver with an older epoch has been replaced and must stop
-- state        waiting, running, stopped
-- started_at   when the present driver began; ready_at: when its query first ran
-- batch_id     Spark's number of the last merged micro-batch; records, refused (ids counted before), quarantined, replayed
--              (positions consumed before): numbers of that batch
-- lag          records in the topics that were not merged at the last look; end_offsets: {topic: {partition: offset}}
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
    end_offsets jsonb
);

-- watermark: every record that was in the topics at this time of the driver's clock is counted (or quarantined).
create table if not exists stream_watermark (
    stream     text        primary key,
    watermark  timestamptz not null,
    updated_at timestamptz not null
);

-- late: records of the last batch whose minute was complete already; lags: {topic: {partition: records not merged}};
-- input_rate: records a second that the last batch has read
alter table stream_status add column if not exists late bigint;
alter table stream_status add column if not exists lags jsonb;
alter table stream_status add column if not exists input_rate double precision;
-- archive_id: the mark of the archive of this database's records (spark_metrics.archive.mark); null: no archive
alter table stream_status add column if not exists archive_id uuid;
-- forgotten_before: ids that were counted before this time are forgotten, for any present redelivery window
alter table stream_status add column if not exists forgotten_before timestamptz;

-- A bucket is complete when the watermark has passed its end and the grace after it: every record that was in the topics then is
-- counted, and an idle partition delays nothing.
alter table stream_watermark add column if not exists grace_ms bigint not null default 0;

-- Minutes of a club that changed after they were complete. An hour or a day was revised when the last of its minutes was revised.
--
-- club_id                   0 if the row is older than this column
-- late_records, late_total: late records, and the notifications that they counted (under every measure)
create table if not exists revised_minutes (
    minute       timestamptz not null,
    club_id      bigint      not null,
    revised_at   timestamptz not null,
    late_records bigint      not null,
    late_total   bigint      not null,
    primary key (minute, club_id)
);
do $$ begin
    if not exists (
        select from information_schema.columns
        where table_schema = current_schema and table_name = 'revised_minutes' and column_name = 'club_id'
    ) then
        alter table revised_minutes add column club_id bigint not null default 0;
        alter table revised_minutes alter column club_id drop default;
        alter table revised_minutes drop constraint revised_minutes_pkey;
        alter table revised_minutes add primary key (minute, club_id);
    end if;
end $$;

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
-- next_offset is merged, also after a restart with another number of lanes.
create table if not exists lane_offsets (
    lanes       integer not null,
    lane        integer not null,
    topic       text    not null,
    partition   integer not null,
    next_offset bigint  not null,
    primary key (lanes, lane, topic, partition)
);

-- The tables with the deterministic ids of counted records: a redelivering function produces the same id at another offset. The job
-- creates and drops them (spark_metrics.counting.counted_ids), each with the columns record_id and source (send, delivery or outcome).
-- since: when the first id was stored; new ids are stored in the latest table
create table if not exists counted_id_tables (
    name  text        primary key,
    since timestamptz not null
);
-- Earlier versions stored the ids packed by batch, and before that a row each in counted_records.
do $$
declare
    first timestamptz;
begin
    if to_regclass('counted_batches') is not null
        or exists (select from pg_class where oid = to_regclass('counted_records') and relkind in ('r', 'p'))
    then
        create table counted_ids_earlier (record_id uuid not null, source text not null);
        if to_regclass('counted_batches') is not null then
            insert into counted_ids_earlier (record_id, source)
                select encode(substring(ids from 16 * n + 1 for 16), 'hex')::uuid, source
                from counted_batches, generate_series(0, length(ids) / 16 - 1) as n;
            select min(counted_at) into first from counted_batches;
        else
            insert into counted_ids_earlier (record_id, source) select record_id, source from counted_records;
            select min(counted_at) into first from counted_records;
        end if;
        delete from counted_ids_earlier as twice using counted_ids_earlier as id
            where twice.record_id = id.record_id and twice.source = id.source and twice.ctid > id.ctid;
        create unique index counted_ids_earlier_id on counted_ids_earlier (record_id, source);
        insert into counted_id_tables (name, since) values ('counted_ids_earlier', coalesce(first, now()));
        if exists (select from pg_class where oid = to_regclass('counted_records') and relkind = 'v') then
            drop view counted_records;
        else
            drop table if exists counted_records;
        end if;
        drop table if exists
            counted_batches, counted_sends, counted_deliveries, counted_outcomes, counted_others, counted_ids_loaded;
    end if;
end $$;

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
    primary key (topic, partition, kafka_offset)
);

-- Earlier versions staged the rows of a batch. Such a batch is counted again from stream_offsets.
drop table if exists
    staging, staging_attempts, staging_tasks, staging_positions, staging_problems, staging_redelivered, staging_ids, staging_counts,
    staging_states, staging_views, staging_recipients;

-- The tables into which the lanes of spark_metrics.recompute merge. Each run creates and drops them.
create schema if not exists recompute;
