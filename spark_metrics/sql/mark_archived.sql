update archive_batches
set committed_at = now(),
    remembers_since = greatest(
        %(at)s - make_interval(secs => %(window_s)s),
        (select forgotten_before from stream_status where stream = %(stream)s)
    )
where batch = %(attempt)s
