-- A send that a lane is changing, or has changed since, stays: its row is locked first, here and by a lane.
with old as (
    select send_id from sends where send_id = any(%(send_ids)s) and changed_at < %(before)s for update skip locked
),
of_sends as (delete from sends using old where sends.send_id = old.send_id),
of_channels as (delete from send_channels using old where send_channels.send_id = old.send_id),
of_totals as (delete from send_totals using old where send_totals.send_id = old.send_id),
of_states as (delete from send_states using old where send_states.send_id = old.send_id)
select count(*) from old
