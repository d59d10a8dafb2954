-- Returns the number of late records: those of minutes that are already complete.
with late as (
    select to_timestamp(minute_s) as minute, club_id, sum(records) as records, coalesce(sum(count_total), 0) as total
    from batch_counts, batch_lane
    where to_timestamp(minute_s + 60) <= complete_before
    group by 1, 2
    order by 1, 2
),
revised as (
    insert into revised_minutes as r (minute, club_id, lane, revised_at, late_records, late_total)
    select minute, club_id, (select lane from batch_lane), now(), records, total from late order by minute, club_id
    on conflict (minute, club_id, lane) do update
        set revised_at = excluded.revised_at,
            late_records = r.late_records + excluded.late_records,
            late_total = r.late_total + excluded.late_total
)
select coalesce(sum(records), 0)::bigint from late
