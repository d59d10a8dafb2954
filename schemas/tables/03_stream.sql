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
-- input_rate: records merged a second between the last two looks
alter table stream_status add column if not exists late bigint;
alter table stream_status add column if not exists lags jsonb;
alter table stream_status add column if not exists input_rate double precision;
-- archive_id: the mark of the archive of this database's records (spark_metrics.archive_mark); null: no archive
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

-- The deterministic ids of the records that each merge counted: a redelivering function produces the same id at another offset.
-- source: send, delivery or outcome; ids are unique inside a source, 16 bytes each; counted_at: when the batch began. Rows older than
-- the redelivery window have no effect and are deleted from time to time.
create table if not exists counted_batches (
    source     text        not null,
    counted_at timestamptz not null,
    ids        bytea       not null
);
alter table counted_batches alter column ids set storage external; -- random bytes cannot be compressed
create index if not exists counted_batches_at on counted_batches (counted_at);
-- In the previous form each id had a row.
do $$ begin
    if exists (select from pg_class where oid = to_regclass('counted_records') and relkind in ('r', 'p')) then
        insert into counted_batches (source, counted_at, ids)
            select source, counted_at, string_agg(uuid_send(record_id), ''::bytea) from counted_records group by source, counted_at;
        drop table counted_records;
    end if;
end $$;

-- The same ids, one a row with an index (spark_metrics.counted_ids). Unlogged: a crash of the server empties the tables, and the job
-- loads them again before the next merge. counted_ids_loaded has a row while they are complete.
-- Vacuum is off for inserts: it would only mark pages for sequential scans, which never happen.
create unlogged table if not exists counted_sends (record_id uuid not null) with (autovacuum_vacuum_insert_threshold = -1);
create unlogged table if not exists counted_deliveries (record_id uuid not null) with (autovacuum_vacuum_insert_threshold = -1);
create unlogged table if not exists counted_outcomes (record_id uuid not null) with (autovacuum_vacuum_insert_threshold = -1);
create unlogged table if not exists counted_others (source text not null, record_id uuid not null) with (autovacuum_vacuum_insert_threshold = -1);
create unique index if not exists counted_sends_id on counted_sends (record_id);
create unique index if not exists counted_deliveries_id on counted_deliveries (record_id);
create unique index if not exists counted_outcomes_id on counted_outcomes (record_id);
create unique index if not exists counted_others_id on counted_others (record_id, source);
create unlogged table if not exists counted_ids_loaded (loaded boolean primary key);
create or replace view counted_records as
    select record_id, 'send'::text as source from counted_sends
    union all select record_id, 'delivery' from counted_deliveries
    union all select record_id, 'outcome' from counted_outcomes
    union all select record_id, source from counted_others;

-- Records that cannot be counted, by position. reason: a value of spark_metrics.problems.Problem.
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

-- Numbers of attempts, never used twice, also after a crash: later attempts have higher numbers.
create sequence if not exists staging_attempt_numbers;

-- A batch's part of the archive, by its attempt's number. Only parts with committed_at have counted records; the files of others
-- are removed before the next batch is archived. counted_at: as in counted_records.
create table if not exists archive_batches (
    batch        bigint      primary key,
    counted_at   timestamptz not null,
    committed_at timestamptz
);
-- remembers_since: an id that was counted before then was counted again by this batch; null in older ones: their window before
alter table archive_batches add column if not exists remembers_since timestamptz;

-- Files of an hour that were compacted. holds: the batches whose files of this hour are no longer read; removed: and are deleted.
create table if not exists archive_compactions (
    batch   bigint   primary key,
    date    date     not null,
    hour    text     not null,
    holds   bigint[] not null,
    removed boolean  not null default false
);

-- The staged rows of a micro-batch from spark_metrics.staging, never a row a recipient. Unlogged: a crash of the server empties the
-- tables, and the batch is staged again. attempt, part, try: the attempt, its task, and the run of the task.
-- Rows staged by an earlier version are staged again.
drop table if exists staging;
do $$ begin
    if to_regclass('staging_attempts') is not null and not exists (
        select from pg_attribute where attrelid = to_regclass('staging_ids') and attname = 'ids'
    ) then
        drop table if exists staging_attempts, staging_tasks, staging_ids, staging_states;
    end if;
end $$;

create unlogged table if not exists staging_tasks (
    attempt bigint  not null,
    part    integer not null,
    try     integer not null
);

create unlogged table if not exists staging_positions (
    attempt      bigint  not null,
    part         integer not null,
    try          integer not null,
    topic        text    not null,
    partition    integer not null,
    first_offset bigint  not null,
    last_offset  bigint  not null,
    records      bigint  not null
);

create unlogged table if not exists staging_problems (
    attempt      bigint  not null,
    part         integer not null,
    try          integer not null,
    topic        text    not null,
    partition    integer not null,
    kafka_offset bigint  not null,
    source       text    not null,
    schema_id    bigint,
    problem      text    not null
);

create unlogged table if not exists staging_redelivered (
    attempt      bigint  not null,
    part         integer not null,
    try          integer not null,
    topic        text    not null,
    partition    integer not null,
    kafka_offset bigint  not null,
    source       text    not null,
    record_id    uuid    not null
);

-- ids: 16 bytes each
create unlogged table if not exists staging_ids (
    attempt bigint  not null,
    part    integer not null,
    try     integer not null,
    source  text    not null,
    ids     bytea   not null
);
alter table staging_ids alter column ids set storage external;

create unlogged table if not exists staging_counts (
    attempt     bigint  not null,
    part        integer not null,
    try         integer not null,
    source      text    not null,
    send_id     text    not null,
    club_id     bigint  not null,
    type        text    not null,
    minute_s    bigint  not null,
    channel     text,
    measure     text,
    reason      text,
    count_total bigint,
    records     bigint  not null,
    first_ms    bigint  not null,
    chunk_count integer
);

-- The states of positions in the form of spark_metrics.states: runs with one status and reason, and lists that name their own.
create unlogged table if not exists staging_states (
    attempt     bigint  not null,
    part        integer not null,
    try         integer not null,
    send_id     text    not null,
    chunk_index integer not null,
    channel     text    not null,
    status      text    not null,
    reason      text,
    runs        bytea,
    listed      text
);

-- A row is inserted before an attempt is staged and deleted when it is merged. A server that crashed between the two has
-- emptied every unlogged table, so the absence of the row shows that the staged rows are lost.
create unlogged table if not exists staging_attempts (
    attempt    bigint      primary key,
    counted_at timestamptz not null default now()
);
