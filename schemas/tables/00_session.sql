-- Session settings of the role that creates these tables, for its sessions in this database. The job uses this role if it has no
-- user of its own. The job cannot set them when it connects: RDS Proxy rejects start-up options. ops/provisioning/database.py sets the
-- same for a separate user.
--
-- timezone: days are UTC's; jit: compiling a statement that runs for milliseconds once a second costs more than it saves.
do $$
begin
    execute format('alter role %I in database %I set timezone = %L', current_user, current_database(), 'UTC');
    execute format('alter role %I in database %I set jit = off', current_user, current_database());
end
$$;
