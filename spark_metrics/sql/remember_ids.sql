insert into counted_batches (source, counted_at, ids)
select source, %(at)s, string_agg(ids, ''::bytea) from staging_ids where attempt = %(attempt)s group by source
