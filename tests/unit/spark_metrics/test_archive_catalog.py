"""The options of the archive's catalog."""

from spark_metrics.archive.iceberg import catalog_options
from spark_metrics.common.settings import Settings


def test_catalog_verifies_the_certificate_of_the_database() -> None:
    url = "postgresql://counter:secret@metrics.example/metrics?sslrootcert=/ca.pem"
    options = catalog_options(
        Settings(bootstrap_servers="", registry_url="", database_url=url, archive_dir="s3://bucket/archive")
    )
    assert options[".uri"] == "jdbc:postgresql://metrics.example:5432/metrics?currentSchema=archive_catalog"
    driver = {name: value for name, value in options.items() if name.startswith(".jdbc.ssl")}
    assert driver == {".jdbc.sslmode": "verify-full", ".jdbc.sslrootcert": "/ca.pem"}
