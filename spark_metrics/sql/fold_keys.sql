-- As fold, for the keys that a table has. No lane is running.
with moved as (
    delete from {table} using {keys} as chosen where {same} and {table}.lane >= 0 returning {of_table}
)
insert into {table} as t ({key}, lane, {sums})
select {key}, -1, {summed} from moved group by {key} order by {key}
on conflict ({key}, lane) do update set {added}
