-- The state of each send. Written by spark_metrics only, read by sends_api.

-- One row a send, created by the first of its records that is counted.
--
-- requested_at  the earliest timestamp of its chunks; null until a chunk is counted
-- chunk_count   number of chunks by the send's own field; null until then
-- chunks        number of distinct chunks that are counted
-- counted_at    when the first record of the send was counted
-- changed_at    when the latest record of the send was counted
create table if not exists sends (
    send_id      text        primary key,
    club_id      bigint      not null,
    type         text        not null,
    requested_at timestamptz,
    chunk_count  integer,
    chunks       integer     not null default 0,
    counted_at   timestamptz not null default now(),
    changed_at   timestamptz not null default now()
);
-- Version 0.1.0 does not have it. Its sends changed at the upgrade at the latest.
alter table sends add column if not exists changed_at timestamptz not null default now();

-- The changes of sends, for the events of webhooks: a row for each transaction that counts records of the send. A day is dropped as a
-- whole. As columns of `sends` they would need an index, and each update of a send would write all of its indexes.
--
-- changed_xid  the transaction
create table if not exists send_changes (
    changed_xid xid8        not null,
    send_id     text        not null,
    changed_at  timestamptz not null default now()
) partition by range (changed_at);
create table if not exists send_changes_other partition of send_changes default;
create index if not exists send_changes_in_order on send_changes (changed_xid, send_id collate "C");

-- The records of a send follow each other within seconds, in several batches. With room for them in its page, an update writes no index
-- entry.
alter table sends set (fillfactor = 50);

-- The list of a club's sends, the latest first.
create index if not exists sends_of_club on sends (club_id, requested_at, send_id collate "C");

-- The list of every club's sends, the latest first.
create index if not exists sends_by_time on sends (requested_at, send_id collate "C");

-- Version 0.1.0 has the last change of each send in a column. webhook_events reads each minute, so the latest ones are enough.
do $$
begin
    if to_regclass('sends_changed') is not null then
        insert into send_changes (changed_xid, send_id)
        select changed_xid, send_id from sends where changed_xid is not null order by changed_xid desc limit 1000000;
        drop index sends_changed;
    end if;
end
$$;

-- The requested notifications on a channel, and the number of them that were written for delivery.
--
-- requested   distinct users of each chunk
-- duplicates  users repeated inside a chunk
-- queued      notifications that reached the delivery topic
create table if not exists send_channels (
    send_id    text   not null,
    channel    text   not null,
    requested  bigint not null default 0,
    duplicates bigint not null default 0,
    queued     bigint not null default 0,
    primary key (send_id, channel)
);

alter table send_channels set (fillfactor = 50);

-- Notifications by status: each notification is counted in one row only, and moved when a later outcome record changes its
-- status (masscomm.domain.statuses.merge: held then sent is sent, sent then delivered is delivered). reason: '' if the status needs
-- none, 'other' if masscomm.domain.notification_codes does not know it.
create table if not exists send_totals (
    send_id     text   not null,
    channel     text   not null,
    status      text   not null,
    reason      text   not null,
    count_total bigint not null,
    primary key (send_id, channel, status, reason)
);

-- The states that send_totals sums: the status and reason of each notification, two bytes each
-- (masscomm.domain.notification_codes), a row for 512 positions of a chunk on a channel.
create table if not exists send_states (
    send_id     text     not null,
    chunk_index integer  not null,
    channel     text     not null,
    block       integer  not null,
    codes       bytea    not null,
    primary key (send_id, chunk_index, channel, block)
);
