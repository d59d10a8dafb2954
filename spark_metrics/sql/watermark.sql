-- The watermark must not fall if this driver's clock is behind that of the previous driver.
insert into stream_watermark (stream, watermark, updated_at, grace_ms)
values (%(stream)s, to_timestamp(%(ms)s / 1000.0), now(), %(grace_ms)s)
on conflict (stream) do update
    set watermark = greatest(stream_watermark.watermark, excluded.watermark), updated_at = excluded.updated_at,
        grace_ms = excluded.grace_ms
