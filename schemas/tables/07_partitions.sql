-- Tables that grow with time are partitioned by it, so that spark_metrics.retention drops old rows as whole tables:
--
--   T_until_20261201   all rows before this day (UTC); an earlier version's whole table
--   T_20261201         a month or a year that begins on this day; the job makes it beforehand (spark_metrics.counting.partitions)
--   T_other            times without a partition, such as those of a wrong clock
--
-- A table that is not partitioned yet becomes its own first partition: its rows are read once, and not written again.
do $$
declare
    part    record;
    until   timestamptz;
    earlier text;
begin
    if not exists (
        select from pg_class
        where relkind = 'r'
            and oid in (
                'counts_minute'::regclass, 'counts_hour'::regclass, 'counts_day'::regclass, 'revised_minutes'::regclass,
                'redelivered'::regclass
            )
    ) then
        return;
    end if;
    -- A running job ends its transactions first, and begins none meanwhile.
    lock table stream_status in access exclusive mode;
    for part in
        select *
        from (
            values ('counts_minute', 'bucket', 'month'), ('counts_hour', 'bucket', 'month'), ('counts_day', 'bucket', 'year'),
                ('revised_minutes', 'minute', 'month'), ('redelivered', 'refused_at', 'month')
        ) as p (name, at, step)
    loop
        continue when (select relkind from pg_class where oid = to_regclass(part.name)) <> 'r';
        until := (date_trunc(part.step, (now() + interval '3 days') at time zone 'UTC') + ('1 ' || part.step)::interval)
            at time zone 'UTC';
        earlier := part.name || '_until_' || to_char(until at time zone 'UTC', 'YYYYMMDD');
        if part.name = 'redelivered' then
            -- The key of a partitioned table has the time.
            alter table redelivered drop constraint redelivered_pkey;
            alter table redelivered add primary key (topic, partition, kafka_offset, refused_at);
        end if;
        execute format('alter table %I rename to %I', part.name, earlier);
        execute format('alter index %I rename to %I', part.name || '_pkey', earlier || '_pkey');
        execute format('create table %I (like %I including all) partition by range (%I)', part.name, earlier, part.at);
        execute format('create table %I partition of %I default', part.name || '_other', part.name);
        execute format(
            'with ahead as (delete from %I where %I >= %L returning *) insert into %I select * from ahead',
            earlier, part.at, until, part.name
        );
        execute format('alter table %I attach partition %I for values from (minvalue) to (%L)', part.name, earlier, until);
    end loop;
end $$;

-- What spark_metrics.retention has deleted, so that neither recompute nor the API takes it for never counted. kept_since: counts of
-- earlier times are deleted; of `sends`, those whose first record was counted earlier, with their totals and states.
create table if not exists stream_retention (
    name       text        primary key,
    kept_since timestamptz not null
);
