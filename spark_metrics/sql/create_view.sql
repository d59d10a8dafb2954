create table {table} as
select {values}
from (select *{labels} from {source}) as counts
group by {keys}
with no data;
alter table {table} add lane integer not null default -1, add primary key ({names}, lane);
