-- Messages with events to the endpoints of webhooks: their counts and their log. Written by spark_metrics, read by metrics_handler.
--
-- An attempt is one message of one request: a request with ten messages has ten results.
--
-- club_id            the tenant of the event
-- status             of the attempt: delivered, retried (another follows) or given_up (masscomm.domain.webhooks.AttemptResult)
-- count_total        number of attempts
-- duration_ms_total  sum of their durations
-- lane               as in 01_counts.sql
create table if not exists webhook_counts_minute (
    bucket            timestamptz not null,
    club_id           bigint      not null,
    endpoint_id       text        not null,
    type              text        not null,
    status            text        not null,
    count_total       bigint      not null,
    duration_ms_total bigint      not null,
    lane              integer     not null default -1,
    -- A query is for one endpoint and a range of buckets, which Postgres reads one after the other.
    primary key (bucket, endpoint_id, club_id, type, status, lane)
) partition by range (bucket);
create table if not exists webhook_counts_minute_other partition of webhook_counts_minute default;

-- fillfactor: as in 01_counts.sql.
create table if not exists webhook_counts_hour (like webhook_counts_minute including all) partition by range (bucket);
create table if not exists webhook_counts_hour_other partition of webhook_counts_hour default with (fillfactor = 50);
create table if not exists webhook_counts_day (like webhook_counts_minute including all) partition by range (bucket);
create table if not exists webhook_counts_day_other partition of webhook_counts_day default with (fillfactor = 50);

-- A row an attempt: each one that failed or was not the first, and the first successes of each endpoint and hour
-- (spark_metrics.counting.webhook_results).
--
-- at           time of the attempt
-- attempt      its number, from 1
-- http_status  null if there was no response
-- error        why there was no response, or no attempt; '' otherwise
create table if not exists webhook_log (
    endpoint_id text             not null,
    at          timestamptz      not null,
    message_id  text collate "C" not null,
    attempt     integer          not null,
    club_id     bigint           not null,
    type        text             not null,
    status      text             not null,
    duration_ms integer          not null,
    event_id    text             not null,
    http_status integer,
    error       text             not null,
    primary key (endpoint_id, at, message_id, attempt)
) partition by range (at);
create table if not exists webhook_log_other partition of webhook_log default;
-- The attempts of a message.
create index if not exists webhook_log_messages on webhook_log (endpoint_id, message_id, at);
-- The first successes of an endpoint's hour.
create index if not exists webhook_log_first on webhook_log (endpoint_id, at, message_id) where status = 'delivered' and attempt = 1;
