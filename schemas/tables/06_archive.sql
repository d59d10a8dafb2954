-- The tables of Iceberg's JDBC catalog, which Iceberg creates itself: they name the current metadata file of the archive's table,
-- masscomm.records of the catalog `archive`.
-- Installations with AWS Glue as their catalog leave this schema empty.
create schema if not exists archive_catalog;

-- Earlier versions archived each batch as Parquet files. spark_metrics.move_archive moves them into the table, and empties these tables.
do $$ begin
    if to_regclass('archive_batches') is not null then
        if not exists (select from archive_batches) then
            drop table archive_batches;
            drop table if exists archive_compactions;
            drop sequence if exists staging_attempt_numbers;
        end if;
    end if;
end $$;

-- Earlier versions named the catalog by a checksum of the server's address and password, so a table could be created again under a
-- second name after one of them had changed. The table with the most commits, whose number begins the name of its metadata file,
-- gets the name of today. Other rows stay, and nothing reads them.
do $$ begin
    if to_regclass('archive_catalog.iceberg_tables') is not null then
        update archive_catalog.iceberg_tables as t set catalog_name = 'archive'
        from (
            select distinct on (table_namespace, table_name) catalog_name, table_namespace, table_name
            from archive_catalog.iceberg_tables
            where catalog_name ~ '^archive_[0-9a-f]{8}$'
            order by table_namespace, table_name, substring(metadata_location from '([0-9]+)-[^/]*$')::bigint desc nulls last
        ) as longest
        where (t.catalog_name, t.table_namespace, t.table_name)
            = (longest.catalog_name, longest.table_namespace, longest.table_name)
            and not exists (
                select from archive_catalog.iceberg_tables as named
                where (named.catalog_name, named.table_namespace, named.table_name)
                    = ('archive', t.table_namespace, t.table_name)
            );
    end if;
end $$;
