-- Returns the number of late records: those of minutes that are already complete.
with late as (
    select to_timestamp(minute_s) as minute, club_id, sum(records) as records, coalesce(sum(count_total), 0) as total
    from batch_counts, stream_watermark as w
    where w.stream = %(stream)s
        and to_timestamp(minute_s + 60) + make_interval(secs => w.grace_ms / 1000.0) <= w.watermark
    group by 1, 2
    order by 1, 2
),
revised as (
    insert into revised_minutes as r (minute, club_id, revised_at, late_records, late_total)
    select minute, club_id, now(), records, total from late order by minute, club_id
    on conflict (minute, club_id) do update
        set revised_at = excluded.revised_at,
            late_records = r.late_records + excluded.late_records,
            late_total = r.late_total + excluded.late_total
)
select coalesce(sum(records), 0)::bigint from late
