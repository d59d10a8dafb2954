update archive_batches set committed_at = now(), remembers_since = %(since)s where batch = %(number)s
