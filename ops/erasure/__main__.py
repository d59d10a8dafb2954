"""Erase one person of one tenant: `python -m ops.erasure --user 7 --club 3 [--addresses SOURCE]`.

Delete the user in the monolith first. The command does not change the monolith's tables, and change data capture would
restore the erased data. The command refuses while the directory still has the user, unless --even-if-known is given.

--addresses: where the person's e-mail addresses are that the directory no longer has, one a line: `-` for standard
input, else the name of a secret in Secrets Manager. Arguments would stay in histories of runs. The command finds
suppressions and delayed receipts by address.

The command prints the number of erased items in each store, and until when topics and backups keep other copies; with
--json, one JSON object. Exit status 0: done. 1: refused. 2: a store could not be reached; run the command again.
Metrics do not change. Records with the person's data that are still being processed can restore it: run the command
again after these sends have ended.

Configuration comes from the environment variables of the functions and the job. ERASURE_BACKUPS: the retention of each
backup and log in days, such as database-backups=14,logs=365.
"""

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
from botocore.exceptions import BotoCoreError, ClientError

from masscomm.aws import sdk
from masscomm.aws.client import DynamoDb
from masscomm.aws.request import Limits
from masscomm.directory.bulk_writes import connect_from_environment
from masscomm.errors import MasscommError, Stop
from masscomm.kafka.topics import cdc_topics, chain_topics
from masscomm.stores.event_types.dynamodb import DynamoDbEventTypes
from ops.erasure import metrics_store
from ops.erasure.command import Step, check, erase
from ops.erasure.delayed_records import DelayedRecords
from ops.erasure.item_tables import ItemTables
from ops.erasure.person import ERASED_USER, Person
from ops.erasure.personal_events import EventTables, PersonalEvents
from ops.erasure.remains import remaining_data
from ops.erasure.schedules import ScheduleItems
from ops.erasure.search_indices import SearchIndices
from spark_metrics.archive.mark import check_table, database_mark
from spark_metrics.archive.table import ArchiveTable
from spark_metrics.common.database import connect
from spark_metrics.common.session import spark_session
from spark_metrics.common.settings import Settings, settings_from

_log = logging.getLogger("erasure")


def main(arguments: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    chosen = _chosen(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for library in ("botocore", "py4j"):
        logging.getLogger(library).setLevel(logging.WARNING)
    person = Person(user_id=chosen.user, club_id=chosen.club)
    try:
        for address in addresses_of(chosen.addresses):
            person.learn_address(address)
        settings = settings_from(environ)
        indices = SearchIndices(
            connect_from_environment(), sdk.client("sns", Limits(connect_s=2, read_s=10, attempts=3))
        )
        with ExitStack() as resources:
            connection = resources.enter_context(connect(settings.database_url, "masscomm erase"))
            still_known = indices.learn(person)
            metrics_store.learn(connection, person)
            check(person, still_known=still_known, even_if_known=chosen.even_if_known)
            report = erase(
                person,
                _stores(settings, environ, indices, connection, resources),
                ("directory rows", indices.erase_rows),
            )
    except Stop as error:
        _log.error("%s", error)
        return 1
    except (MasscommError, psycopg.OperationalError) as error:
        _log.error("%s", error)
        return 2
    topics = [*chain_topics(), *cdc_topics(environ.get("CDC_GENERATION", "any"))]
    backups = dict(each.split("=") for each in environ.get("ERASURE_BACKUPS", "").split(",") if each)
    kept = remaining_data(topics, {name: int(days) for name, days in backups.items()}, datetime.now(UTC))
    for line in report.answer(kept, as_json=chosen.json):
        print(line)  # noqa: T201 - the command's output
    return 2 if report.failed else 0


def _stores(
    settings: Settings,
    environ: Mapping[str, str],
    indices: SearchIndices,
    connection: psycopg.Connection[Any],
    resources: ExitStack,
) -> dict[str, Step]:
    """Return the erasing step of each store. The step for delayed records is first, because it may find e-mail
    addresses that the directory no longer has.
    """
    client = DynamoDb(Limits(connect_s=2, read_s=10, attempts=5))
    events = PersonalEvents.of_types(DynamoDbEventTypes.from_environment().every())
    tables = ItemTables(
        client,
        ledger=environ.get("DELIVERY_LEDGER_TABLE", "delivery_ledger"),
        waiting=environ.get("WAITING_TABLE", "waiting"),
        sends=environ.get("SENDS_TABLE", "sends"),
        frequency_caps=environ.get("FREQUENCY_CAPS_TABLE", "frequency_caps"),
        records=DelayedRecords(settings.registry(), events),
    )
    webhooks = EventTables(
        client=client,
        dead_letters=environ.get("WEBHOOK_DEAD_LETTERS_TABLE", "webhook_dead_letters"),
        endpoints=environ.get("WEBHOOK_ENDPOINTS_TABLE", "webhook_endpoints"),
        events=events,
    )
    return {
        "delayed records": tables.erase_delayed,
        "delivery ledger": tables.erase_ledger,
        "register of sends": tables.erase_sends,
        "frequency caps": tables.erase_caps,
        "schedules": ScheduleItems(client=client, table=environ.get("CATEGORIES_TABLE", "categories")).erase,
        "dead letters of webhooks": webhooks.erase_dead_letters,
        "contacts of webhooks": webhooks.erase_contacts,
        "log of recipients": partial(metrics_store.erase_log, connection),
        "archived records": partial(_erase_records, settings, connection, resources),
        "provider messages": indices.erase_messages,
        "device endpoints": indices.erase_endpoints,
        "suppressions": indices.erase_suppressions,
        "changed preferences": indices.erase_preference_changes,
    }


def _erase_records(
    settings: Settings, connection: psycopg.Connection[Any], resources: ExitStack, person: Person
) -> int:
    if not settings.archive_dir:
        return 0
    spark = spark_session(settings)
    resources.callback(spark.stop)
    table = ArchiveTable(spark, settings)
    known, counted = database_mark(connection)
    if known is None and not counted and table.archive_id() is None:
        # Nothing has been counted: an environment without metrics, or one before its first run.
        return 0
    check_table(connection, table)
    return table.replace_user(person.club_id, person.user_id, ERASED_USER)


def addresses_of(source: str | None) -> list[str]:
    """Return the addresses of a source. Raises Stop if there is no such secret."""
    if source is None:
        return []
    if source == "-":
        return sys.stdin.read().splitlines()
    secrets = sdk.client("secretsmanager", Limits(connect_s=2, read_s=10, attempts=5))
    try:
        return str(secrets.get_secret_value(SecretId=source)["SecretString"]).splitlines()
    except (ClientError, BotoCoreError) as error:
        raise Stop(f"the secret with the addresses cannot be read: {type(error).__name__}") from error


def _chosen(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="erasure", description="Erase one person of one tenant from every store.")
    parser.add_argument("--user", type=int, required=True, help="the user's id")
    parser.add_argument("--club", type=int, required=True, help="the tenant the user belongs to")
    parser.add_argument("--addresses", help="the person's former e-mail addresses: `-`, or the name of a secret")
    parser.add_argument("--even-if-known", action="store_true", help="erase although the directory still has the user")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
