-- The tables of Iceberg's JDBC catalog, which Iceberg creates itself: they name the current metadata file of the archive's table.
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
