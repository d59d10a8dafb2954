insert into {table} as t ({columns}, lane)
select {columns}, {lane}
from (
    select {values}
    from (select *{labels} from {source}) as counts
    where {where}
    group by {keys}
) as sums
order by {keys}
on conflict ({names}, lane) do update set {added}
