-- The tables of Iceberg's JDBC catalog, which Iceberg creates itself: they name the current metadata file of the archive's table,
-- masscomm.records of the catalog `archive`.
-- Installations with AWS Glue as their catalog leave this schema empty.
create schema if not exists archive_catalog;
