insert into {table} as t ({columns})
select {values}
from batch_counts
where {where}
group by {keys}
order by {keys}
on conflict ({names}) do update set {added}
