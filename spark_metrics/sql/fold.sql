-- Adds the rows that several lanes have of one key to the row of all lanes. It waits for no lane: a row that one is updating stays.
-- Rows whose sum exceeds bigint stay.
with several as (
    select {key} from {table} where bucket >= %(first)s and bucket < %(end)s group by {key} having count(*) > 1 and {fits}
),
chosen as (
    select {key}, lane from {table} join several using ({key}) where lane >= 0 for update of {table} skip locked
),
moved as (
    delete from {table} using chosen where {same} and {table}.lane = chosen.lane returning {of_table}
)
insert into {table} as t ({key}, lane, {sums})
select {key}, -1, {summed} from moved group by {key} order by {key}
on conflict ({key}, lane) do update set {added}
