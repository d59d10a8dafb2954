-- The partitions of a table but its default one, also those that an interrupted run has detached. The first one has no beginning.
select relname, case when relname !~ '_until_' then day end,
    case when relname ~ '_until_' then day else day + ('1 ' || %(step)s)::interval end,
    inhrelid is not null, coalesce(inhdetachpending, false)
from pg_class left join pg_inherits on inhrelid = pg_class.oid
    cross join lateral to_timestamp(right(relname, 8), 'YYYYMMDD') as day
where relkind = 'r' and relnamespace = (select relnamespace from pg_class where oid = %(table)s::regclass)
    and relname ~ ('^' || %(table)s || '_(until_)?[0-9]{8}$')
order by 1
