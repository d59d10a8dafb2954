-- The log of recipients in the form that is compared: for each send and status, sums that differ for almost any two sets of rows.
select send_id, channel, status, reason, count(*) as rows, sum(user_id)::numeric as users,
    sum(user_id % 1000003 * (extract(epoch from at) * 1000)::bigint % 1000003) as checksum
from recipient_log
where at >= {first} and at < {end} and at >= {kept_since}
group by send_id, channel, status, reason
