insert into {table} as t ({columns})
select {values}
from (select *{labels} from batch_counts) as counts
where {where}
group by {keys}
order by {keys}
on conflict ({names}) do update set {added}
