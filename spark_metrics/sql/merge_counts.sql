-- One grain: {table} has buckets of {seconds} seconds. In the order of the key: several lanes update one row.
insert into {table} as c (bucket, club_id, type, channel, measure, count_total)
select to_timestamp(minute_s / {seconds} * {seconds}), club_id, type, channel, measure, sum(count_total)
from batch_counts
where count_total > 0
group by 1, 2, 3, 4, 5
order by 1, 2, 3, 4, 5
on conflict (bucket, club_id, type, channel, measure) do update set count_total = c.count_total + excluded.count_total
