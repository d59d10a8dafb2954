-- Readers look for changes of complete minutes in this table.
insert into revised_minutes as r (minute, club_id, revised_at, late_records, late_total)
select distinct bucket, club_id, now(), 0, 0 from {diff}, stream_watermark as w
where bucket + interval '1 minute' + make_interval(secs => w.grace_ms / 1000.0) <= w.watermark
on conflict (minute, club_id, lane) do update set revised_at = excluded.revised_at
