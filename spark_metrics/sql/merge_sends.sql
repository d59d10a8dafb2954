with changed as (
    insert into sends as s (send_id, club_id, type, requested_at, chunk_count, chunks, changed_at)
    select send_id,
        (array_agg(club_id order by case when source = 'send' then first_ms end, club_id, type collate "C"))[1],
        (array_agg(type order by case when source = 'send' then first_ms end, club_id, type collate "C"))[1],
        to_timestamp(min(first_ms) filter (where source = 'send') / 1000.0),
        max(chunk_count),
        coalesce(sum(records) filter (where source = 'send'), 0),
        %(counted_at)s
    from batch_counts
    group by send_id
    on conflict (send_id) do update
        -- If chunks disagree, the values of the earliest request are stored, and of several such values the smallest. So the
        -- order in which chunks are counted does not matter.
        set (club_id, type) = (
                select one.club_id, one.type
                from (
                    values (s.requested_at, s.club_id, s.type), (excluded.requested_at, excluded.club_id, excluded.type)
                ) as one (requested_at, club_id, type)
                order by one.requested_at nulls last, one.club_id, one.type collate "C"
                limit 1
            ),
            requested_at = least(s.requested_at, excluded.requested_at),
            chunk_count = greatest(s.chunk_count, excluded.chunk_count),
            chunks = s.chunks + excluded.chunks,
            changed_at = excluded.changed_at
    returning send_id
)
-- The partition is that of the batch's time.
insert into send_changes (changed_xid, send_id, changed_at)
select pg_current_xact_id(), send_id, %(counted_at)s from changed
