-- Stores the ids that are in no table of counted ids, in the order of the index, and returns them.
insert into {latest} (record_id, source)
select record_id, %(source)s
from unnest(%(ids)s::uuid[]) as b (record_id)
where {not_earlier}
order by record_id
on conflict do nothing
returning record_id
