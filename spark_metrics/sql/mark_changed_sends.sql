-- Readers look for changes of sends by this column.
update sends set changed_xid = pg_current_xact_id() where send_id in (select send_id from {diff})
