-- What became of each send. Written by spark_metrics only, read by metrics_handler.

-- One row a send, made by whichever of its records is counted first.
--
-- requested_at  the earliest timestamp of its chunks; null until a chunk is counted
-- chunk_count   how many chunks the send says it has; null until then
-- chunks        how many distinct chunks are counted
create table if not exists sends (
    send_id      text        primary key,
    club_id      bigint      not null,
    type         text        not null,
    requested_at timestamptz,
    chunk_count  integer,
    chunks       integer     not null default 0
);

-- What was asked for on a channel, and how much of it has been written for delivery.
--
-- requested   distinct users of each chunk
-- duplicates  users named again inside a chunk
-- queued      notifications that reached the delivery topic
create table if not exists send_channels (
    send_id    text   not null,
    channel    text   not null,
    requested  bigint not null default 0,
    duplicates bigint not null default 0,
    queued     bigint not null default 0,
    primary key (send_id, channel)
);

-- Notifications by what became of them: each notification stands in one row only, moved when a later outcome record says
-- more (masscomm.domain.statuses.merge: held then sent is sent, sent then delivered is delivered). reason: '' where the status needs
-- none, 'other' where spark_metrics.states does not know it.
create table if not exists send_totals (
    send_id     text   not null,
    channel     text   not null,
    status      text   not null,
    reason      text   not null,
    count_total bigint not null,
    primary key (send_id, channel, status, reason)
);

-- What send_totals sums: the status and reason of each notification, two bytes each (spark_metrics.states), a row for 512
-- positions of a chunk on a channel.
create table if not exists send_states (
    send_id     text     not null,
    chunk_index integer  not null,
    channel     text     not null,
    block       integer  not null,
    codes       bytea    not null,
    primary key (send_id, chunk_index, channel, block)
);
