-- Stores the size of the database at most once an hour, and returns the earlier size, the present one and the days between them.
with before as (select stream, database_bytes, sized_at from stream_status where stream = %(stream)s for update),
stored as (
    update stream_status as s set database_bytes = pg_database_size(current_database()), sized_at = now()
    from before
    where s.stream = before.stream and (before.sized_at is null or before.sized_at < now() - interval '1 hour')
)
select database_bytes, pg_database_size(current_database()), extract(epoch from now() - sized_at) / 86400 from before
