update stream_status
set batch_id = %(batch_id)s, finished_at = clock_timestamp(), batch_ms = %(batch_ms)s, records = %(records)s,
    refused = %(refused)s, quarantined = %(quarantined)s, replayed = %(replayed)s, late = %(late)s
where stream = %(stream)s
