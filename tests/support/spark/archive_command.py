"""Maintains the archive, or erases a user in it, as a process that a test can kill:

    python -m tests.support.spark.archive_command maintain NOW KEPT_SINCE
    python -m tests.support.spark.archive_command erase CLUB_ID USER_ID

The settings are the environment variables of the job.
"""

import sys
from datetime import datetime, timedelta

from ops.erasure.person import ERASED_USER
from spark_metrics.archive.table import ArchiveTable
from spark_metrics.common.session import spark_session
from spark_metrics.common.settings import settings_from
from spark_metrics.maintenance import maintain

SNAPSHOTS = timedelta(hours=1)


def main(command: str, first: str, second: str) -> None:
    settings = settings_from()
    spark = spark_session(settings)
    table = ArchiveTable(spark, settings)
    if command == "maintain":
        now = datetime.fromisoformat(first)
        maintain(table, now, snapshots=SNAPSHOTS, keep=now - datetime.fromisoformat(second))
    else:
        table.replace_user(int(first), int(second), ERASED_USER)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
