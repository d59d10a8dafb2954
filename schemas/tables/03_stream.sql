-- The streaming job's own tables: what makes a replay add nothing, and how far it has come.

-- One row a stream (there is one, `metrics`).
--
-- epoch        grows by one with each driver that starts; a driver whose epoch is no longer here has been replaced and must stop
-- state        waiting, running, stopped
-- started_at   when the present driver began; ready_at: when its query first ran
-- batch_id     Spark's, of the last merged micro-batch; records, refused (ids counted before), quarantined, replayed (positions
--              consumed before): of that batch
-- lag          records that stood in the topics and were not merged, when last looked at; end_offsets: {topic: {partition: offset}}
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

-- watermark: every record that stood in the topics at this instant of the driver's clock is counted (or quarantined).
create table if not exists stream_watermark (
    stream     text        primary key,
    watermark  timestamptz not null,
    updated_at timestamptz not null
);

-- The first offset of each partition that is not merged yet: positions below it are replays.
create table if not exists stream_offsets (
    topic       text   not null,
    partition   integer not null,
    next_offset bigint not null,
    primary key (topic, partition)
);

-- Every record that is counted, by its deterministic id: a redelivering function produces the same id at another offset.
-- source: send, delivery or outcome; ids are unique inside one.
create table if not exists counted_records (
    record_id  uuid        not null,
    source     text        not null,
    counted_at timestamptz not null default now(),
    primary key (record_id, source)
);

-- Records that cannot be counted, by position. reason: a word of spark_metrics.transforms.Problem.
create table if not exists quarantine (
    topic          text        not null,
    partition      integer     not null,
    kafka_offset   bigint      not null,
    reason         text        not null,
    schema_id      bigint,
    quarantined_at timestamptz not null default now(),
    primary key (topic, partition, kafka_offset)
);

-- A micro-batch on its way: a row a record and measure, never a row a recipient. Unlogged: a crash of the server empties it, and
-- the batch is staged again.
create unlogged table if not exists staging (
    attempt      text    not null,
    topic        text    not null,
    partition    integer not null,
    kafka_offset bigint  not null,
    ordinal      integer not null,
    source       text    not null,
    schema_id    bigint,
    problem      text,
    record_id    text,
    send_id      text,
    club_id      bigint,
    type         text,
    at_ms        bigint,
    chunk_count  integer,
    channel      text,
    measure      text,
    reason       text,
    count_total  bigint
);
create index if not exists staging_attempt on staging (attempt);

-- A row is put here before an attempt is staged and looked for when it is merged. A server that crashed between the two has
-- emptied every unlogged table, so its absence says that staged rows are gone.
create unlogged table if not exists staging_attempts (
    attempt    text        primary key,
    started_at timestamptz not null default now()
);
