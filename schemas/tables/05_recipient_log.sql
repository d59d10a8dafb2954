-- The log of recipients: a row a recipient of each counted outcome record, if SPARK_RECIPIENT_LOG is on (recorded in stream_views).
-- Written by spark_metrics in the transaction that counts the record, read by sends_api.
--
-- user_id, send_id, channel  the notification; it has a row for each of its statuses
-- at                         time of this status: the record's own timestamp
-- reason                     '' if the status needs none
-- counted_at                 when its batch was counted. The partitions are its days (UTC): for any timestamps of its records, a batch
--                            is written to one partition, and a day is dropped as a whole (spark_metrics.retention)
-- decision                   the rule, layer and user settings (their version and the time of their newest change, in ms since the epoch)
--                            that determined the status; null if neither a rule nor settings did
create table if not exists recipient_log (
    user_id    bigint      not null,
    at         timestamptz not null,
    send_id    text        not null,
    channel    text        not null,
    club_id    bigint      not null,
    type       text        not null,
    status     text        not null,
    reason     text        not null,
    counted_at timestamptz not null,
    decision   jsonb
) partition by range (counted_at);
create index if not exists recipient_log_user on recipient_log (user_id);
-- The list of a send's recipients, by user.
create index if not exists recipient_log_send on recipient_log (send_id, user_id);
-- A recompute compares the events of a day. Rows are stored about in the order of their events, so a range of pages that has none of the
-- day is not read.
create index if not exists recipient_log_at on recipient_log using brin (at) with (pages_per_range = 16, autosummarize = on);
