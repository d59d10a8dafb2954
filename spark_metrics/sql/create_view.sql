create table {table} as
select {values}
from (select *{labels} from batch_counts) as counts
group by {keys}
with no data;
alter table {table} add primary key ({names})
