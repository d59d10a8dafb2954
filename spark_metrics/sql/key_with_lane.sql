-- A view's table of a version whose keys had no lane gets one, as in schemas/tables/08_lanes.sql.
alter table {table} add column lane integer not null default -1, drop constraint {constraint}, add primary key ({names}, lane)
