insert into recipient_log (user_id, at, send_id, channel, club_id, type, status, reason, counted_at, decision)
select user_id, to_timestamp(at_ms / 1000.0), send_id, channel, club_id, type, status, coalesce(reason, ''), %s, decision
from batch_recipients, unnest(user_ids) as user_id
