select send_id, chunk_index, channel, status, reason, runs, listed from staging_states where attempt = %s
