-- A new view lacks earlier counts, unless the database has no counts yet.
insert into stream_views (view, since)
select name, case when exists (select from stream_offsets) then now() else '-infinity' end
from unnest(%s::text[]) as name
on conflict do nothing
