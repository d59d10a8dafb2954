-- The state of each send. Written by spark_metrics only, read by sends_api.

-- One row a send, created by the first of its records that is counted.
--
-- requested_at  the earliest timestamp of its chunks; null until a chunk is counted
-- chunk_count   number of chunks by the send's own field; null until then
-- chunks        number of distinct chunks that are counted
-- changed_xid   the transaction that last counted a record of the send, for the events of webhooks
-- counted_at    when the first record of the send was counted
create table if not exists sends (
    send_id      text        primary key,
    club_id      bigint      not null,
    type         text        not null,
    requested_at timestamptz,
    chunk_count  integer,
    chunks       integer     not null default 0,
    changed_xid  xid8,
    counted_at   timestamptz not null default now()
);

-- The list of a club's sends, the latest first.
create index if not exists sends_of_club on sends (club_id, requested_at, send_id collate "C");

-- The list of every club's sends, the latest first.
create index if not exists sends_by_time on sends (requested_at, send_id collate "C");

create index if not exists sends_changed on sends (changed_xid, send_id collate "C");

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
