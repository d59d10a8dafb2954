-- The watermark must not fall if the clock of this server is behind that of the previous one, after a failover.
insert into stream_watermark (stream, watermark, updated_at, grace_ms)
values (%(stream)s, to_timestamp(%(ms)s / 1000.0), now(), %(grace_ms)s)
on conflict (stream) do update
    set watermark = greatest(stream_watermark.watermark, excluded.watermark), updated_at = excluded.updated_at,
        grace_ms = excluded.grace_ms
