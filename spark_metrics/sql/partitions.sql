-- The partitions of a table but its default one, including those that an interrupted run has detached.
select relname, day, day + ('1 ' || %(step)s)::interval, inhrelid is not null, coalesce(inhdetachpending, false)
from pg_class left join pg_inherits on inhrelid = pg_class.oid
    cross join lateral to_timestamp(right(relname, 8), 'YYYYMMDD') as day
where relkind = 'r' and relnamespace = (select relnamespace from pg_class where oid = %(table)s::regclass)
    and relname ~ ('^' || %(table)s || '_[0-9]{8}$')
order by 1
