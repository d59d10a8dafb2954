-- Tables of versions whose keys had no lane get one: their rows are those of all lanes (-1). A table is locked while its new key is
-- made: 3 s for each million rows on a busy machine.
do $$
declare
    counted regclass;
    columns text;
begin
    foreach counted in array array[
        'counts_minute', 'counts_hour', 'counts_day', 'revised_minutes',
        'webhook_counts_minute', 'webhook_counts_hour', 'webhook_counts_day'
    ]::regclass[] loop
        continue when exists (select from pg_attribute where attrelid = counted and attname = 'lane');
        select string_agg(quote_ident(attname), ', ' order by array_position(conkey, attnum)) into columns
        from pg_constraint join pg_attribute on attrelid = conrelid and attnum = any(conkey)
        where conrelid = counted and contype = 'p';
        execute format(
            'alter table %s add column lane integer not null default -1, drop constraint %I, add primary key (%s, lane)',
            counted, (select conname from pg_constraint where conrelid = counted and contype = 'p'), columns
        );
    end loop;
end
$$;
