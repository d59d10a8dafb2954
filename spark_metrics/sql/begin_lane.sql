insert into batch_lane (lane, complete_before)
select %(lane)s, (
    select watermark - make_interval(secs => grace_ms / 1000.0) from stream_watermark where stream = %(stream)s
)
