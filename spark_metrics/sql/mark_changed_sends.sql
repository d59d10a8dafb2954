-- Readers look for changes of sends in this table.
insert into send_changes (changed_xid, send_id)
select pg_current_xact_id(), send_id from sends where send_id in (select send_id from {diff})
