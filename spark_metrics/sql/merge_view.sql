insert into {table} as t ({columns})
select {keys}, {summed}
from (
    select (jsonb_populate_record(null::{table}, row)).* from staging_views where attempt = %s and view = %s
) as staged
group by {keys}
on conflict ({keys}) do update set {added}
