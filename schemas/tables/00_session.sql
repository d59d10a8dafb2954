-- What each session begins with that the role which makes these tables opens here: the job's, where it has no user of
-- its own. It cannot say so when it connects: RDS Proxy refuses start-up options. provisioning/database.py sets the same
-- for a user of its own.
--
-- timezone: days are UTC's; jit: compiling a statement that runs once a second for milliseconds costs more than it gives.
do $$
begin
    execute format('alter role %I in database %I set timezone = %L', current_user, current_database(), 'UTC');
    execute format('alter role %I in database %I set jit = off', current_user, current_database());
end
$$;
